"""The page on the architecture names functions that exist and layers as they are."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/byway"
PAGE = (ROOT / "docs/reference/architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
STEPS = [
    (file, name)
    for file, names in re.findall(r"^\| `([\w/]+\.py)` \| (`.*?) \| ", PAGE, re.M)
    for name in re.findall(r"`([\w.]+)`", names)
]
FILES = sorted(set(re.findall(r"`((?:core|model|sim|runtime|pipeline)/[a-z_/]+\.py)`", PAGE)))


def section(title: str) -> str:
    return re.split(rf"^## {title}$", PAGE, flags=re.M)[1].split("\n## ")[0]


def test_the_steps_were_found() -> None:
    assert len(STEPS) > 30
    assert ("core/broker.py", "Broker.handle_batch") in STEPS


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_exists(file: str, name: str) -> None:
    assert (PACKAGE / file).is_file()
    module = importlib.import_module("byway." + file.removesuffix(".py").replace("/", "."))
    found: object = module
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize("file", FILES)
def test_a_file_exists(file: str) -> None:
    assert (PACKAGE / file).is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|testdata)/[\w/.]+)`", PAGE))))
def test_a_file_of_the_tests_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_layers_are_those_of_the_contract() -> None:
    layers = next(c["layers"] for c in CONTRACTS if c["id"] == "layers")
    there = [[name for name in re.findall(r"\w+", layer) if _exists(name)] for layer in layers]
    rows = re.findall(r"^\| (`.*?) \| ", section("Packages"), re.M)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [layer for layer in there if layer]


def _exists(name: str) -> bool:
    return (PACKAGE / f"{name}.py").is_file() or (PACKAGE / name / "__init__.py").is_file()


@pytest.mark.parametrize("contract", CONTRACTS[1:], ids=lambda contract: str(contract["id"]))
def test_every_contract_is_named(contract: dict[str, object]) -> None:
    assert f"**{contract['name']}**" in section("Packages")


def test_the_picture_is_there() -> None:
    assert "](architecture.svg)" in PAGE
    assert (ROOT / "docs/reference/architecture.svg").is_file()
