"""One name, one thing: no two modules and no two classes of byway share a name, and what the
docstring of a package says is there exists.

What runs `byway broker` is called `cli/broker.py`: the files of the command line are named for its
verbs. The blocking client has the names of the asyncio one, because it is its twin.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/byway"
TWINS = {"client/blocking.py", "local/blocking_overlay.py", "blocking.py"}


def sources() -> list[Path]:
    """Every module but those of the command line."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.parts[-2] != "cli"]


def shared(places: dict[str, list[str]]) -> dict[str, list[str]]:
    """Names that stand for more than one place."""
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def test_no_two_modules_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if path.relative_to(SOURCE).as_posix() not in TWINS:
            places[name].append(path.relative_to(SOURCE).as_posix())
    packages = {
        "byway",
        "storage",
        "client",
        "inbox",
    }  # a package may have a module of its own name
    assert shared({name: found for name, found in places.items() if name not in packages}) == {}


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        place = path.relative_to(SOURCE).as_posix()
        if place in TWINS:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert shared(places) == {}


PACKAGES = sorted(path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
MODULES = {".".join(p.relative_to(SOURCE).with_suffix("").parts) for p in SOURCE.rglob("*.py")} | {
    ".".join(path.parent.relative_to(SOURCE).parts) for path in PACKAGES
}


def unknown(package: Path) -> list[str]:
    """Names in the docstring of a package that are neither modules, its own or by their whole
    path, nor names in its code, nor commands."""
    tree = ast.parse(package.read_text())
    own = {path.stem for path in package.parent.iterdir()}
    names = {
        alias.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for alias in n.names
    }
    told = re.findall(r"`(\w[\w.]*)`", ast.get_docstring(tree) or "")
    return [
        name
        for name in told
        if name not in own | names | {"byway", "k"} and name.removeprefix("byway.") not in MODULES
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE).parent))
def test_what_the_docstring_of_a_package_names_exists(package: Path) -> None:
    assert unknown(package) == []


def test_a_module_that_went_is_found(tmp_path: Path) -> None:
    package = tmp_path / "__init__.py"
    package.write_text('"""`one` and `gone`; `byway.core.broker`; `Name`."""\nfrom one import Name')
    (tmp_path / "one.py").touch()
    assert unknown(package) == ["gone"]
