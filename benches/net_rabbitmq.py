"""RabbitMQ's headers exchange, as a neighbour to compare with: a node of its own, started for the
bench where the package is installed, on loopback ports, with nothing kept."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from benches.run import Run
from byway.workload import StockQuotes

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 90.0
MEASURE_S = 20.0
WINDOW = 100
"""Publications that are sent before any is waited for."""
EXCHANGE = "quotes"


@dataclass(frozen=True)
class Found:
    """What was measured."""

    version: str
    publications: int
    rate: float


def headers_rate(run: Run, workload: StockQuotes, bindings: int) -> Found | str:
    """Publications a second through a headers exchange; or why there is no number."""
    if not SERVER.exists():
        return "RabbitMQ is not installed (Debian: rabbitmq-server), so there is no comparison."
    try:
        import pika  # type: ignore[import-untyped]
    except ImportError:
        return "RabbitMQ's client library pika is not installed, so there is no comparison."
    with TemporaryDirectory(prefix="byway-rabbitmq-") as directory:
        run.step("RabbitMQ starts")
        with _node(Path(directory)) as port:
            parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
            connection = _connected(pika, parameters)
            try:
                version = connection._impl.server_properties["version"]
                return _measured(run, pika, connection.channel(), workload, bindings, version)
            finally:
                connection.close()


@contextmanager
def _node(directory: Path) -> Iterator[int]:
    """A node; its port."""
    port, epmd_port, distribution_port = _free_ports(3)
    loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
    environment = os.environ | {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"byway-bench-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_MNESIA_BASE": str(directory / "state"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_CONFIG_FILE": str(directory / "none"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    names = subprocess.Popen(["epmd"], env=environment)  # else it starts one that stays
    node = subprocess.Popen(
        [SERVER], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield port
    finally:
        for process in (node, names):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def _connected(pika: Any, parameters: Any) -> Any:
    deadline = monotonic() + START_S
    while True:
        try:
            return pika.BlockingConnection(parameters)
        except pika.exceptions.AMQPConnectionError:
            if monotonic() > deadline:
                raise
            sleep(0.25)


def _measured(
    run: Run, pika: Any, channel: Any, workload: StockQuotes, bindings: int, version: str
) -> Found:
    channel.exchange_declare(EXCHANGE, "headers")
    for queue in ("owner", "everything"):
        channel.queue_declare(queue, arguments={"x-max-length": 1_000})
    channel.queue_bind("everything", EXCHANGE, arguments={"x-match": "all"})
    _bind(run, channel, workload, bindings)
    published, began = 0, monotonic()
    for quote in cycle(workload.take_publications(1_000)):
        properties = pika.BasicProperties(headers=_fields(quote), delivery_mode=1)
        channel.basic_publish(EXCHANGE, "", b"", properties)
        published += 1
        if not published % WINDOW:
            channel.queue_declare("everything", passive=True)  # answered when all are routed
            if monotonic() - began > MEASURE_S:
                break
    return Found(version, published, published / (monotonic() - began))


def _bind(run: Run, channel: Any, workload: StockQuotes, bindings: int) -> None:
    """As many as the owner has subscriptions, each of a symbol of its own."""
    for number, symbol in enumerate(workload.symbol_names()[:bindings]):
        if not number % 500:
            run.step(f"RabbitMQ: {number} of {bindings} bindings")
        arguments = {"x-match": "all", "class": "STOCK", "symbol": symbol}
        channel.queue_bind("owner", EXCHANGE, arguments=arguments)


def _fields(attributes: dict[str, Any]) -> dict[str, Any]:
    """A quote as headers; pika has no floats, so they are strings."""
    return {k: str(v) if isinstance(v, float) else v for k, v in attributes.items()}
