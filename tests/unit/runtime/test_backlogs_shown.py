"""Who holds up whom can be seen: `byway topology show`."""

import re
from pathlib import Path

import msgspec
from rich.console import Console
from rich.tree import Tree

from byway.cli.topology import _show_tree, _tree
from byway.model.status import (
    BrokerStatus,
    LinkStatus,
    MeshLinkStatus,
    MeshStatus,
    PublisherStatus,
    SlowSubscriberStatus,
)


def shown(**facts: object) -> list[str]:
    """The lines below that of the broker."""
    status = BrokerStatus(
        broker="hub", version="9", incarnation=1, listen="h:1", clients=3, sessions_away=0,
        advertisements=1, subscriptions=2, queued=0, **({"links": []} | facts),
    )  # fmt: skip
    console = Console(highlight=False, width=200, no_color=True)
    with console.capture() as capture:
        console.print(_tree(status, preserved=False))
    return [line.rstrip()[4:] for line in capture.get().splitlines()[1:]]


def test_who_holds_up_whom() -> None:
    west = LinkStatus(
        broker="west", state="up", kind="soft", unconfirmed=1_700, held=3, oldest_s=12.4,
        blocked_s=9.6, waiting=40, waiting_bytes=9_000,
    )  # fmt: skip
    writer = PublisherStatus(
        publisher="writer", local=True, unconfirmed=1_650, held=2, oldest_s=12.4,
        links={"west": 1_650, "east": 7},
    )  # fmt: skip
    other = PublisherStatus(publisher="other", unconfirmed=50)
    mute = SlowSubscriberStatus(client="mute", waiting=400, waiting_bytes=26_000, blocked_s=3.2)
    assert shown(
        links=[west], publishers=[writer, other], publishers_waiting=2, subscribers=[mute],
        slow_subscribers=1, publications_held=True,
    ) == [
        "subscriber mute has not read for 3 s: 400 deliveries (26,000 bytes) wait for it",
        "publications of clients wait until slow subscribers have read",
        "link west is slow: 1,700 messages are not confirmed, the oldest for 12 s, it has not "
        "read for 10 s",
        "publisher writer waits for west, east: 1,650 publications are not confirmed (2 held back),"
        " the oldest for 12 s",
        "publisher other waits for sessions of clients: 50 publications are not confirmed",
        "west  soft link up  1,700 messages unconfirmed, 3 held back, 40 messages (9,000 "
        "bytes) wait for it",
    ]  # fmt: skip


def test_what_is_new_is_not_slow_yet() -> None:
    east = LinkStatus(broker="east", state="up", kind="soft", unconfirmed=5, oldest_s=0.9)
    writer = PublisherStatus(publisher="writer", unconfirmed=5, oldest_s=0.9, links={"east": 5})
    mute = SlowSubscriberStatus(client="mute", waiting=1, waiting_bytes=90, blocked_s=0.5)
    assert shown(
        links=[east], publishers=[writer], publishers_waiting=1, subscribers=[mute],
        slow_subscribers=1,
    ) == ["east  soft link up  5 messages unconfirmed"]  # fmt: skip


def test_lists_say_what_they_leave_out() -> None:
    assert shown(publishers_waiting=21, slow_subscribers=1_200) == [
        "1,200 more subscribers do not read",
        "21 more publishers have unconfirmed publications",
    ]


def test_who_waits_for_neighbours_that_are_not_known_yet() -> None:
    """They are not named, and no session is to blame."""
    early = PublisherStatus(publisher="early", local=True, unconfirmed=7, unlisted=7, oldest_s=1.2)
    both = PublisherStatus(
        publisher="both", unconfirmed=9, unlisted=9, oldest_s=1.4, links={"west": 4}
    )
    new = PublisherStatus(publisher="new", unconfirmed=1, unlisted=1, oldest_s=0.3)
    assert shown(publishers=[both, early, new], publishers_waiting=3) == [
        "publisher both waits for west, neighbours that are not listed and may connect: 9 "
        "publications are not confirmed, the oldest for 1 s",
        "publisher early waits for neighbours that are not listed and may connect: 7 publications "
        "are not confirmed, the oldest for 1 s",
    ]


