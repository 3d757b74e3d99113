"""Golden traces: what brokers do in small scenarios, as text that a person has read.

Each scenario has a file in testdata/golden. `pytest tests/golden --rewrite-golden` writes them
anew; what has changed is then reviewed as a diff.
"""

import difflib
import inspect
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from byway.core.invariants import validate
from byway.matching.native import KERNELS
from byway.model.messages import Delivery
from tests.golden.scenarios import clients, covering, links, mesh, others, routing
from tests.golden.scene import Scene

GOLDEN = Path(__file__).parents[2] / "testdata" / "golden"


def scenarios_of(module: ModuleType) -> dict[str, object]:
    return {
        f"{module.__name__.rpartition('.')[2]}-{name.replace('_', '-')}": function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


SCENARIOS = {
    name: scenario
    for module in (routing, covering, links, clients, others, mesh)
    for name, scenario in scenarios_of(module).items()
}


def golden_text(scenario, scene: Scene) -> str:
    """The scenario in words, then what happened."""
    told = textwrap.wrap(" ".join(scenario.__doc__.split()), 98)
    return "\n".join(f"# {line}" for line in told) + "\n\n" + scene.text.strip() + "\n"


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden(name, request):
    scene = SCENARIOS[name]()
    text = golden_text(SCENARIOS[name], scene)
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--rewrite-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    if text != expected:
        names = f"{path.name} as it was read", "as it is now"
        old, new = expected.splitlines(), text.splitlines()
        lines = difflib.unified_diff(old, new, *names, lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("name", SCENARIOS)
def test_brokers_without_kernels_do_the_same(name, monkeypatch):
    monkeypatch.setattr(KERNELS, "are_awaited", True)
    text = golden_text(SCENARIOS[name], SCENARIOS[name]())
    assert text == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", SCENARIOS)
def test_brokers_are_sound_when_a_scenario_ends(name):
    scene = SCENARIOS[name]()
    assert [validate(broker) for broker in scene.brokers.values()] == [[] for _ in scene.brokers]


def test_every_file_has_a_scenario(request):
    strays = [path for path in sorted(GOLDEN.iterdir()) if path.stem not in SCENARIOS]
    if request.config.getoption("--rewrite-golden"):
        for path in strays:
            path.unlink()
    else:
        assert strays == []


# --- what the most important ones must show, however the files are written -----------------------


def kinds(messages: list[str]) -> list[str]:
    """The first word of each."""
    return [message.partition(" ")[0].rstrip(",") for message in messages]


def delivered(scene: Scene, client: str) -> list[str]:
    """Publications that a client got."""
    publications = [delivery.publication for delivery in scene.got(client, Delivery)]
    return [f"{p.publisher}/{p.sequence}" for p in publications]


def test_an_advertisement_floods_and_does_not_come_back():
    scene = routing.chain()
    assert kinds(scene.sent("B1", "B2"))[0] == kinds(scene.sent("B2", "B3"))[0] == "Advertise"
    assert "Advertise" not in kinds(scene.sent("B2", "B1") + scene.sent("B3", "B2"))
    assert delivered(scene, "sub") == ["pub/1"]


def test_the_covered_one_is_sent_first_then_the_other_is_taken_back():
    scene = covering.unsubscribe_the_covering()
    for way in (("B3", "B2"), ("B2", "B1")):
        assert scene.sent(*way)[-2:] == ["Subscribe s2/s#1 price > 150", "Unsubscribe s1/s#1"]
    assert delivered(scene, "s2") == ["pub/1", "pub/2"]


def test_the_covered_one_is_not_known_upstream():
    for scenario in (covering.broad_then_narrow, covering.unsubscribe_the_covered):
        upstream = scenario().sent("B3", "B2")
        assert upstream == ["Subscribe s1/s#1 price > 100"]


def test_a_broader_one_replaces_the_narrower_upstream():
    scene = covering.narrow_then_broad()
    for way in (("B3", "B2"), ("B2", "B1")):
        assert kinds(scene.sent(*way)) == ["Subscribe", "Subscribe", "Unsubscribe"]
    assert (delivered(scene, "s1"), delivered(scene, "s2")) == (["pub/1"], ["pub/1", "pub/2"])


def test_publications_are_delivered_before_their_advertisement_ends():
    scene = routing.unadvertise_under_load()
    assert kinds(scene.sent("B2", "B3")) == ["Publish", "Publish", "Unadvertise"]
    assert delivered(scene, "sub") == ["pub/1", "pub/2"]


def test_a_late_advertisement_draws_the_subscription_ahead_of_its_answer():
    scene = routing.late_advertisement()
    for way in (("B3", "B2"), ("B2", "B1")):
        assert kinds(scene.sent(*way)) == ["Subscribe", "AdvertisementSettled"]


def test_a_connection_that_comes_back_compares_nothing():
    for scenario in (links.reconnect, links.confirmed_while_away, links.restart_with_storage):
        assert "SyncDigest" not in scenario().text


def test_who_held_everything_is_told_nothing_again():
    scene = links.restart_without_state()
    told = scene.sent("B2", "B1") + scene.sent("B2", "B3")
    assert not {"Advertise", "Subscribe", "Unsubscribe"} & set(kinds(told))
    scene = links.broken_rules()
    anew = scene.sent("B1", "B2")[:4], scene.sent("B2", "B1")[:4]
    expected = ["SyncDigest", "NeighbourNames", "AdvertisementsSynced", "SubscriptionsSynced"]
    assert [kinds(messages) for messages in anew] == [expected, expected]


def test_only_the_difference_is_told():
    scene = links.changes_while_a_neighbour_was_dead()
    told = scene.sent("B2", "B1")
    assert [m for m in told if m.startswith("Subscribe")] == ["Subscribe sub/cheap#3 price < 10"]
    assert "SubscriptionsSynced, ended sub/many#2" in told


def test_data_waits_for_agreement():
    scene = links.restart_without_state()
    back = scene.text[scene.text.index("It is back") :].splitlines()

    def first(*words: str) -> int:
        return next(at for at, line in enumerate(back) if all(word in line for word in words))

    # B1 knows what B2 wants, and sends when it takes data; B2 does when it knows what B3 wants
    assert first("B1 <- B2 ", "NeighbourNames B1, B3") < first("B1 -> B2 ", "data 1: Publish")
    assert first("B2 <- B3 ", "SubscriptionsSynced") < first("B2 -> B3 ", "data 1: Publish")


def test_a_publication_sent_again_is_delivered_once():
    scene = links.sent_again_after_a_death()
    assert kinds(scene.sent("B1", "B2")).count("Publish") == 2
    assert delivered(scene, "sub") == ["pub/1"]
    assert scene.confirmed("pub") == 1


def test_a_session_goes_on_where_it_was():
    scene = clients.comes_back_to_its_session()
    assert delivered(scene, "sub") == ["pub/1", "pub/2", "pub/2", "pub/3"]


def test_distances_of_the_figure():
    messages = routing.distance_since_others_matched()
    arrived = {b: messages.sent(f"B{b - 1}", f"B{b}")[0].split()[-1] for b in (6, 8)}
    assert arrived == {6: "3", 8: "1"}


def test_the_same_scenario_gives_the_same_text_twice():
    assert others.ring_is_cut().text == others.ring_is_cut().text
