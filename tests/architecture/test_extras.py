"""What src/byway/extras.py declares is what pyproject.toml installs and what the code imports."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from byway.extras import EXTRAS, NEEDS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {"msgspec", "typer", "rich"}
COMES_WITH = {"llvmlite": "numba", "py4j": "pyspark"}
"""Packages that are imported, but installed as a part of another one."""


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): ast.parse(file.read_text()) for file in SOURCE.rglob("*.py")}


def names_in(statement: ast.stmt) -> Iterator[str]:
    """The modules that an import statement names, and what may be modules among its names."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        assert statement.module is not None
        yield statement.module
        yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def is_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def statements(body: list[ast.stmt], *, with_functions: bool) -> Iterator[ast.stmt]:
    """Those that are run when a module is imported, and those in functions if asked for."""
    for statement in body:
        yield statement
        if is_for_types(statement):
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not with_functions:
            continue
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(statement, field, [])
            yield from statements(inner, with_functions=with_functions)
        for handler in getattr(statement, "handlers", []):
            yield from statements(handler.body, with_functions=with_functions)


OF_KERNELS = {"numba", "llvmlite"}
"""What an index needs though no module of it imports them: a process of its own compiles kernels,
and a function loads them."""


def packages_of(names: Iterator[str]) -> set[str]:
    """Packages that are neither byway's nor Python's own."""
    tops = {name.partition(".")[0] for name in names}
    return {
        COMES_WITH.get(top, top) for top in tops - {"byway"} if top not in sys.stdlib_module_names
    }


@cache
def imported_by(module: str) -> frozenset[str]:
    """The modules of byway that importing this one imports, itself included, and all packages."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in MODULES:
            continue
        waiting.append(name.rpartition(".")[0] or name)
        for statement in statements(MODULES[name].body, with_functions=False):
            waiting += (
                found
                for found in names_in(statement)
                if found in MODULES or not found.startswith("byway.")
            )
    return frozenset(seen)


def below(module: str) -> list[str]:
    """A module and those in it."""
    return [name for name in MODULES if name == module or name.startswith(f"{module}.")]


def declared_of(module: str) -> str | None:
    """The nearest declared module that contains this one."""
    while module and module not in NEEDS:
        module = module.rpartition(".")[0]
    return module or None


def brought_by(extra: str) -> set[str]:
    """The packages that an extra brings, and those of the extras it brings."""
    found: set[str] = set()
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "byway":
            found.update(*map(brought_by, requirement.extras))
        else:
            found.add(requirement.name.replace("-", "_"))
    return found


def test_a_client_needs_three_packages() -> None:
    assert {Requirement(text).name for text in PROJECT["dependencies"]} == BASE


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_is_declared(extra: str) -> None:
    others = {"pipeline": brought_by("broker") | brought_by("trace")}.get(extra, set())
    assert brought_by(extra) == set(EXTRAS[extra]) | others


def test_all_brings_all_and_dev_brings_more() -> None:
    everything = set().union(*EXTRAS.values())
    assert brought_by("all") == everything
    assert brought_by("dev") > everything
    assert PROJECT["optional-dependencies"].keys() == {*EXTRAS, "all", "dev", "bench", "docs"}


@pytest.mark.parametrize("module", NEEDS)
def test_what_a_module_needs_is_what_it_imports(module: str) -> None:
    assert module in MODULES
    own = [name for name in below(module) if declared_of(name) == module]
    needed = packages_of(name for each in own for name in imported_by(each)) - BASE
    declared = set(NEEDS[module].packages)
    assert needed <= declared
    assert declared - needed <= OF_KERNELS


@pytest.mark.parametrize("module", NEEDS)
def test_the_extra_that_is_named_is_enough(module: str) -> None:
    extra, packages = NEEDS[module]
    if module == "byway.runtime.tracing":  # a part of the broker process, which has asked for more
        packages = tuple(set(packages) - set(EXTRAS["broker"]))
    assert set(packages) <= brought_by(extra)


def test_whatever_else_imports_the_three_packages_only() -> None:
    strays = {}
    for module, tree in MODULES.items():
        declared = declared_of(module)
        allowed = BASE | (brought_by(NEEDS[declared].extra) if declared else set())
        found = packages_of(
            name
            for statement in statements(tree.body, with_functions=True)
            for name in names_in(statement)
        )
        if found - allowed:
            strays[module] = found - allowed
    assert strays == {}


def test_the_reader_of_imports_sees_them() -> None:
    source = """
import asyncio
try:
    import one.part
except ImportError:
    from two import name
if TYPE_CHECKING:
    import three
def function():
    import four
"""
    body = ast.parse(source).body

    def packages(with_functions: bool) -> set[str]:
        read = statements(body, with_functions=with_functions)
        return packages_of(name for statement in read for name in names_in(statement))

    assert packages(False) == {"one", "two"}
    assert packages(True) == {"one", "two", "four"}


def test_the_readme_and_the_page_name_the_extras() -> None:
    for page in ("README.md", "docs/guide/install.md"):
        named = set(re.findall(r"byway\[(\w+)\]", (ROOT / page).read_text()))
        assert named >= EXTRAS.keys(), page
