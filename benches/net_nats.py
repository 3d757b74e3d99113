"""NATS, as a neighbour to compare with: a server of its own, started for the bench where it is
installed, on a loopback port, and two processes with nats-py. Nothing is filtered by content,
confirmed or kept."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic, sleep

from benches.net_clients import Job
from benches.net_flows import Traffic
from benches.net_processes import Client, Process

SERVER = "nats-server"
START_S = 20.0
SUBJECT = "quotes"


class NatsServer(Process):
    """A server on a free port, ready."""

    def __init__(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        super().__init__(
            "--addr", "127.0.0.1", "--port", str(self.port), "--log", "/dev/null", program=program
        )
        deadline = monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                if monotonic() > deadline:
                    self.end()
                    raise
                sleep(0.05)


@contextmanager
def nats_traffic(symbols: int, count: int) -> Iterator[Traffic | str]:
    """A server, a publisher and a subscriber of everything; or why there are none."""
    program = shutil.which(SERVER)
    if program is None:
        yield "NATS is not installed (Debian: nats-server), so there is no comparison."
        return
    if find_spec("nats") is None:
        yield "NATS's client library nats-py is not installed, so there is no comparison."
        return
    processes: list[Process] = []
    try:
        server = NatsServer(program)
        processes.append(server)
        clients = []
        for role in ("listen", "publish"):
            url = f"nats://127.0.0.1:{server.port}"
            job = Job(role=role, url=url, symbols=symbols, count=count)
            clients.append(Client(job, module="benches.net_nats_clients"))
            processes.append(clients[-1])
        yield Traffic(clients[1], clients[0], [server], [], count)
    finally:
        for process in reversed(processes):
            process.end()


def server_version() -> str:
    """The version that the server tells."""
    told = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.split()[-1].lstrip("v")


def library_version() -> str:
    """The version of nats-py."""
    from importlib.metadata import version

    return f"{version('nats-py')} on Python {sys.version.split()[0]}"
