"""Processes of the network bench: brokers and clients, started, talked to, ended by their ids."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benches.net_clients import Job

END_S = 20.0


class Process:
    """A program that says lines and may be told some."""

    def __init__(
        self, *arguments: str, tree: Path | None = None, program: str = sys.executable
    ) -> None:
        """`tree`: the working tree whose code it runs; None: this one."""
        source = {} if tree is None else {"PYTHONPATH": str(tree / "src")}
        self._process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCH_NET_LOG") else subprocess.DEVNULL,
            cwd=tree,
            env=os.environ | source,
        )

    def line(self) -> bytes:
        """The next line that it says. Raises `RuntimeError` if it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait(END_S)}")
        return line

    def tell(self) -> None:
        """Tell it to go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    @property
    def rss_bytes(self) -> int:
        """Memory that it has."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    @property
    def cpu_seconds(self) -> float:
        """Processor time that its threads have used."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def end(self) -> None:
        """Kill it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(END_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class Broker(Process):
    """A broker on a free port, ready."""

    def __init__(
        self,
        name: str,
        data: str | None = None,
        neighbour: Broker | None = None,
        tree: Path | None = None,
    ) -> None:
        arguments = ["--id", name, "--listen", "127.0.0.1:0"]
        if data is not None:
            arguments += ["--data", data]
        if neighbour is not None:
            arguments += ["--neighbour", f"{neighbour.name}@{neighbour.address}"]
        super().__init__("-m", "byway", "broker", *arguments, tree=tree)
        self.name = name
        self.address = self.line().split()[2].decode()


class Client(Process):
    """A client with a job, ready."""

    def __init__(
        self, job: Job, tree: Path | None = None, module: str = "benches.net_clients"
    ) -> None:
        super().__init__("-m", module, msgspec.json.encode(job).decode(), tree=tree)
        self.ready = self.facts()

    def facts(self) -> dict[str, Any]:
        """What it tells next."""
        return msgspec.json.decode(self.line(), type=dict[str, Any])


class Net:
    """A chain of brokers and their clients."""

    def __init__(self, directory: str | None, tree: Path | None = None) -> None:
        self.brokers: list[Broker] = []
        self.clients: list[Client] = []
        self._directory = directory
        self._tree = tree

    def extend(self, length: int) -> None:
        """Make the chain so long."""
        for number in range(1, length + 1):
            data = None if self._directory is None else f"{self._directory}/B{number}"
            neighbour = self.brokers[-1] if self.brokers else None
            self.brokers.append(Broker(f"B{number}", data, neighbour, self._tree))

    def client(self, role: str, at: int, symbols: int, count: int, rate: float = 0.0) -> Client:
        """A client at one of the brokers."""
        url = f"byway://{self.brokers[at].address}"
        job = Job(role=role, url=url, symbols=symbols, count=count, rate=rate)
        self.clients.append(Client(job, self._tree))
        return self.clients[-1]

    def end(self) -> None:
        """End all processes."""
        for process in (*self.clients, *self.brokers):
            process.end()


@contextmanager
def chain(length: int, keeps: bool = False, tree: Path | None = None) -> Iterator[Net]:
    """A chain of brokers that does not outlive the block. `tree`: the working tree whose code they
    and their clients run; None: this one."""
    with TemporaryDirectory(prefix="byway-bench-") as directory:
        net = Net(directory if keeps else None, tree)
        try:
            net.extend(length)
            yield net
        finally:
            net.end()
