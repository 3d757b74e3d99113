"""The security page says what is so: what is missing is not there, and what is named exists."""

import ast
import re
from pathlib import Path

import pytest

from byway.model.options import all_options_of
from byway.runtime.settings import BrokerSettings
from tests.integration.processes import brokers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/security.md").read_text()


def test_what_is_missing_is_not_there() -> None:
    """Whoever adds TLS or a login has to change the page."""
    assert "| TLS |" in PAGE
    imported = set()
    for file in (ROOT / "src/byway").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    assert not imported & {"ssl", "hmac", "cryptography", "OpenSSL"}
    words = {
        word for option in all_options_of(BrokerSettings) for word in re.split(r"\W|_", option.key)
    }
    assert not words & {"tls", "token", "password", "user", "users", "certificate", "permissions"}


def test_the_ports_are_those_of_the_settings() -> None:
    keys = {option.key for option in all_options_of(BrokerSettings)}
    for key in re.findall(r"^\| `(\w+)` \(", PAGE, re.M):
        assert key in keys
    assert "| `listen` (7001) |" in PAGE


@pytest.mark.integration
@pytest.mark.timeout(300)  # the kernels may have to be compiled
def test_files_of_state_are_their_owners_alone(tmp_path: Path) -> None:
    assert "State, journal and restart marker can be read by their owner only." in PAGE
    anywhere = "127.0.0.1:0"
    places = [tmp_path / "data", tmp_path / "state"]
    with brokers() as started:
        started.start(
            "--id", "hub", "--listen", anywhere, "--data", str(places[0]),
            "--state-dir", str(places[1]), "--neighbour", "west@127.0.0.1:1",
        ).ready()  # fmt: skip
        files = [path for place in places for path in place.rglob("*") if path.is_file()]
        assert {"state", "neighbours.json"} <= {path.name for path in files}
        assert any(path.name.startswith("journal-") for path in files)
        for path in files:
            assert not path.stat().st_mode & 0o077, path
