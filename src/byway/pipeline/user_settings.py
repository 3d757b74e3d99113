"""Reads what the user has set for Spark, before Spark is started.

Spark has no place for defaults that yield to its own files: a setting that a program makes stands
above them. So they are read here, where Spark's launcher reads them, and `spark_session` sets only
what is not among them. This module starts nothing and needs no Spark.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from byway.pipeline.pipeline_errors import SessionError

DEFAULTS: Final = "spark-defaults.conf"

_OPTIONS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--remote": "spark.remote",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
"""Options of spark-submit that set what the pipeline has defaults for."""
_VARIABLES: Final = {
    "MASTER": ["spark.master"],
    "SPARK_REMOTE": ["spark.remote"],
    "SPARK_DRIVER_MEMORY": ["spark.driver.memory"],
    "PYSPARK_PYTHON": ["spark.pyspark.python"],
    "SPARK_LOCAL_IP": ["spark.driver.host", "spark.driver.bindAddress"],
    "SPARK_LOCAL_HOSTNAME": ["spark.driver.host", "spark.driver.bindAddress"],
}
"""Environment variables of Spark, and the settings that they stand for."""
_JAVA_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\s*[=:]\s*|\s+)")
_ESCAPED: Final = re.compile(r"\\(.)")


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the user has set, by Spark's names: in environment variables, in `spark-defaults.conf`
    and in `PYSPARK_SUBMIT_ARGS`, the later above the earlier, as for Spark.

    Raises `SessionError` if a file or the arguments cannot be read.
    """
    found = {
        key: environment[variable]
        for variable, keys in _VARIABLES.items()
        if environment.get(variable)
        for key in keys
    }
    conf = conf_directory(environment)
    file = None if conf is None else conf / DEFAULTS
    submitted = dict(_submitted(environment.get("PYSPARK_SUBMIT_ARGS", "")))
    if named := submitted.pop("--properties-file", None):
        file = Path(named)
    if file is not None and (named or file.is_file()):
        found |= _properties(file)
    return found | submitted


def java_options(environment: Mapping[str, str]) -> str:
    """Options that the environment has for every Java program; a later one stands above them."""
    return " ".join(filter(None, map(environment.get, _JAVA_VARIABLES)))


def conf_directory(environment: Mapping[str, str]) -> Path | None:
    """The directory of Spark's own configuration, whether it exists or not."""
    if directory := environment.get("SPARK_CONF_DIR"):
        return Path(directory)
    if home := environment.get("SPARK_HOME"):
        return Path(home, "conf")
    package = find_spec("pyspark")
    return Path(package.origin).with_name("conf") if package and package.origin else None


def _submitted(arguments: str) -> Iterator[tuple[str, str]]:
    """Settings among the arguments of spark-submit; a file of them by the name of its option."""
    try:
        words = iter(shlex.split(arguments))
    except ValueError as error:
        raise SessionError(f"PYSPARK_SUBMIT_ARGS cannot be read ({error})") from None
    for word in words:
        option, joined, value = word.partition("=")
        if option in ("--conf", "-c"):
            key, _, value = (value if joined else next(words, "")).partition("=")
            yield key, value
        elif option in _OPTIONS or option == "--properties-file":
            yield _OPTIONS.get(option, option), value if joined else next(words, "")


def _properties(file: Path) -> dict[str, str]:
    """The settings of a file in the format of Java's properties."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"{file}: cannot be read ({error})") from None
    found = {}
    for line in _logical_lines(text):
        key, *rest = _SEPARATOR.split(line, maxsplit=1)
        found[_ESCAPED.sub(r"\1", key)] = _ESCAPED.sub(r"\1", "".join(rest)).strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments; one that ends in a backslash goes on in the next."""
    begun = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not begun and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        begun += line[:-1] if goes_on else line
        if not goes_on:
            yield begun
            begun = ""
    if begun:
        yield begun
