"""One name, one thing: no two modules and no two classes of byway share a name.

What runs `byway broker` is called `cli/broker.py`: the files of the command line are named for its
verbs. The blocking client has the names of the asyncio one, because it is its twin.
"""

import ast
from collections import defaultdict
from pathlib import Path

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
