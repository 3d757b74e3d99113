"""The pages about running brokers tell of every metric and of no other, and show what works."""

import asyncio
import re
from pathlib import Path

from byway.model.addresses import Address, Neighbour
from byway.runtime.config_sources import read_settings
from byway.runtime.metrics import Metrics
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings
from byway.storage.storage import Storage

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([\w.]+)` \| *(.*?) *\| ", re.M)
SETTINGS = BrokerSettings(id="B1", listen=Address("127.0.0.1", 0))


def rows(page: str) -> dict[str, str]:
    """First and second column of the tables of a page, where the first is a name."""
    return dict(ROW.findall((ROOT / "docs/reference" / page).read_text()))


def test_every_metric_is_told(tmp_path: Path) -> None:
    async def names() -> set[str]:
        storage = Storage(str(tmp_path))
        neighbours = (Neighbour(Address("127.0.0.1", 1), "B2"),)
        broker = storage.restore(1, "B1", SETTINGS.core, neighbours)
        text = Metrics(BrokerServer(SETTINGS, broker, storage), storage).text().decode()
        storage.abandon()
        types = re.findall(r"^# TYPE (byway_\w+) (\w+)", text, re.M)
        return {name for name, _ in types}

    assert set(rows("metrics.md")) == asyncio.run(names())


def test_the_example_can_be_used() -> None:
    for file in sorted((ROOT / "examples/brokers").glob("*.toml")):
        assert read_settings(str(file), {}, {}).settings.neighbours


def test_the_guide_shows_the_example() -> None:
    guide = (ROOT / "docs/guide/broker.md").read_text()
    example = (ROOT / "examples/brokers/hub.toml").read_text().partition("\n\n")[2]
    assert f"```toml\n{example}```" in guide
