"""Makes or takes a SparkSession; no other module does.

It decides where Spark runs and how it is configured, as far as the user has not: what is set in
Spark's own files, in the environment or in a session stands. Other modules neither start, configure
nor stop a session, and use only what Spark Connect has, too.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from byway.extras import command, missing
from byway.pipeline.java import java_home
from byway.pipeline.pipeline_errors import SessionError
from byway.pipeline.user_settings import conf_directory, java_options, user_settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT_PORT: Final = 15002
KNOCK_S: Final = 5.0
"""Seconds to wait until somebody listens at an address."""
ANSWER_S: Final = 15.0
"""Seconds to wait until who listens there speaks the protocol of Spark Connect."""

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_ON_OUR_OWN: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",  # an analysis has more plans than Spark's 100
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
_ARROW: Final = {  # 15 % less time in the JVM
    "arrow.enable_unsafe_memory_access": "true",
    "arrow.enable_null_check_for_get": "false",
}
_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Options that Spark puts before those of `spark.driver.extraJavaOptions`, which stand above."""
_EXTRA_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_COLLECTOR: Final = "-XX:+UseParallelGC"
"""The garbage collector that takes the least processor time. Java starts with one only."""
_ANY_COLLECTOR: Final = re.compile(r"-XX:\+Use\w*GC\b")
_GIVEN_UP: Final = "stopped SparkContext"
"""What Spark says when it has asked a master for a minute, and none has answered."""
_PYTHON: Final = "spark.pyspark.python"
_MASTER_SCHEMES: Final = {"spark": 7077, "k8s": 443}
"""Masters that have an address, and the port of one that names none."""


