"""The demo: what it shows, to a person and to a program, and that it notices what is missing."""

import asyncio
import json

import msgspec
import pytest
from typer.testing import CliRunner

from byway.cli.main import app
from byway.local.mesh_showcase import MeshOutcome, MeshPhase, MeshStep
from byway.local.outage_showcase import OutageOutcome
from byway.local.showcase import (
    WANTED,
    ShowcaseAccount,
    ShowcaseOutcome,
    ShowcaseSubscriber,
    latency_ms,
)
from byway.model.messages import Body, Publish
from byway.session.events import Event
from tests.integration.loops import in_loop, until

pytestmark = pytest.mark.timeout(300)  # the kernels may have to be compiled


@pytest.mark.integration
def test_a_person_sees_rates_and_who_got_what() -> None:
    result = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(
        app, ["demo", "--brief", "--seconds", "1.3"]
    )
    assert result.exit_code == 0, result.output
    for words in ("B1 Cairo", "   1 s  ", "delivered", "Events received", "Every subscriber",
        "  2.0 s  without ", "  with the mesh ", "soft links are in use. With the mesh, ",
        "B1 is killed for 3 s while quotes are published", "events went round it, over ",
    ):  # fmt: skip
        assert words in result.stdout
    for name, broker, filter in WANTED:
        assert f"{name:7}   {broker}   {filter}" in result.stdout


@pytest.mark.integration
def test_a_program_gets_one_object() -> None:
    result = CliRunner().invoke(
        app, ["demo", "--brief", "--seconds", "0.5", "--rate", "600", "--json"]
    )
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    published = sum(shown["published"].values())
    assert 100 < published <= 400
    accounts = {account["name"]: account for account in shown["subscribers"]}
    assert accounts["archive"]["received"] == published
    assert accounts["idle"] == {
        "name": "idle", "broker": "B5", "filter": "symbol = 'NONE'", "expected": 0, "received": 0,
        "unexpected": 0, "latency_ms_p50": 0, "latency_ms_p99": 0, "hops": [],
    }  # fmt: skip
    for account in accounts.values():
        assert sum(account["hops"]) == account["received"] == account["expected"]
    assert len(accounts["alarm"]["hops"]) == 5  # from Rome, at the other end of the tree
    without, with_mesh = shown["mesh"]["without"], shown["mesh"]["with_mesh"]
    assert without["is_exact"]
    assert with_mesh["is_exact"]
    assert without["soft_links"] == 0 < with_mesh["soft_links"]
    assert with_mesh["settled"][1] < without["settled"][1]
    assert with_mesh["settled"][2] < without["settled"][2]
    assert "brokers only forward a quote" in shown["mesh"]["finding"]
    outage = shown["outage"]
    assert outage["is_exact"]
    assert outage["dead_s"] >= 2.5
    assert outage["crossed"] > 0  # without the mesh none does while the broker is dead
    assert outage["ways"] > 0
    assert outage["pause_s"] > 0.1  # of half a second: nothing passed by the broker before it died
    assert outage["steps"]
    assert outage["finding"].endswith("nothing was lost, doubled or out of order.")


def event(sequence: int, hops: int, **attributes: int) -> Event:
    body = msgspec.msgpack.encode(Body(attributes))
    return Event(Publish("Oslo", 1, sequence, 0, hops, 0, 0, body), ("s",))


class Told:
    """Gives some events, then none."""

    def __init__(self, *events: Event) -> None:
        self.events = list(events)

    async def take(self, most: int) -> list[Event]:
        await until(lambda: bool(self.events))
        events, self.events = self.events[:most], self.events[most:]
        return events


@in_loop
async def test_a_subscriber_keeps_account_of_what_must_come() -> None:
    who = ShowcaseSubscriber("one", "B1", "price > 3")
    for sequence, price in enumerate((2, 4, 5, 6), 1):
        who.expect("Oslo", sequence, {"price": price})
    told = Told(event(2, 3), event(4, 0), event(4, 0), event(1, 1))
    listening = asyncio.create_task(who.listen(told))  # type: ignore[arg-type]
    await until(lambda: who.unexpected == 2)
    listening.cancel()
    assert (who.expected, who.received, who.unexpected) == (3, 2, 2)
    assert who.missing == {("Oslo", 3)}
    assert who.hops == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("expected", "received", "unexpected", "complete"),
    [(3, 3, 0, True), (3, 2, 0, False), (3, 3, 1, False), (0, 0, 0, True)],
)
def test_an_outcome_is_complete_or_not(
    expected: int, received: int, unexpected: int, complete: bool
) -> None:
    account = ShowcaseAccount(
        name="one", broker="B1", filter="TRUE", expected=expected, received=received,
        unexpected=unexpected, latency_ms_p50=0, latency_ms_p99=0, hops=[],
    )  # fmt: skip
    outcome = ShowcaseOutcome(seconds=1, brokers=7, published={}, subscribers=[account])
    assert outcome.is_complete is complete


@pytest.mark.parametrize("is_exact", [True, False])
def test_the_finding_of_the_mesh_is_what_was_measured(is_exact: bool) -> None:
    steps = [MeshStep(1.0, 0.8, 2.84), MeshStep(5.0, 0.04, 0.8)]
    phases = [
        MeshPhase(
            mesh=step.t_s > 1, published=10, is_exact=is_exact or step.t_s > 1, settled=step,
            soft_links=0, steps=steps,
        )
        for step in steps
    ]  # fmt: skip
    outcome = MeshOutcome(without=phases[0], with_mesh=phases[1])
    assert outcome.finding == (
        "With the mesh, 0.0 brokers only forward a quote instead of 0.8, and a delivery takes 0.8 "
        "hops instead of 2.8."
    )
    assert outcome.is_complete is is_exact


def test_the_finding_of_the_outage_tells_of_what_is_missing() -> None:
    outcome = OutageOutcome(
        dead_s=3.04, crossed=1_234, pause_s=0.66, ways=4, is_exact=False, steps=[]
    )
    assert outcome.finding == (
        "B1 was dead for 3.0 s; after a pause of 0.7 s 1,234 events went round it, over 4 links; "
        "events are missing."
    )


def test_an_event_out_of_order_is_unexpected() -> None:
    who = ShowcaseSubscriber("one", "B1", "price > 3")
    for sequence in (1, 2):
        who.expect("Oslo", sequence, {"price": 4})
        who.expect("Rome", sequence, {"price": 4})
    who.take("Oslo", 2, 0, 1)
    who.take("Rome", 1, 0, 1)
    who.take("Oslo", 1, 0, 1)
    assert (who.received, who.unexpected) == (2, 1)


def test_latencies_of_few_events() -> None:
    assert latency_ms([]) == (0, 0)
    assert latency_ms([1_500]) == (1.5, 1.5)
    assert latency_ms(list(range(0, 101_000, 1_000))) == (50, 99)
