"""Broker and client processes of a chaos run: started, signalled and ended by their ids."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.chaos.client import Spec
from tests.integration.processes import READY, environment

PORTS = (20_000, 32_000)
"""Below the ports that the system gives to connections: one of those could take the port of a
broker that is away, or connect to itself there."""
WAIT_S = 10.0


def free_ports(rng: random.Random, count: int) -> list[int]:
    """Ports that nobody listens on."""
    found: list[int] = []
    while len(found) < count:
        port = rng.randrange(*PORTS)
        with contextlib.closing(socket.socket()) as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found


class Process:
    """One process at a time, started again with the same arguments."""

    def __init__(self, name: str, directory: Path, *arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.stopped = False
        self.running: subprocess.Popen[bytes] | None = None
        self.log = directory / f"{name}.err"
        self._out = directory / f"{name}.out"
        self._starts = itertools.count(1)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.running}>"

    def start(self) -> None:
        """Start it; it may not be ready yet. To be called by the main thread, whose end ends it."""
        assert self.running is None
        self._out.unlink(missing_ok=True)
        self.stopped = False
        with self.log.open("ab") as err, self._out.open("wb") as out:
            err.write(f"--- start {next(self._starts)}\n".encode())
            err.flush()
            self.running = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.launch", *self.arguments],
                stdin=subprocess.PIPE, stdout=out, stderr=err, env=environment(),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its id."""
        assert self.running is not None
        return self.running.pid

    @property
    def said(self) -> str:
        """What it said on stdout since it was started."""
        return self._out.read_text() if self._out.exists() else ""

    @property
    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return " | ".join(lines[-3:])

    def tell(self, words: str) -> None:
        """Write a line to its stdin."""
        assert self.running is not None
        assert self.running.stdin is not None
        with contextlib.suppress(OSError):
            self.running.stdin.write(f"{words}\n".encode())
            self.running.stdin.flush()

    def stop(self) -> None:
        """Let it stand still."""
        assert self.running is not None
        self.running.send_signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        """Let it go on."""
        if self.running is not None and self.stopped:
            self.running.send_signal(signal.SIGCONT)
            self.stopped = False

    def exit_code(self) -> int | None:
        """Of a process that has ended by itself; it is gone then."""
        if self.running is None or self.running.poll() is None:
            return None
        code = self.running.returncode
        self._forget()
        return code

    def strike(self) -> None:
        """kill -9, if it runs, without waiting for its end."""
        if self.running is not None:
            self.running.kill()

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        if self.running is not None:
            self.running.kill()
            self.running.wait(WAIT_S)
            self._forget()

    def _forget(self) -> None:
        assert self.running is not None
        assert self.running.stdin is not None
        with contextlib.suppress(OSError):
            self.running.stdin.close()
        self.running = None


class BrokerProcess(Process):
    """`byway broker`."""

    def __init__(
        self, name: str, directory: Path, port: int, data: Path | None, *rest: str
    ) -> None:
        self.port = port
        self.data = data
        kept = () if data is None else ("--data", str(data))
        at = ("--id", name, "--listen", f"127.0.0.1:{port}")
        super().__init__(name, directory, "byway", "broker", *at, *kept, *rest)

    @property
    def is_ready(self) -> bool:
        """Whether it says that it can be used."""
        return self.running is not None and READY.match(self.said) is not None

    @property
    def internal_errors(self) -> list[str]:
        """Lines of its log that tell of faults of the program."""
        text = self.log.read_text(errors="replace")
        return re.findall(r".*(?:Traceback|internal error|AssertionError).*", text)


class ClientProcess(Process):
    """Some clients."""

    def __init__(self, number: int, directory: Path, spec: Spec) -> None:
        path = directory / f"clients-{number}.spec"
        path.write_bytes(pickle.dumps(spec))
        super().__init__(f"clients-{number}", directory, "tests.chaos.client", str(path))

    @property
    def is_ready(self) -> bool:
        """Whether all its clients have what they want from the beginning."""
        return "ready" in self.said

    @property
    def is_confirmed(self) -> bool:
        """Whether all that it published is confirmed, after it was told to stop."""
        return "confirmed" in self.said
