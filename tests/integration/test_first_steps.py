"""A broker without settings, and what a person types next: real processes, no arguments."""

import contextlib
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from byway.runtime.settings import host_id
from tests.integration.processes import READY_S, WAIT_S, brokers, environment

pytestmark = pytest.mark.integration

BYWAY = (sys.executable, "-m", "byway")


def byway(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`byway`, done."""
    return subprocess.run(
        [*BYWAY, *arguments],
        capture_output=True, text=True, timeout=READY_S, check=False,
        env=environment() | variables,
    )  # fmt: skip


@contextlib.contextmanager
def running(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`byway` while it runs; it is ended with this."""
    process = subprocess.Popen(
        [*BYWAY, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment() | variables,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT_S)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next lines of its stderr."""
    assert process.stderr is not None
    return [process.stderr.readline().rstrip("\n") for _ in range(count)]


def test_what_is_printed_can_be_typed() -> None:
    with running("broker", BYWAY_LISTEN="127.0.0.1:0") as broker:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        found = re.match(r"ready (\S+) (127\.0\.0\.1:\d+) in memory only", ready)
        assert found is not None, ready
        name, address = found.groups()
        assert name == host_id()

        said = lines(broker, 4)
        assert said[0] == f"{name} is ready. Type in another terminal:"
        sub, pub = (shlex.split(line) for line in (said[1], said[3]))
        assert (sub[:2], pub[:2]) == (["byway", "sub"], ["byway", "pub"])
        assert sub[2:4] == pub[2:4] == ["--broker", address]

        with running(*sub[1:], "--count", "1") as subscriber:
            assert lines(subscriber, 1)[0].startswith(f"settled at {name}: ")
            published = byway(*pub[1:])
            assert published.stdout.startswith("1 confirmed"), published.stderr
            printed, _ = subscriber.communicate(timeout=WAIT_S)
            assert "symbol='IBM'  price=20" in printed
            assert subscriber.returncode == 0


def test_the_variable_is_the_default_of_every_client_command() -> None:
    with brokers() as started:
        broker = started.start("--id", "hub", "--listen", "127.0.0.1:0").ready()
        assert "Type in another terminal" not in broker.log
        for address in (broker.address, f"byway://{broker.address}", f"localhost:{broker.port}"):
            shown = byway("topology", "show", "--json", BYWAY_BROKER=address)
            assert json.loads(shown.stdout)["broker"] == "hub", shown.stderr
        assert byway("pub", '{"n": 1}', BYWAY_BROKER=broker.address).returncode == 0
        done = byway("bench", "--publications", "10", "--json", BYWAY_BROKER=broker.address)
        assert json.loads(done.stdout)["received"] == 10
        flag = byway("topology", "show", "--broker", broker.address, BYWAY_BROKER="localhost:1")
        assert flag.stdout.startswith("hub "), flag.stderr


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # it may be in use already: that is as good
            taken.bind(("127.0.0.1", 7001))
            taken.listen()
        refused = byway("broker")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.rstrip().endswith(
        "listen: cannot listen on 127.0.0.1:7001: another process uses this port; stop that one, "
        "or choose another port (--listen 127.0.0.1:7002, or --listen 127.0.0.1:0 for any that is "
        "free)"
    )


def test_a_second_broker_of_this_host_is_told_to_take_another_id() -> None:
    with brokers() as started:
        first = started.start("--listen", "127.0.0.1:0").ready()
        second = started.start("--listen", "127.0.0.1:0", "--neighbour", first.address).ready()
        second.logged(f"this broker is called {host_id()} too: give one of both another id (--id)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "192.0.2.1:0"), "this machine does not have that address"),
        (("--data", "/proc/nothing", "--listen", "127.0.0.1:0"), "/proc/nothing"),
    ],
)
def test_a_broker_that_cannot_start_says_why(arguments: tuple[str, ...], said: str) -> None:
    done = byway("broker", *arguments)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert said in done.stderr
    for words in ("Errno", "Traceback", "Exception"):
        assert words not in done.stderr
