"""Links of several kinds between broker processes: opened and closed while publications travel over
the tree, after restarts of either end, and dialled from both ends at once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

import byway
from byway.model.status import BrokerStatus
from tests.integration.loops import in_loop, until
from tests.integration.network import ANYWHERE, RETRY, SESSION, Account
from tests.integration.ordered import DIRECTORY, ORDERED, SETTINGS, order
from tests.integration.processes import BrokerProcess, Brokers, brokers, environment, eventually

pytestmark = pytest.mark.integration

Links = dict[str, tuple[str, str]]
"""By broker, the kind and the state of the link to it."""


class Net:
    """Broker processes that obey orders."""

    def __init__(self, started: Brokers, directory: Path) -> None:
        self._started, self._directory = started, directory
        self.brokers: dict[str, BrokerProcess] = {}

    def __getitem__(self, name: str) -> BrokerProcess:
        return self.brokers[name]

    def start(self, name: str, *arguments: str, data: bool = False) -> BrokerProcess:
        """Start a broker; it is ready."""
        kept = ("--data", str(self._directory / name)) if data else ()
        common = ("--id", name, *ANYWHERE, *RETRY, *SETTINGS, "--set", "limits.refused_max=200ms")
        self.brokers[name] = self._started.start(*common, *kept, *arguments, program=ORDERED)
        return self.brokers[name].ready()

    def at(self, *names: str) -> list[str]:
        """The arguments that list brokers as neighbours."""
        return [word for name in names for word in ("--neighbour", f"{name}@{self[name].address}")]

    def restart(self, name: str, *, killed: bool = True, without: str = "") -> BrokerProcess:
        """End a broker and start it again where it was, or without one of its neighbours."""
        old = self[name]
        if killed:
            old.kill()
        else:
            old.signal(signal.SIGTERM)
            assert old.wait() == 0
        old.arguments = tuple(_without(list(old.arguments), without))
        self.brokers[name] = self._started.again(old)
        return self[name].ready()

    def open(self, a: str, b: str, kind: str = "soft") -> None:
        """Have a broker open a link."""
        order(self[a], f"open {kind} {b} {self[b].address}")

    def status(self, name: str) -> BrokerStatus:
        """What a broker says of itself."""
        with byway.blocking.connect(f"byway://{self[name].address}") as client:
            return client.broker_status()

    def links(self, name: str) -> Links:
        """The links of a broker."""
        return {link.broker: (link.kind, link.state) for link in self.status(name).links}

    def has(self, name: str, **links: str) -> None:
        """Wait until a broker has these links and no others, all up."""
        expected = {other: (kind, "up") for other, kind in links.items()}
        seen: list[Links] = [{}]

        def happened() -> bool:
            seen[0] = self.links(name)
            return seen[0] == expected

        try:
            eventually(happened)
        except AssertionError:
            logs = [line for line in self[name].lines if "client" not in line]
            raise AssertionError(f"{name} has {seen[0]}, not {expected}: {logs}") from None

    def no_faults(self) -> None:
        """Nothing went wrong inside a broker that runs."""
        for broker in self.brokers.values():
            if broker.process.poll() is None:
                assert broker.metric("byway_internal_errors_total") == 0, broker


def _without(arguments: list[str], neighbour: str) -> list[str]:
    for place, word in enumerate(arguments):
        if neighbour and word.startswith(f"{neighbour}@"):
            return arguments[: place - 1] + arguments[place + 1 :]
    return arguments


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Net]:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    with brokers() as started:
        found = Net(started, tmp_path)
        yield found
        found.no_faults()


def chain(net: Net, *, data: str = "", last: str = "C") -> Net:
    """A – B – C; those named in `data` keep their state."""
    net.start("B", data="B" in data)
    net.start("A", *net.at("B"), data="A" in data)
    net.start(last, *net.at("B"), data=last in data)
    net.has("B", A="primary", **{last: "primary"})
    return net


async def carries(net: Net, at: str, to: str, meanwhile: Callable[[], object]) -> None:
    """Publications from one broker to another arrive once and in order while something happens."""
    account = Account()

    def connect(home: str, name: str) -> byway.Client:
        return byway.connect(f"byway://{net[home].address}", name=name, **SESSION)

    async with aclosing(account):
        publisher = await account.publisher(connect(at, "p"))
        await account.subscriber(connect(to, "s"))
        happening = asyncio.create_task(asyncio.to_thread(meanwhile))
        while not happening.done():
            await account.publish(publisher, 50)
        await happening
        await account.publish(publisher, 50)
        await until(account.is_complete)
        account.is_exact()


# --- soft links ----------------------------------------------------------------------------------


@in_loop
async def test_a_soft_link_comes_and_goes_while_publications_travel_over_the_tree(net: Net) -> None:
    await asyncio.to_thread(chain, net)

    def open_and_close() -> None:
        for closer in ("A", "C"):
            net.open("A", "C")
            net.has("A", B="primary", C="soft")
            net.has("C", B="primary", A="soft")
            order(net[closer], f"close {'C' if closer == 'A' else 'A'}")
            net.has("A", B="primary")
            net.has("C", B="primary")

    await carries(net, "A", "C", open_and_close)
    for broker in (net["A"], net["C"]):
        assert "soft link to" in broker.log
        assert "is closed: the test wants so" in broker.log
        assert "WARN" not in broker.log


def test_a_soft_link_is_seen_from_outside_and_makes_no_neighbour(net: Net, tmp_path: Path) -> None:
    chain(net)
    marked = net.start("D", *net.at("B"), "--state-dir", str(tmp_path / "marked"))
    net.open("A", "D")
    net.has("D", B="primary", A="soft")
    (link,) = [link for link in net.status("D").links if link.broker == "A"]
    assert (link.kind, link.listen) == ("soft", net["A"].address)
    labels = {"link": "A", "kind": "soft", "listen": net["A"].address}
    assert marked.metric("byway_link_info", **labels) == 1
    marker = json.loads((tmp_path / "marked" / "neighbours.json").read_text())
    assert marker["neighbours"] == ["B"]
    shown = _byway("topology", "show", "--broker", f"byway://{marked.address}")
    assert f"A  soft link up  {net['A'].address}\n" in shown
    shown = _byway("topology", "show", "--json", "--broker", f"byway://{marked.address}")
    assert [link["kind"] for link in json.loads(shown)["links"]] == ["soft", "primary"]
    assert _byway("topology", "leave", "--http", marked.http).startswith("D has left for good")
    assert marked.wait() == 0


def _byway(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "byway", *arguments],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("data", ["", "AC"], ids=["in memory", "data"])
def test_a_soft_link_after_restarts_of_either_end(net: Net, data: str) -> None:
    """The end that was dialled need not know of it; the one that dials goes on if it has its state,
    and else the link is down until it is opened again."""
    chain(net, data=data)
    net.open("A", "C")
    net.has("A", B="primary", C="soft")
    net.restart("C")
    net.has("A", B="primary", C="soft")
    net.has("C", B="primary", A="soft")
    net.restart("A")
    if data:
        net.has("C", B="primary", A="soft")
    else:
        net.has("A", B="primary")
        eventually(lambda: net.links("C")["A"] == ("soft", "down"))
        net.open("A", "C")
    net.has("A", B="primary", C="soft")
    net.has("C", B="primary", A="soft")
    order(net["A"], "close C")
    net.has("C", B="primary")
    net.restart("A", killed=False)
    net.restart("C", killed=False)
    net.has("A", B="primary")
    net.has("C", B="primary")


@pytest.mark.parametrize(
    ("kind_a", "kind_c", "expected"),
    [("soft", "soft", "soft"), ("primary", "primary", "primary"), ("soft", "primary", "primary"),
     ("primary", "soft", "primary")],
)  # fmt: skip
def test_both_ends_dial_at_once(net: Net, kind_a: str, kind_c: str, expected: str) -> None:
    """One connection is left, whatever they are for; a link of the tree outranks a soft one."""
    net.start("A")
    net.start("C")
    for _ in range(4):
        net.open("A", "C", kind_a)
        net.open("C", "A", kind_c)
        net.has("A", C=expected)
        net.has("C", A=expected)
        order(net["A"], "close C")
        order(net["C"], "close A")
        net.has("A")
        net.has("C")


def test_a_soft_link_does_not_touch_a_link_of_the_tree(net: Net) -> None:
    chain(net)
    net.open("A", "B")  # its neighbour
    net.open("B", "A")
    net.open("A", "C")
    net.has("A", B="primary", C="soft")
    for broker in (net["A"], net["B"]):
        assert "is down" not in broker.log
        assert "is closed" not in broker.log


# --- neighbours are state ------------------------------------------------------------------------


def test_a_neighbour_learnt_at_run_time_is_one_after_a_restart(net: Net) -> None:
    net.start("A", data=True)
    net.start("C", data=True)
    net.open("A", "C", "primary")
    net.has("A", C="primary")
    for name in ("A", "C", "A"):
        net.restart(name)
        net.has("A", C="primary")
        net.has("C", A="primary")
    for name in ("A", "C"):
        net[name].kill()
    net.restart("C")  # each of both knows where the other is
    net.restart("A")
    net.has("C", A="primary")


def test_a_learnt_neighbour_is_dialled_again_by_the_restart_marker_alone(
    net: Net, tmp_path: Path
) -> None:
    net.start("A", "--state-dir", str(tmp_path / "a"))
    net.start("C", "--state-dir", str(tmp_path / "c"))
    net.open("A", "C", "primary")
    net.has("C", A="primary")
    for name in ("A", "C"):
        net[name].kill()
    net.restart("C")
    net.restart("A")
    net.has("A", C="primary")
    net.has("C", A="primary")


@pytest.mark.parametrize("keeping", ["data", "marker"])
def test_parted_neighbours_stay_parted_until_the_list_changes(
    net: Net, tmp_path: Path, keeping: str
) -> None:
    """Both ends remember; what an operator says at one of them is enough."""
    kept = keeping == "data"

    def marker(name: str) -> tuple[str, ...]:
        return () if kept else ("--state-dir", str(tmp_path / f"{name}-marked"))

    net.start("B", *marker("B"), data=kept)
    net.start("C", *net.at("B"), *marker("C"), data=kept)
    net.has("B", C="primary")
    order(net["C"], "part B")
    net.has("B")
    net.restart("C")
    net["C"].logged("is listed and not dialled, for it parted for good: the test parts them")
    net.has("C")
    listed = net["C"].arguments
    net.restart("C", without="B")  # an operator removes it …
    net.has("C")
    net["C"].arguments = listed  # … and adds it again
    net.restart("C")
    net.has("B", C="primary")
    for name in ("B", "C"):
        net.restart(name)
        net.has("B", C="primary")
        net.has("C", B="primary")


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize("keeping", ["data", "marker"])
def test_one_listed_by_address_and_removed_from_the_list_is_none_any_more(
    net: Net, tmp_path: Path, keeping: str, killed: bool
) -> None:
    """Its id is learnt when it greets, and counts after a restart in which it could not greet."""
    net.start("B")
    marker = () if keeping == "data" else ("--state-dir", str(tmp_path / "marked"))
    at_b = ("--neighbour", net["B"].address)
    net.start("C", *at_b, *marker, data=keeping == "data")
    net.has("C", B="primary")
    net["B"].kill()
    net.restart("C", killed=killed)
    assert list(net.links("C")) == ["B"]
    net["C"].arguments = tuple(word for word in net["C"].arguments if word not in at_b)
    net.restart("C", killed=killed)
    assert net.links("C") == {}


@pytest.mark.parametrize("keeping", ["data", "marker"])
@pytest.mark.parametrize("listed", ["by id", "by address"])
def test_that_a_parted_neighbour_was_added_again_outlives_restarts(
    net: Net, tmp_path: Path, keeping: str, listed: str
) -> None:
    """The other end is away meanwhile, and is told when it is back."""
    kept = keeping == "data"
    marker = () if kept else ("--state-dir", str(tmp_path / "marked"))
    net.start("B", data=True)
    at_b = ("--neighbour", f"{'B@' if listed == 'by id' else ''}{net['B'].address}")
    net.start("C", *at_b, *marker, data=kept)
    net.has("B", C="primary")
    order(net["C"], "part B")
    net.has("B")
    net["B"].kill()
    with_b = net["C"].arguments
    net["C"].arguments = tuple(word for word in with_b if word not in at_b)
    net.restart("C")
    net["C"].arguments = with_b
    net.restart("C")
    net.restart("C")
    net.restart("B")
    net.has("B", C="primary")
    net.has("C", B="primary")


def test_one_end_that_remembers_is_enough(net: Net) -> None:
    """The broker that lists the other has lost its memory; the other one tells it again."""
    net.start("B", data=True)
    net.start("C", *net.at("B"))
    net.has("B", C="primary")
    order(net["C"], "part B")
    net.has("B")
    net.restart("C")
    net["C"].logged("is listed and not dialled, for it parted for good: the test parts them")
    net["B"].logged("C connects as a neighbour, and is none any more")
    net.has("B")
    net.has("C")


def test_a_soft_link_to_a_former_neighbour(net: Net) -> None:
    net.start("B")
    net.start("C", *net.at("B"))
    net.has("B", C="primary")
    order(net["C"], "part B")
    net.has("B")
    net.open("C", "B")
    net.has("B", C="soft")
    net.has("C", B="soft")
