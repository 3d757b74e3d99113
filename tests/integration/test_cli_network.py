"""`byway sub`, `pub`, `topology show` and `bench` as processes, with two brokers on loopback."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

import byway
from byway.cli.main import app
from tests.integration.processes import WAIT_S, environment, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """The addresses of two brokers, hub and leaf, that are linked."""
    with byway.blocking.LocalOverlay([("hub", "leaf")]) as net:
        yield net.url("hub"), net.url("leaf")


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "byway", *arguments]


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        program(*arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**environment(), "COLUMNS": "120"},
    )


def _takes_interrupts() -> None:
    """Take SIGINT as from a terminal, also if this suite runs in the background, where shells have
    their children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Sub:
    """`byway sub`, settled."""

    def __init__(self, broker: str, *arguments: str, reads: bool = True) -> None:
        self.process = subprocess.Popen(
            program("sub", "--broker", broker, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            preexec_fn=_takes_interrupts,
        )
        self.lines: list[str] = []
        assert self.process.stderr is not None
        self.settled = self.process.stderr.readline()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def end(self) -> int:
        """Its exit code; it has ended or does so soon."""
        code = self.process.wait(WAIT_S)
        if self._reader.ident is not None:
            self._reader.join(WAIT_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def test_events_travel_as_lines_and_can_be_published_again(pair: Pair) -> None:
    hub, leaf = pair
    sub = Sub(leaf, "price > 18", "--json", "--count", "3", "--name", "reader")
    assert sub.settled == "settled at leaf: price > 18\n"
    given = [
        '{"symbol": "YHOO", "price": 19.5}',
        '{"symbol": "IBM", "price": 9}',
        '{"attributes": {"price": 20}, "data": "some text"}',
        '{"attributes": {"price": 21}, "data_base64": "/w=="}',
    ]
    done = run("pub", "--broker", hub, "--name", "writer", "--json", *given)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["confirmed"], facts["refused"], facts["advertisements"]) == (4, 0, 2)
    assert sub.end() == 0
    events = [json.loads(line) for line in sub.lines]
    assert [event["attributes"] for event in events] == [
        {"symbol": "YHOO", "price": 19.5}, {"price": 20}, {"price": 21},
    ]  # fmt: skip
    assert [(event["publisher"], event["sequence"], event["hops"]) for event in events] == [
        ("writer", 1, 1), ("writer", 3, 1), ("writer", 4, 1),
    ]  # fmt: skip
    assert [event.get("data", event.get("data_base64")) for event in events] == [
        "", "some text", "/w==",
    ]  # fmt: skip

    again = Sub(leaf, "price > 18", "--json", "--count", "3")
    relayed = run("pub", "--broker", hub, text="\n".join(sub.lines) + "\n")
    assert relayed.stdout.startswith("3 confirmed, in ")
    assert again.end() == 0
    kept = ("attributes", "data", "data_base64")
    assert [{key: json.loads(line).get(key) for key in kept} for line in again.lines] == [
        {key: event.get(key) for key in kept} for event in events
    ]


def test_sub_prints_at_once_and_ends_cleanly(pair: Pair) -> None:
    hub, leaf = pair
    sub = Sub(leaf, "a = 1", "a = 2")
    assert sub.settled == "settled at leaf: a = 1 | a = 2\n"
    assert run("pub", "--broker", hub, "--name", "p", '{"a": 1, "b": "xyz"}').returncode == 0
    eventually(lambda: sub.lines)
    assert run("pub", "--broker", hub, "--name", "p", '{"a": 2, "b": "x"}').returncode == 0
    eventually(lambda: len(sub.lines) == 2)
    assert sub.lines == ["p #1  a=1  b='xyz'", "p #1  a=2  b='x'"]
    sub.process.send_signal(signal.SIGINT)
    assert sub.process.wait(WAIT_S) == 0
    assert sub.process.stderr is not None
    assert sub.process.stderr.read() == ""
    assert sub.end() == 0


def test_a_reader_that_leaves_ends_sub(pair: Pair) -> None:
    sub = Sub(pair[0], "c EXISTS", reads=False)
    assert sub.process.stdout is not None
    sub.process.stdout.close()
    assert run("pub", "--broker", pair[1], '{"c": 1}').returncode == 0
    assert sub.process.wait(WAIT_S) == 1
    assert sub.process.stderr is not None
    assert sub.process.stderr.read() == ""
    sub.end()


def test_sub_tells_why_it_cannot_go_on(pair: Pair) -> None:
    sub = Sub(pair[0], "TRUE", "--name", "twin")
    with byway.blocking.connect(pair[0], name="twin"):
        assert sub.process.wait(WAIT_S) == 1
    assert sub.process.stderr is not None
    assert sub.process.stderr.read() == (
        "client twin is closed: another client of this name connected\n"
    )
    sub.end()


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [((), 0, ""), (("--count", "3"), 1, "0 of 3 events came within 1.5 s\n")],
)
def test_sub_ends_when_its_time_is_over_though_nothing_came(
    pair: Pair, more: tuple[str, ...], code: int, told: str
) -> None:
    done = run("sub", "--broker", pair[0], "nothing = 'comes'", "--timeout", "1500ms", *more)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"settled at hub: nothing = 'comes'\n{told}"