@contextmanager
def open_session(
    master: str | None = None,
    remote: str | None = None,
    settings: dict[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session on a cluster (`master`), over Spark Connect (`remote`), or on this machine.

    A session or a context that is active is taken as it is, if neither is given or it is on that
    master, and never stopped; else one is made, and stopped at the end. If neither is given, it is
    made where the user's configuration of Spark says. `settings` are Spark's own and apply to a
    session that is made; they stand above the user's configuration, and that above the defaults
    here. Raises `SessionError` if there is no Spark, no Java, no answer at the address, or a
    session on another master.
    """
    if master and remote:
        raise SessionError("either a master or a remote can be given, not both")
    need_spark()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # the error says it, too
    if remote:
        _knock_remote(remote)
    active = _active()
    if active is not None:
        _check_place(active.conf.get("spark.master", None), master, remote)
        yield active
        return
    if (context := _active_context()) is not None:
        _check_place(context.master, master, remote)
        yield _session_of(context)
        return
    own = settings or {}
    chosen = user_settings(os.environ) | own
    if not master and not remote and (remote := chosen.get("spark.remote")):
        _knock_remote(remote)
    if remote:
        session = _connect(remote, own)
    else:
        session = _start(master or chosen.get("spark.master", LOCAL), chosen, own)
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


def _active_context() -> SparkContext | None:
    """The context of a program that has made one and no session; there can be no second."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _session_of(context: SparkContext) -> SparkSession:
    """A session in a context, without a setting of its own."""
    from pyspark.sql import SparkSession

    return SparkSession(context)


def _check_place(where: str | None, master: str | None, remote: str | None) -> None:
    """Raise `SessionError` unless the active session is on the requested master: Spark would return
    it with changed settings."""
    if remote or (master and master != where):
        reason = f"a session on {where} is active, and there can be no other on {master or remote}"
        raise SessionError(f"{reason}: stop it, or work in it by naming no place")


def _start(master: str, chosen: dict[str, str], own: dict[str, str]) -> SparkSession:
    """Start Spark with the caller's `own` settings, and with defaults for what is not `chosen`, by
    the user or the caller. Spark itself reads what the user has set."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _knock_master(master)
    defaults = _EVERYWHERE | _ON_OUR_OWN | {"spark.app.name": "byway"}
    if master.startswith("local"):
        defaults |= _ON_THIS_MACHINE
    java = f"{_own_java_options(os.environ)} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    if master.startswith("local") and not _has_collector(os.environ, chosen):
        java = f"{_COLLECTOR} {java}"
    settings = {key: value for key, value in defaults.items() if key not in chosen}
    settings |= own | {_JAVA_OPTIONS: java, "spark.master": master}
    try:
        with java_home(), _python(chosen.get(_PYTHON, sys.executable)):
            return _configured(SparkSession.builder, settings).getOrCreate()
    except (PySparkException, OSError) as error:
        raise SessionError(f"Spark does not start on {master}: {_first_line(error)}") from error
    except Exception as error:  # py4j raises what the JVM threw, in classes of its own
        if not type(error).__module__.startswith("py4j"):
            raise
        cause = _cause(error)
        if _GIVEN_UP in cause and not master.startswith("local"):
            cause = "what listens there is no master, or that of another version of Spark"
            raise SessionError(f"no Spark answers at {master}: {cause}") from error
        raise SessionError(f"Spark does not start on {master}: {cause}") from error


@contextmanager
def _python(program: str) -> Iterator[None]:
    """Let Spark start workers with this Python: a program that starts Spark is asked by the
    environment alone, and only while it does."""
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "SPARK_REMOTE")}
    os.environ.pop("SPARK_REMOTE", None)
    os.environ["PYSPARK_PYTHON"] = program
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _connect(remote: str, settings: dict[str, str]) -> SparkSession:
    """A session of a server, with defaults for what neither the server nor the caller has set."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        _await_answer(remote)
        session = _configured(SparkSession.builder.remote(remote), settings).getOrCreate()
        is_set = session.conf.getAll
        for key, value in _EVERYWHERE.items():
            if key not in is_set:
                session.conf.set(key, value)
        return session
    except ImportError as error:
        raise SessionError(
            f"Spark Connect needs packages that are not installed ({error}); "
            f"install them with: {command('pipeline')}"
        ) from error
    except PySparkException as error:
        raise SessionError(f"no Spark answers at {remote}: {_first_line(error)}") from error


def _await_answer(remote: str) -> None:
    """Raise `SessionError` unless who listens at the address speaks the protocol: Spark would try
    for minutes."""
    from pyspark.sql.connect.client import core

    grpc = core.grpc  # type: ignore[attr-defined]  # of Spark, not a package of our own
    channel = core.DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_S)
    except grpc.FutureTimeoutError:
        reason = "what listens there is no server of Spark Connect"
        raise SessionError(f"no Spark answers at {remote}: {reason}") from None
    finally:
        channel.close()


def _knock_remote(remote: str) -> None:
    """Raise `SessionError` if nobody listens at the address: Spark would try for minutes."""
    address = urlsplit(remote)
    if address.scheme != "sc" or not address.hostname:
        raise SessionError(f"{remote}: expected an address such as sc://host:{CONNECT_PORT}")
    try:
        _knock(address.hostname, address.port or CONNECT_PORT)
    except (OSError, ValueError) as error:
        raise SessionError(f"no Spark answers at {remote}: {error}") from None


def _knock_master(master: str) -> None:
    """Raise `SessionError` if nobody listens at any address of a master: Spark would try for a
    minute. Masters without an address, such as `yarn`, are left to Spark."""
    scheme, _, rest = master.partition("://")
    if scheme not in _MASTER_SCHEMES or not rest:
        return
    faults = []
    for place in rest.split(","):
        address = urlsplit(place if "://" in place else f"//{place}")
        try:
            _knock(address.hostname or "", address.port or _MASTER_SCHEMES[scheme])
            return
        except (OSError, ValueError) as error:
            faults.append(f"{place}: {error}")
    reason = "; ".join(faults)
    raise SessionError(f"no Spark answers at {master} ({reason}): is the master running there?")


def _knock(host: str, port: int) -> None:
    socket.create_connection((host, port), KNOCK_S).close()


def _configured(builder: SparkSession.Builder, settings: dict[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _own_java_options(environment: Mapping[str, str]) -> str:
    """Options for Java, without those that the environment has; logging as Spark's own directory
    says, if it does."""
    options = dict(_ARROW)
    conf = conf_directory(environment)
    if conf is None or not any(conf.glob("log4j2*")):
        options["log4j2.configurationFile"] = Path(__file__).with_name("log4j2.properties").as_uri()
    theirs = java_options(environment)
    return " ".join(f"-D{key}={value}" for key, value in options.items() if key not in theirs)


def _has_collector(environment: Mapping[str, str], chosen: Mapping[str, str]) -> bool:
    """Whether the user has chosen a garbage collector."""
    theirs = (chosen.get(_JAVA_OPTIONS), chosen.get(_EXTRA_JAVA_OPTIONS), java_options(environment))
    return any(_ANY_COLLECTOR.search(options) for options in theirs if options)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _cause(error: BaseException) -> str:
    """The exception of the JVM: the line after py4j's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    thrown = [line for line in lines if line.startswith((":", "Caused by:"))]
    return (thrown or lines or ["no reason given"])[-1].lstrip(": ")
