"""What can be compiled is there, and nothing else extends it."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOOKS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
COMPILED = {ROOT / path.removeprefix("/") for path in HOOKS["wheel"]["hooks"]["mypyc"]["include"]}


def classes_in(path: Path) -> list[ast.ClassDef]:
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]


def test_every_listed_module_exists():
    assert [path for path in sorted(COMPILED) if not path.is_file()] == []


def test_no_class_outside_extends_a_compiled_one():
    """Interpreted classes cannot inherit from compiled ones."""
    compiled = {found.name for path in COMPILED for found in classes_in(path)}
    extending = [
        (path.name, found.name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        if path not in COMPILED
        for found in classes_in(path)
        if compiled & {base.id for base in found.bases if isinstance(base, ast.Name)}
    ]
    assert extending == []