def test_sub_ends_in_its_time_while_it_connects() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it takes connections, and is silent
        address = f"byway://127.0.0.1:{mute.getsockname()[1]}"
        done = run("sub", "--broker", address, "TRUE", "--timeout", "250ms")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no answer within 0.25 s" in done.stderr


def test_sub_tells_those_who_write_topics_what_to_write(pair: Pair) -> None:
    done = run("sub", "--broker", pair[0], "sensors.>")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "There are no topics here: a filter compares the attributes of publications. "
        "Write topic LIKE 'sensors.%' where publishers set an attribute named topic."
    )


def test_what_is_mandatory_and_wanted_by_nobody_is_refused(pair: Pair) -> None:
    hub, leaf = pair
    sub = Sub(leaf, "f = 1", "--count", "1")
    done = run("pub", "--broker", hub, "--mandatory", '{"f": 1}', '{"f": 2}')
    assert (done.returncode, sub.end()) == (1, 0)
    assert done.stdout.startswith("1 confirmed, 1 refused, in ")
    assert done.stderr == (
        "line 2 was refused: it is mandatory, and no client and no link wants it\n"
    )


def test_pub_without_waiting_is_accepted(pair: Pair) -> None:
    done = run("pub", "--broker", pair[0], "--no-wait", "--json", '{"g": 1}', '{"g": 2}')
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["confirmed"] + facts["unconfirmed"] == 2
    both = run("pub", "--broker", pair[0], "--no-wait", "--wait", "1s", '{"g": 1}')
    assert (both.returncode, both.stderr) == (2, "expected --wait or --no-wait, found both\n")