def test_links_and_candidates_of_a_mesh() -> None:
    mesh = MeshStatus(
        delta=4,
        strategy="S2",
        held=7,
        links=[
            MeshLinkStatus(broker="east", kind="primary", rate=410.25),
            MeshLinkStatus(broker="far", kind="candidate", span=4, rate=12, gain=36),
            MeshLinkStatus(broker="lost", kind="candidate", span=0),
            MeshLinkStatus(broker="west", kind="soft", use="in use", span=3, rate=200, gain=400),
        ],
    )
    links = [
        LinkStatus(broker="east", state="up", address="e:1"),
        LinkStatus(broker="west", state="up", kind="soft"),
    ]
    assert shown(mesh=mesh, links=links) == [
        "mesh: Δ 4, strategy S2, 7 publications held back",
        "east  up  e:1, 410.2 publications/s, advertisements 0 in 0 out, subscriptions 0 in 0 out",
        "west  soft link up  in use, 3 hops of the tree, 200.0 publications/s, gain 400.0",
        "far  candidate  4 hops of the tree, 12.0 publications/s, gain 36.0",
        "lost  candidate  not on the map, 0.0 publications/s, gain 0.0",
    ]


def test_what_is_dead_what_goes_round_it_and_what_is_parked() -> None:
    """As the guide shows it."""
    page = (Path(__file__).parents[3] / "docs/guide/mesh.md").read_text()
    (block,) = re.findall(r"```text\n(A .*?is away.*?)```", page[page.index("## When a") :], re.S)
    mesh = MeshStatus(
        delta=4,
        strategy="S2",
        parked=31,
        links=[
            MeshLinkStatus(broker="B", kind="primary", rate=0),
            MeshLinkStatus(
                broker="C", kind="soft", use="in use", span=2, rate=200, gain=200, round=["B"]
            ),
        ],
    )
    links = [
        LinkStatus(
            broker="B", state="down", bypassed_s=12.3, parked=31, oldest_parked_s=11.2,
            subscriptions=2, advertisements_sent=1,
        ),
        LinkStatus(broker="C", state="up", kind="soft", listen="127.0.0.1:7103"),
    ]  # fmt: skip
    meter = PublisherStatus(publisher="meter", local=True, unconfirmed=31, parked={"B": 31})
    old = msgspec.structs.replace(meter, oldest_s=11.2)
    assert shown(mesh=mesh, links=links, publishers=[old], publishers_waiting=1) == [
        line[4:] for line in block.splitlines()[1:]
    ]
    none = msgspec.structs.replace(links[0], parked=0, oldest_parked_s=0.0)
    assert shown(mesh=mesh, links=[none])[0] == (
        "B is away: for 12 s publications have gone round it, and none wait for it"
    )
    one = msgspec.structs.replace(links[0], parked=1, unconfirmed=1)
    lines = shown(links=[one])
    assert lines[0] == (
        "B is away for 12 s: no link leads round it now, and 1 waits for it or for a way round, "
        "the oldest for 11 s"
    )
    assert ", 1 message unconfirmed, bypassed for 12 s, 1 parked" in lines[1]


def test_who_is_kept_back() -> None:
    mesh = MeshStatus(delta=4, strategy="S2", held=1, kept_back=["meter"])
    assert shown(mesh=mesh) == [
        "publisher meter is held until what it has sent the long way is confirmed, so that it can "
        "take soft links; if nothing is, it goes on (mesh.detour_max)",
        "mesh: Δ 4, strategy S2, 1 publication held back",
    ]


def test_lines_are_whole_where_no_terminal_is(capsys, monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    _show_tree(Tree("x" * 300))
    assert capsys.readouterr().out == "x" * 300 + "\n"
    monkeypatch.setenv("COLUMNS", "100")
    _show_tree(Tree("x" * 300))
    assert len(capsys.readouterr().out.splitlines()) == 3
