"""One round of chaos: a plan carried out with real processes, then judged.

One thread starts, kills, stops and continues processes when the plan says so, and looks after those
that end by themselves. When all faults are mended and everyone is back, publishers stop, everything
must be confirmed within `CONFIRM_S`, and what is owed must have come `ARRIVE_S` later.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import json
import math
import random
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import byway
from tests.chaos.client import Spec
from tests.chaos.disks import Disk, contents, damage, last_journal, limit_files, unlimit_files
from tests.chaos.judge import Facts, Verdict, judge
from tests.chaos.plan import Fault, Plan
from tests.chaos.processes import BrokerProcess, ClientProcess, Process, free_ports
from tests.chaos.proxy import Proxies

READY_S = 150.0
"""For a broker to start, with kernels to compile."""
SETTLE_S = 60.0
"""For links to come up and the first subscriptions to be settled."""
BACK_S = 90.0
"""For everyone to be back after the last fault."""
FLOW_S = 60.0
"""For everything to be settled then, and publications to get through."""
CONFIRM_S = 60.0
ARRIVE_S = 20.0
QUIET_S = 1.0
"""Traffic goes on for so long after that; so long it is looked whether something comes twice."""
FULL_S = 5.0
"""A broker whose disk is full ends within so long if it has anything to write."""
JUST_S = 1.0
"""So long after there is room again a broker may still end: it had tried to write before."""
STEP_S = 0.02
QUICK_LINKS = ("interval=500ms", "gain_min=2", "stay=2s", "opening=3s", "backoff=1s")
"""Options of brokers with a mesh: soft links come and go within the seconds that a round takes."""


@dataclass
class Outcome:
    """How a round went."""

    plan: Plan
    verdict: Verdict
    faults: dict[str, int] = field(default_factory=dict)
    """By kind, how many there were."""
    kills: int = 0
    wrong: list[str] = field(default_factory=list)
    """What went wrong apart from publications."""
    seconds: float = 0.0
    processor_s: float = 0.0
    """Time that all its processes were busy."""
    directory: Path | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong and self.verdict.is_exact

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        lines = [
            f"{self.plan.name}: {'passed' if self.passed else 'FAILED'} in {self.seconds:.0f} s, "
            f"{self.processor_s:.0f} s of processor time ({self.plan.covering}; "
            f"{kinds or 'no faults'}): {self.verdict}",
            *(f"  wrong: {words}" for words in self.wrong),
        ]
        return "\n".join(lines)


class GivenUpError(Exception):
    """The round cannot go on."""


class Round:
    """Everything that runs in a round."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}
        self.kills = 0
        self.losses: dict[str, list[int]] = {}
        self.brokers: dict[str, BrokerProcess] = {}
        self.clients: dict[int, ClientProcess] = {}
        self._rng = random.Random(f"round {plan.seed} {time.monotonic_ns()}")
        self._proxies = Proxies()
        self._disks: dict[str, Disk] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._full: dict[str, tuple[Fault, float]] = {}
        self._relieved: dict[str, tuple[Fault, float]] = {}
        """By broker whose disk is full, the fault and when it is given up."""
        self._damaged: dict[str, dict[str, str]] = {}
        """By broker whose files are damaged, what its directory held then."""
        self._starting: dict[str, float] = {}
        """By broker, when it must be ready."""
        self._journal = (directory / "events.log").open("w", buffering=1)
        self.began = time.monotonic()

    # --- life ----------------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Carry the plan out, and judge."""
        try:
            self._start()
            self._traffic()
        except GivenUpError as error:
            self.wrong.append(str(error))
        verdict = self._finish()
        if self.wrong or not verdict.is_exact:
            self._inspect()
        return verdict

    def close(self) -> None:
        """End everything, whatever happened."""
        for process in (*self.clients.values(), *self.brokers.values()):
            with contextlib.suppress(Exception):
                process.kill()
        with contextlib.suppress(Exception):
            self._proxies.close()
        for disk in self._disks.values():
            with contextlib.suppress(Exception):
                disk.close()
        self._journal.close()

    @property
    def facts(self) -> Facts:
        """What the judge is told."""
        clients = self.plan.clients
        facts = Facts(
            {c.name: c.home for c in clients}, {c.name: c.session for c in clients}, self.losses
        )
        facts.write(self.directory)
        return facts

    def note(self, words: str) -> None:
        """Keep what was done, and when."""
        self._journal.write(f"{time.monotonic() - self.began:8.3f} {words}\n")

    # --- the beginning -------------------------------------------------------------------------

    def _start(self) -> None:
        plan = self.plan
        names = [b.name for b in plan.brokers]
        proxied = [link for link in plan.links if link.proxied]
        visitors = [c for c in plan.clients if c.proxied]
        ports = iter(free_ports(self._rng, len(names) + 2 * len(proxied) + len(visitors)))
        listen = dict(zip(names, ports, strict=False))
        dialled: dict[tuple[str, str], int] = {}
        for link in plan.links:
            for name in link.listed_by:
                other = link.other(name)
                port = listen[other]
                if link.proxied:
                    port = next(ports)
                    self._proxies.open(f"{link.a}-{link.b}", port, listen[other])
                dialled[name, other] = port
        for name in names:
            self.brokers[name] = self._broker(name, listen[name], dialled)
            self._begin(name)
        urls = {}
        for client in plan.clients:
            port = listen[client.home]
            if client.proxied:
                port = next(ports)
                self._proxies.open(client.name, port, listen[client.home])
            urls[client.name] = f"byway://127.0.0.1:{port}"
        self._until(lambda: not self._starting, READY_S, "brokers are not ready")
        asyncio.run(self._linked(listen))
        for number in sorted({c.process for c in plan.clients}):
            members = tuple(c for c in plan.clients if c.process == number)
            spec = Spec(members, urls, str(self.directory))
            self.clients[number] = ClientProcess(number, self.directory, spec)
            self.clients[number].start()
        settled = lambda: all(c.is_ready for c in self.clients.values())  # noqa: E731
        self._until(settled, SETTLE_S, "the first subscriptions are not settled")

    def _broker(self, name: str, port: int, dialled: dict[tuple[str, str], int]) -> BrokerProcess:
        plan, broker = self.plan, self.plan.broker(name)
        data = None
        if broker.keeps:
            data = self.directory / f"data-{name}"
            if any(f.kind == "full" and f.how == "tmpfs" and f.target == name for f in plan.faults):
                self._disks[name] = Disk(self.directory / f"disk-{name}")
                data = self._disks[name].path / "data"
        rest = ["--set", f"core.covering={plan.covering}"]
        if plan.keepalive_ms is not None:
            rest += ["--set", f"limits.keepalive_ms={plan.keepalive_ms}"]
        if broker.delta > 1:
            rest += [
                "--set",
                f"mesh.delta={broker.delta}",
                "--set",
                f"mesh.strategy={broker.strategy}",
            ]
            rest += [word for setting in QUICK_LINKS for word in ("--set", f"mesh.{setting}")]
            if plan.bypass_after_ms is not None:
                rest += ["--set", f"mesh.bypass_after={plan.bypass_after_ms}ms"]
        if broker.remembers:
            rest += ["--set", f"state_dir={self.directory / f'names-{name}'}"]
        if broker.power:
            rest += ["--set", "durability=power"]
        for (dialler, other), at in dialled.items():
            if dialler == name:
                rest += ["--neighbour", f"{other}@127.0.0.1:{at}"]
        return BrokerProcess(name, self.directory, port, data, *rest)

    async def _linked(self, listen: dict[str, int]) -> None:
        """Wait until every link is up: what is settled before that is settled in a part only."""

        async def is_linked(name: str) -> bool:
            url = f"byway://127.0.0.1:{listen[name]}"
            async with byway.connect(url, name=f"probe-{name}") as probe:
                status = await probe.broker_status()
            of_tree = [link for link in status.links if link.kind == "primary"]
            up = sorted(link.broker for link in of_tree if link.state == "up")
            return up == sorted(self.plan.neighbours(name))

        deadline = time.monotonic() + SETTLE_S
        for name in listen:
            while not await is_linked(name):
                if time.monotonic() > deadline:
                    raise GivenUpError(f"{name} has not all its links after {SETTLE_S:g} s")
                await asyncio.sleep(0.1)

    # --- traffic and faults --------------------------------------------------------------------

    def _traffic(self) -> None:
        self.began = time.monotonic()
        self.note("traffic")
        for client in self.clients.values():
            client.tell(f"traffic {self.began}")
        for at, faults in itertools.groupby(self.plan.faults, lambda fault: fault.at):
            self._at(self.began + at, lambda group=list(faults): self._strike_all(group))
        enough = self.began + self.plan.traffic_s
        last = max((f.at + f.lasts for f in self.plan.faults), default=0.0)
        patience = max(self.plan.traffic_s, last) + BACK_S + FULL_S
        self._until(
            lambda: time.monotonic() > enough and self._is_whole(), patience, "not all are back"
        )
        self.note("everyone is back")
        self._flows()
        quiet = time.monotonic() + QUIET_S
        self._until(lambda: time.monotonic() > quiet, math.inf, "")

    def _flows(self) -> None:
        """Wait until all is settled again and publications get through, or patience ends: what is
        published then is owed to everyone. What is stuck is for the judge to tell."""
        back, facts = time.monotonic_ns(), self.facts
        deadline = time.monotonic() + FLOW_S
        while not judge(self.directory, facts).flows_since(back):
            if time.monotonic() > deadline:
                self.note("not everything flows")
                return
            pause = time.monotonic() + 0.5
            self._until(lambda pause=pause: time.monotonic() > pause, math.inf, "")
        self.note("everything flows")

    def _is_whole(self) -> bool:
        """Whether all is mended and everyone is back."""
        return (
            not self._due
            and not self._starting
            and not self._full
            and all(b.is_ready and not b.stopped for b in self.brokers.values())
            and all(
                c.running is not None and c.is_ready and not c.stopped
                for c in self.clients.values()
            )
        )

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), do))

    def _in(self, seconds: float, do: Callable[[], None]) -> None:
        self._at(time.monotonic() + seconds, do)

    def _until(self, happened: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Do what is due until something is so."""
        deadline = time.monotonic() + seconds
        while not happened():
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            self._look_after()
            if now > deadline:
                raise GivenUpError(f"{otherwise} after {seconds:g} s: {self._missing()}")
            time.sleep(STEP_S)

    def _missing(self) -> str:
        brokers = [n for n, b in self.brokers.items() if not b.is_ready or b.stopped]
        clients = [c.name for c in self.clients.values() if not c.is_ready]
        return f"brokers not ready: {brokers}, client processes not ready: {clients}"

    def _strike_all(self, faults: list[Fault]) -> None:
        """Let several things go wrong at once: no broker outlives another by the time it takes."""
        for fault in faults:
            if fault.kind == "kill" or (fault.kind == "torn" and self._has_files(fault.target)):
                self.brokers[fault.target].strike()
        for fault in faults:
            self._strike(fault)

    def _strike(self, fault: Fault) -> None:
        """Let one thing go wrong."""
        self.note(f"{fault.kind} {fault.how} {fault.target} for {fault.lasts:.2f} s")
        strike = {
            "kill": self._kill,
            "torn": self._tear,
            "full": self._fill,
            "stop": self._stop,
            "kill-client": self._kill_clients,
            "stop-client": self._stop_clients,
            "cut": self._cut,
            "cut-client": self._cut,
        }[fault.kind]
        if strike(fault):
            self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        else:
            self.note("  not possible now")

    def _kill(self, fault: Fault) -> bool:
        if self.brokers[fault.target].running is None:
            return False
        if not self.plan.broker(fault.target).keeps:
            self._loses(fault.target)
        self._end(fault.target)
        self._in(fault.lasts, lambda: self._begin(fault.target))
        return True

    def _tear(self, fault: Fault) -> bool:
        broker = self.brokers[fault.target]
        if not self._has_files(fault.target):
            return False
        assert broker.data is not None
        self._loses(fault.target)
        self._end(fault.target)
        self.note(f"  {damage(broker.data, fault.how, self._rng)}")
        self._damaged[fault.target] = contents(broker.data)
        self._in(fault.lasts, lambda: self._begin(fault.target))
        return True

    def _has_files(self, name: str) -> bool:
        """Whether a broker runs and has files; one that has only just begun may have none yet."""
        broker = self.brokers[name]
        return broker.running is not None and broker.data is not None and broker.data.is_dir()

    def _fill(self, fault: Fault) -> bool:
        broker = self.brokers[fault.target]
        if not broker.is_ready or broker.data is None or fault.target in self._full:
            return False
        if fault.target in self._disks:
            self._disks[fault.target].fill()
        else:
            limit_files(broker.pid, broker.data, self._rng)
        self._full[fault.target] = fault, time.monotonic() + FULL_S
        return True

    def _relieve(self, name: str) -> Fault:
        """A full disk has room again."""
        fault, _ = self._full.pop(name)
        self._relieved[name] = fault, time.monotonic()
        broker = self.brokers[name]
        if name in self._disks:
            self._disks[name].free()
        elif broker.running is not None:
            unlimit_files(broker.pid)
        return fault

    def _stop(self, fault: Fault) -> bool:
        return self._stand_still(self.brokers[fault.target], fault.lasts)

    def _stop_clients(self, fault: Fault) -> bool:
        number = int(fault.target)
        return number in self.clients and self._stand_still(self.clients[number], fault.lasts)

    def _stand_still(self, process: Process, lasts: float) -> bool:
        if process.running is None or process.stopped:
            return False
        stopped = process.running
        process.stop()

        def go_on() -> None:
            if process.running is stopped:
                self.note(f"continue {process.name}")
                if process.name in self._full:  # it had no time to write
                    fault, _ = self._full[process.name]
                    self._full[process.name] = fault, time.monotonic() + FULL_S
                process.go_on()

        self._in(lasts, go_on)
        return True

    def _kill_clients(self, fault: Fault) -> bool:
        client = self.clients.get(int(fault.target))
        if client is None or client.running is None:
            return False
        client.kill()

        def start() -> None:
            self.note(f"start {client.name}")
            client.start()
            client.tell(f"traffic {self.began}")

        self._in(fault.lasts, start)
        return True

    def _cut(self, fault: Fault) -> bool:
        self._proxies.cut(fault.target)
        self._in(fault.lasts, lambda: self._proxies.mend(fault.target))
        return True

    # --- brokers that come and go --------------------------------------------------------------

    def _loses(self, name: str) -> None:
        """A broker is about to lose its state."""
        self.losses.setdefault(name, []).append(time.monotonic_ns())

    def _end(self, name: str) -> None:
        self.brokers[name].kill()
        self._starting.pop(name, None)
        self.kills += 1
        if name in self._full:
            self._relieve(name)

    def _begin(self, name: str) -> None:
        self.note(f"start {name}")
        self.brokers[name].start()
        self._starting[name] = time.monotonic() + READY_S

    def _look_after(self) -> None:
        """Processes that are ready by now, or have ended by themselves."""
        now = time.monotonic()
        for name, deadline in list(self._starting.items()):
            broker = self.brokers[name]
            if broker.is_ready:
                self.note(f"{name} is ready")
                del self._starting[name]
                self._damaged.pop(name, None)
            elif now > deadline and not broker.stopped:
                raise GivenUpError(f"{name} is not ready after {READY_S:g} s: {broker.last_words}")
        for name, broker in self.brokers.items():
            code = broker.exit_code()
            if code is not None:
                self._ended(name, code)
        for name, (_, deadline) in list(self._full.items()):
            if now > deadline and not self.brokers[name].stopped:
                self.note(f"{name} had nothing to write")
                self._relieve(name)
        for client in self.clients.values():
            code = client.exit_code()
            if code is not None:
                raise GivenUpError(f"{client.name} ended by itself: {code}, {client.last_words}")

    def _ended(self, name: str, code: int) -> None:
        """A broker has ended by itself."""
        broker = self.brokers[name]
        self.note(f"{name} ended with {code}: {broker.last_words}")
        was_starting = self._starting.pop(name, None) is not None
        fault = self._of_full_disk(name)
        if fault is not None:
            if code != 1:
                self.wrong.append(f"{name} ended with {code} on a full disk, not with 1")
            self._in(fault.lasts, lambda: self._begin(name))
        elif was_starting and name in self._damaged:
            self._refused(name, code)
        elif was_starting and "in use" in broker.last_words and "listen" in broker.last_words:
            self._in(0.5, lambda: self._begin(name))  # the port, for a moment
        else:
            self.wrong.append(f"{name} ended by itself with {code}: {broker.last_words}")
            if was_starting:
                raise GivenUpError(f"{name} does not start")
            if broker.data is None:
                self._loses(name)
            self._in(0.0, lambda: self._begin(name))

    def _of_full_disk(self, name: str) -> Fault | None:
        """The full disk that made a broker end, which has room from now on; None if none did."""
        if name in self._full:
            return self._relieve(name)
        fault, when = self._relieved.get(name, (None, 0.0))
        is_late = "cannot be written to" in self.brokers[name].last_words
        return fault if is_late and time.monotonic() - when < JUST_S else None

    def _refused(self, name: str, code: int) -> None:
        """Damaged files were refused: the file must be named and nothing changed. The operator
        moves the directory away, and the broker is one without state."""
        broker, before = self.brokers[name], self._damaged.pop(name)
        assert broker.data is not None
        journal = last_journal(broker.data)
        if code != 1 or journal is None or journal.name not in broker.last_words:
            self.wrong.append(f"{name} ended with {code} over a damaged file: {broker.last_words}")
        if contents(broker.data) != before:
            self.wrong.append(f"{name} refused a damaged file and changed its directory")
        self.counts["refused"] = self.counts.get("refused", 0) + 1
        broker.data.rename(broker.data.with_name(f"{broker.data.name}-{time.monotonic_ns()}"))
        self._begin(name)

    # --- the end -------------------------------------------------------------------------------

    def _finish(self) -> Verdict:
        """Everything is confirmed and arrives, or patience ends."""
        for client in self.clients.values():
            if client.running is not None:
                client.go_on()
                client.tell("stop")
        with contextlib.suppress(GivenUpError):
            confirmed = lambda: all(c.is_confirmed for c in self.clients.values())  # noqa: E731
            self._until(confirmed, CONFIRM_S, "not everything is confirmed")
        self.note("publishers have ended")
        deadline, facts = time.monotonic() + ARRIVE_S, self.facts
        while not (verdict := judge(self.directory, facts)).is_exact:
            if time.monotonic() > deadline or verdict.unconfirmed or self.wrong:
                break
            time.sleep(0.3)
        time.sleep(QUIET_S)
        return judge(self.directory, facts)

    def _inspect(self) -> None:
        """Ask the brokers how they are, for whoever looks for the reason."""

        async def ask(broker: BrokerProcess) -> str:
            url = f"byway://127.0.0.1:{broker.port}"
            async with byway.connect(url, name=f"probe-{broker.name}", timeout=5.0) as probe:
                return msgspec.json.encode(await probe.broker_status()).decode()

        for broker in self.brokers.values():
            try:
                words = asyncio.run(ask(broker))
            except (byway.BywayError, OSError) as error:
                words = json.dumps(repr(error))
            (self.directory / f"{broker.name}.status.json").write_text(words)


def carry_out(plan: Plan, directory: Path, *, keep: bool = False) -> Outcome:
    """One round; its files stay if it failed, or if told so."""
    began, busy = time.monotonic(), _processor_s()
    directory.mkdir(parents=True)
    (directory / "plan.txt").write_text(f"{plan}\n")
    one = Round(plan, directory)
    try:
        verdict = one.run()
    finally:
        one.close()
    for name, broker in one.brokers.items():
        for line in broker.internal_errors[:3]:
            one.wrong.append(f"{name} logged: {line}")
    outcome = Outcome(plan, verdict, one.counts, one.kills, one.wrong)
    outcome.seconds, outcome.processor_s = time.monotonic() - began, _processor_s() - busy
    (directory / "verdict.txt").write_text(f"{outcome}\n")
    if outcome.passed and not keep:
        shutil.rmtree(directory)
    else:
        outcome.directory = directory
    return outcome


def _processor_s() -> float:
    """Processor time of this process and of those it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