def test_many_lines_of_standard_input(pair: Pair) -> None:
    sub = Sub(pair[1], "n = 19999 OR n = 0", "--count", "2", "--json")
    lines = "".join(f'{{"n": {number}}}\n' for number in range(20_000))
    done = run("pub", "--broker", pair[0], text=lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("20,000 confirmed, in ")
    assert sub.end() == 0
    assert [json.loads(line)["attributes"]["n"] for line in sub.lines] == [0, 19_999]


def test_refused_lines_are_named(pair: Pair) -> None:
    lines = '{"n": 7}\n\n{"n": 1}\n{"m": 1}\n{"n": 8}'
    done = run("pub", "--broker", pair[0], "--advertise", "n > 5", text=lines)
    assert done.returncode == 1
    assert done.stdout.startswith("2 confirmed, 2 refused, in ")
    reason = "was refused: it conforms to no advertisement of this client"
    assert done.stderr == (
        f"line 3 {reason}: n is 1, expected n > 5\n"
        f"line 4 {reason}: m is 1, expected no attributes but n\n"
    )


def test_a_bad_line_ends_pub_after_those_before(pair: Pair) -> None:
    done = run("pub", "--broker", pair[0], text='{"n": 7}\n{"n": null}\n{"n": 8}\n')
    assert (done.returncode, done.stdout) == (2, "")
    confirmed, reason = done.stderr.splitlines()
    assert confirmed == "1 publication is confirmed before it"
    assert reason.startswith("line 2: not the attributes of a publication: ")


def test_at_most_64_sets_of_attributes_are_announced(pair: Pair) -> None:
    lines = "".join(f'{{"a{number % 70}": {number}}}\n' for number in range(140))
    done = run("pub", "--broker", pair[0], "--json", text=lines)
    facts = json.loads(done.stdout)
    assert (facts["confirmed"], facts["advertisements"]) == (140, 65)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sub", "--broker", "byway://127.0.0.1:1", "TRUE"), 1, "reaches no broker"),
        (("pub", "--broker", "byway://127.0.0.1:1", "{}"), 1, "reaches no broker"),
        (("topology", "show", "--broker", "byway://127.0.0.1:1"), 1, "reaches no broker"),
        (("sub", "--broker", "127.0.0.1:1", "TRUE"), 1, "byway://127.0.0.1:1: Connection refused"),
        (("sub", "--broker", "http://127.0.0.1:1", "TRUE"), 2, "expected host:port"),
        (("bench", "--broker", "non sense"), 2, "expected host:port"),
        (("sub", "--broker", "HUB", "price >"), 2, "at character 8"),
        (("pub", "--broker", "HUB", "--advertise", "price >", "{}"), 2, "at character 8"),
        (("pub", "--broker", "HUB", "{}", "{"), 2, "line 2: not JSON"),
    ],
)
def test_what_cannot_be_done_is_told(
    pair: Pair, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        done = CliRunner().invoke(app, [pair[0] if word == "HUB" else word for word in arguments])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr


def test_topology_shows_links_and_tables(pair: Pair) -> None:
    hub, leaf = pair
    sub = Sub(leaf, "z = 1", "z = 2")
    status = json.loads(run("topology", "show", "--broker", leaf, "--json").stdout)
    (link,) = status["links"]
    assert (status["broker"], link["broker"], link["state"]) == ("leaf", "hub", "up")
    assert (status["subscriptions"], link["subscriptions"]) == (2, 0)
    sub.process.terminate()
    assert sub.end() == 0
    shown = run("topology", "show", "--broker", hub)
    assert shown.returncode == 0, shown.stderr
    first, second = shown.stdout.splitlines()
    assert first.startswith(f"hub  {hub.removeprefix('byway://')}, clients 1, advertisements ")
    address = pair[1].removeprefix("byway://")
    assert second.startswith(f"└── leaf  up  {address}, advertisements 0 in 0 out, subscriptions ")


def test_bench_measures_between_two_brokers(pair: Pair) -> None:
    hub, leaf = pair
    done = run("bench", "--broker", hub, "--to", leaf, "--publications", "1000", "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert (measured["publications"], measured["received"], measured["hops"]) == (1_000, 1_000, 1)
    assert measured["attributes"] == 13
    latency = measured["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert measured["per_second"] == pytest.approx(1_000 / measured["seconds"])

    options = ("--attributes", "number", "--publications", "300", "--rate", "500")
    paced = run("bench", "--broker", hub, *options)
    assert paced.returncode == 0, paced.stderr
    rows = dict(line.rsplit(None, 2)[:2] for line in paced.stdout.splitlines() if "ms" in line)
    assert set(rows) == {"  p50", "  p90", "  p99", "  max"}
    assert "500 /s" in paced.stdout
