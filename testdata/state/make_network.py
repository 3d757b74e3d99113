"""Makes `network-VERSION`: what three brokers of one network left, with the program that runs it.

It has been run with the program of each version, from the top of a tree of that version, which has
the helpers that it imports; they have not changed their names since 0.1.0:

    PYTHONPATH=src:. python MAKE_NETWORK.PY DIRECTORY

`hub` dials `west` and `east`, under `incremental`; all three keep their state. Client `p` of `west`
publishes, `s` of `east` has read some of it, `away` of `hub` nothing, and `here` of `hub` took a
subscription back, which `west` is still asked for (a preserved placeholder). `q` of `east` has
published too. Then `east` is stopped, so that `hub` cannot confirm what it is sent next; then
`hub`, so that `west` cannot pass on what `p` publishes last; then `west`. All three stop cleanly.
`hub-killed` is a copy of `hub` made before it was told to stop: what a kill leaves. `hub-marked` is
the `--state-dir` of `hub`, which 0.1.0 did not have. `trace` is what `hub` traced. `facts.json`
says what clients have, and what they must still get, by publisher.
"""

import inspect
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from byway import __version__
from byway.model import ANY, parse
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    DeliveriesReceived,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Settled,
    SubscribeRequest,
    UnsubscribeRequest,
)
from tests.integration import processes
from tests.integration.processes import BrokerProcess, Brokers, brokers, eventually

BOOT_ID = "Path('/nowhere')"
NAMELESS = f"""
import importlib
from pathlib import Path
for name in ("byway.storage.file_system", "byway.runtime.replay"):
    try:
        importlib.import_module(name)._BOOT_ID = {BOOT_ID}
    except ImportError:
        pass
"""
"""The machine's boot id stays out of what is kept."""
HOUR_US = 3_600_000_000
SETTINGS = (
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
    "--set", "limits.drain_ms=300",
    "--set", "limits.retry_ms=20", "--set", "limits.retry_ms_max=200",
    "--set", "core.covering=incremental", "--set", "core.incremental_bursts=[1, 5000]",
    "--set", "core.pruning_samples_min=2",
)  # fmt: skip
ABOUT_X = msgspec.msgpack.encode(Body({"x": 7, "y": 7}))
ABOUT_Z = msgspec.msgpack.encode(Body({"z": 1}))
CONFIRMED, AT_HUB, ALL = 10, 15, 20
"""How much of what `p` publishes is confirmed, has come to `hub`, and is accepted by `west`."""
FACTS = {
    "version": __version__,
    "published": {"p": ALL, "q": 3},
    "confirmed": {"p": CONFIRMED, "q": 3},
    "clients": {
        "p": {"home": "west", "received": 0, "missing": {}},
        "q": {"home": "east", "received": 0, "missing": {}},
        "s": {"home": "east", "received": 4, "missing": {"p": [5, ALL]}},
        "away": {"home": "hub", "received": 0, "missing": {"p": [1, ALL], "q": [1, 3]}},
        "here": {"home": "hub", "received": 10, "missing": {"p": [11, ALL]}},
    },
}
"""`received` counts deliveries; `missing` has the first and last number of publications."""


def start(started: Brokers, directory: Path, name: str, *arguments: str) -> BrokerProcess:
    program = NAMELESS + processes.PROGRAM
    told = ("--id", name, "--data", str(directory / name), *SETTINGS, *arguments)
    if "program" in inspect.signature(started.start).parameters:
        return started.start(*told, program=program).ready()
    own, processes.PROGRAM = processes.PROGRAM, program
    try:
        return started.start(*told).ready()
    finally:
        processes.PROGRAM = own


def stop(broker: BrokerProcess) -> None:
    broker.signal(signal.SIGTERM)
    assert broker.wait() == 0, repr(broker)


def publish(client: processes.RawClient, first: int, last: int, body: bytes) -> None:
    client.ask(*(PublishRequest(sequence, body) for sequence in range(first, last + 1)))


def live(started: Brokers, directory: Path) -> None:
    """All that the brokers go through, up to the end of the last one."""
    west, east = (start(started, directory, name) for name in ("west", "east"))
    marked = () if __version__ == "0.1.0" else ("--state-dir", str(directory / "hub-marked"))
    hub = start(
        started, directory, "hub", "--trace", str(directory / "trace"), *marked,
        "--neighbour", f"west@{west.address}", "--neighbour", f"east@{east.address}",
    )  # fmt: skip
    for end in (west, east):
        end.logged("link to hub is up")
    p, q = started.client(west, "p", HOUR_US), started.client(east, "q", HOUR_US)
    p.ask(AdvertiseRequest("a", ANY))
    p.is_told(Settled("a"))
    q.ask(AdvertiseRequest("b", parse("z > 0")))
    q.is_told(Settled("b"))
    here, away = (started.client(hub, name, HOUR_US) for name in ("here", "away"))
    s = started.client(east, "s", HOUR_US)
    for client, name, wanted in (
        (here, "broad", "x > 0"), (away, "t", "x > 3 AND y > 3"), (away, "v", "z > 0"),
        (s, "w", "x > 5 AND y > 5"),
    ):  # fmt: skip
        client.ask(SubscribeRequest(name, parse(wanted)))
        client.is_told(Settled(name))

    publish(p, 1, CONFIRMED, ABOUT_X)
    p.is_told(PublicationsConfirmed(CONFIRMED))
    publish(q, 1, 3, ABOUT_Z)
    q.is_told(PublicationsConfirmed(3))
    for client in (here, s):
        client.until(lambda client=client: len(client.deliveries) == CONFIRMED)
    here.ask(DeliveriesReceived(CONFIRMED), UnsubscribeRequest(("broad",)))
    here.ask(SubscribeRequest("u", parse("x > 6")))
    here.is_told(Settled("u"))
    s.ask(DeliveriesReceived(4))
    s.ask(SubscribeRequest("acknowledged", parse("n = 1")))
    s.is_told(Settled("acknowledged"))  # and with it the deliveries
    for client in (s, away):
        client.close()

    stop(east)
    eventually(lambda: "link to east is down" in hub.log)
    publish(p, CONFIRMED + 1, AT_HUB, ABOUT_X)
    p.is_told(PublicationsAccepted(AT_HUB))
    here.until(lambda: len(here.deliveries) == AT_HUB)
    shutil.copytree(directory / "hub", directory / "hub-killed")
    stop(hub)
    eventually(lambda: "link to hub is down" in west.log)
    publish(p, AT_HUB + 1, ALL, ABOUT_X)
    p.is_told(PublicationsAccepted(ALL))
    stop(west)


def make(into: Path) -> Path:
    """Make the directory of this version; its path."""
    network = into / f"network-{__version__}"
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        with brokers() as started:
            live(started, directory)
        for lock in directory.glob("*/lock"):
            lock.unlink()
        (directory / "facts.json").write_text(json.dumps(FACTS, indent=1) + "\n")
        shutil.rmtree(network, ignore_errors=True)
        shutil.copytree(directory, network)
    return network


if __name__ == "__main__":
    make(Path(sys.argv[1]))
