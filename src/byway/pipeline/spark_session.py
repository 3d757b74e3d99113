"""Makes or takes a SparkSession; no other module does.

It decides where Spark runs and how it is configured. Other modules neither start, configure nor
stop a session, and use only what Spark Connect has, too.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from byway.extras import command, missing
from byway.pipeline.java import java_home
from byway.pipeline.pipeline_errors import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT_PORT: Final = 15002
KNOCK_S: Final = 10.0

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_ON_OUR_OWN: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_ON_THIS_MACHINE: Final = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
_ARROW: Final = (  # 15 % less time in the JVM
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)


@contextmanager
def open_session(
    master: str | None = None,
    remote: str | None = None,
    settings: dict[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session on a cluster (`master`), over Spark Connect (`remote`), or on this machine.

    A session that is active is taken as it is, if neither is given or it is on that master; else
    one is made, and stopped at the end. `settings` are Spark's own; they apply to a session that is
    made, and override the defaults here. Raises `SessionError` if there is no Spark, no Java, no
    answer at the address, or a session on another master.
    """
    if master and remote:
        raise SessionError("either a master or a remote can be given, not both")
    need_spark()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # the error says it, too
    if remote:
        _knock(remote)
    active = _active()
    if active is not None:
        _check_place(active, master, remote)
        yield active
        return
    chosen = settings or {}
    session = _connect(remote, chosen) if remote else _start(master or LOCAL, chosen)
    try:
        yield session
    finally:
        session.stop()


def need_spark() -> None:
    """Raise `SessionError` unless the packages that the pipeline needs are installed."""
    absent = missing(("pyspark", "pandas"))
    if absent:
        raise SessionError(
            f"the pipeline needs Spark, and {' and '.join(absent)} is not installed; "
            f"install it with: {command('pipeline')}"
        )


def _active() -> SparkSession | None:
    """The session of this thread, or the one that all threads have."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
    except PySparkException:
        return None
    context = getattr(session, "sparkContext", None)  # Connect has none
    is_stopped = context is not None and context._jsc is None  # as Spark's builder asks
    return None if is_stopped else session


def _check_place(active: SparkSession, master: str | None, remote: str | None) -> None:
    """Raise `SessionError` unless the active session is on the requested master: Spark would return
    it with changed settings."""
    where = active.conf.get("spark.master", None)
    if remote or (master and master != where):
        reason = f"a session on {where} is active, and there can be no other on {master or remote}"
        raise SessionError(f"{reason}: stop it, or work in it by naming no place")


def _start(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = _EVERYWHERE | _ON_OUR_OWN | {"spark.driver.extraJavaOptions": _java_options()}
    if master.startswith("local"):
        ours |= _ON_THIS_MACHINE
    builder = SparkSession.builder.appName("byway").master(master)
    try:
        with java_home():
            return _configured(builder, ours | settings).getOrCreate()
    except (PySparkException, OSError) as error:
        raise SessionError(f"Spark does not start on {master}: {_first_line(error)}") from error
    except Exception as error:  # py4j raises what the JVM threw, in classes of its own
        if type(error).__module__.startswith("py4j"):
            raise SessionError(f"Spark does not start on {master}: {_cause(error)}") from error
        raise


def _connect(remote: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        builder = SparkSession.builder.remote(remote)
        return _configured(builder, _EVERYWHERE | settings).getOrCreate()
    except ImportError as error:
        raise SessionError(
            f"Spark Connect needs packages that are not installed ({error}); "
            f"install them with: {command('pipeline')}"
        ) from error
    except PySparkException as error:
        raise SessionError(f"no Spark answers at {remote}: {_first_line(error)}") from error


def _knock(remote: str) -> None:
    """Raise `SessionError` if nobody listens at the address: Spark would try for minutes."""
    address = urlsplit(remote)
    if address.scheme != "sc" or not address.hostname:
        raise SessionError(f"{remote}: expected an address such as sc://host:{CONNECT_PORT}")
    try:
        place = address.hostname, address.port or CONNECT_PORT
        socket.create_connection(place, KNOCK_S).close()
    except (OSError, ValueError) as error:
        raise SessionError(f"no Spark answers at {remote}: {error}") from None


def _configured(builder: SparkSession.Builder, settings: dict[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _java_options() -> str:
    logging = Path(__file__).with_name("log4j2.properties")
    return f"-Dlog4j2.configurationFile={logging.as_uri()} {_ARROW}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _cause(error: BaseException) -> str:
    """The exception of the JVM: the line after py4j's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    thrown = [line for line in lines if line.startswith((":", "Caused by:"))]
    return (thrown or lines or ["no reason given"])[-1].lstrip(": ")
