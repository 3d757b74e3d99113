"""A broker is dead, and a new publisher wants to publish: it waits, or it publishes all the same.

A middle broker M has the neighbours A, B and C, all processes. C is killed before the publisher
comes, so that no new advertisement is settled; but after M has compared tables with it, since a
broker that never did takes no data until `core.sync_wait_us` is over.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

import byway
from byway.model.status import BrokerStatus
from tests.integration.network import Star
from tests.integration.processes import WAIT_S, brokers, environment, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def star() -> Iterator[Star]:
    """A network whose broker C is dead, and known to be."""
    with brokers() as started:
        found = Star(started, None).start(("A", "B", "C"))
        with (
            byway.blocking.connect(url(found, "A")) as near,
            byway.blocking.connect(url(found, "M")) as middle,
        ):
            eventually(lambda: is_complete(middle.broker_status()))
            found.brokers["C"].kill()
            eventually(lambda: near.broker_status().away == ["C"])
        yield found


def is_complete(status: BrokerStatus) -> bool:
    """Whether tables were compared with all three neighbours."""
    return [link.state for link in status.links] == ["up"] * 3 and not status.missing


def url(star: Star, name: str) -> str:
    return f"byway://{star.brokers[name].address}"


def pub(star: Star, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`byway pub` at A."""
    return subprocess.run(
        [sys.executable, "-m", "byway", "pub", "--broker", url(star, "A"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )


def test_by_default_pub_waits_and_names_the_broker_that_is_not_reached(star: Star) -> None:
    done = pub(star, "--timeout", "0.5", '{"n": 1}')
    assert (done.returncode, done.stdout) == (1, "")
    first, hint = done.stderr.splitlines()
    assert "is not settled within 0.5 s" in first
    assert first.endswith(": waits for C")
    assert hint == "use --wait TIME or --no-wait to publish all the same"


def test_pub_publishes_all_the_same_and_those_that_are_reached_get_it_once(star: Star) -> None:
    with (
        byway.blocking.connect(url(star, "A")) as near,
        byway.blocking.connect(url(star, "B")) as far,
        near.subscribe("n > 0", settled=False) as at_a,
        far.subscribe("n > 0", settled=False) as at_b,
    ):
        eventually(lambda: near.broker_status().subscriptions)
        eventually(lambda: far.broker_status().subscriptions)
        done = pub(star, "--no-wait", "--json", '{"n": 1}')
        assert (done.returncode, done.stderr) == (0, "")
        facts = json.loads(done.stdout)
        assert facts["confirmed"] + facts["unconfirmed"] == 1
        assert (facts["refused"], facts["unsettled"]) == (0, 1)
        for n in (2, 3):
            done = pub(star, "--wait", "600ms", f'{{"n": {n}}}')
            assert done.returncode == 0
            assert done.stderr == (
                "warning: C not reached within 0.6 s: publishing all the same; "
                "subscribers there and behind may miss it\n"
            )
        assert up_to(3, at_a) == [1, 2, 3]
        assert up_to(3, at_b) in ([2, 3], [1, 2, 3])  # it may have had no time to want the first


def up_to(last: int, subscription: byway.blocking.Subscription) -> list[object]:
    """The attribute `n` of all events up to the last one."""
    found = [subscription.next(WAIT_S).attributes["n"]]
    while found[-1] != last:
        found.append(subscription.next(WAIT_S).attributes["n"])
    return found


def test_a_client_may_publish_without_waiting_and_is_told_who_is_missing(star: Star) -> None:
    with byway.blocking.connect(url(star, "A")) as client:
        with client.advertise("m > 0", settled=False) as advertisement:
            receipt = client.publish({"m": 1}, mandatory=True)  # it is not known who wants it
            assert receipt.routes is not None
            assert (receipt.routes.clients, receipt.routes.links) == (0, ())
            assert not receipt.routes.is_settled
            with pytest.raises(byway.NotSettledError) as caught:
                advertisement.settled(0.2)
            assert caught.value.brokers == ("C",)
        with pytest.raises(byway.NotSettledError, match="waits for C"):
            client.advertise("m > 0", timeout=0.2)
