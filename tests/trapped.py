"""A behaviour that raises where a test wants it to: an input that nobody foresaw.

`trap` plugs it in, in the place of load exchange, which every broker has whose configuration gives
it an interval, also one that is made again from a snapshot.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from byway.core.behaviours import LoadExchange, registry
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from byway.model.messages import Publish

CONFIG = BrokerConfig(load_interval_us=60_000_000)
RAISES, ASSERTS = b"raises", b"asserts"


class TrappedError(Exception):
    """Raised by `Trapped` in the midst of an input."""


class Trapped(LoadExchange):
    """Load exchange that raises at inputs that contain `RAISES` or `ASSERTS`."""

    handled: ClassVar[list[str]] = []
    """The kinds of inputs that it handled without raising, of all brokers."""

    def _see(self, what: str, text: str | bytes) -> None:
        text = text.encode() if isinstance(text, str) else text
        if RAISES in text:
            routing = self.view._context.routing
            routing.adverts.alternates.links["half"] = "changed"  # type: ignore[index]
            raise TrappedError(f"at {what}")
        assert ASSERTS not in text, f"at {what}"
        self.handled.append(what)

    def on_publication_routed(
        self,
        publication: Publish,
        link: str | None,
        links: Sequence[str],
        clients: Sequence[str],
    ) -> None:
        self._see("publication", publication.body)
        super().on_publication_routed(publication, link, links, clients)

    def on_message(self, link: str, message: Any) -> None:
        self._see("report", "".join(load.broker for load in message.loads))
        super().on_message(link, message)

    def on_timer(self, detail: str) -> None:
        self._see("timer", detail)
        super().on_timer(detail)

    def on_link_up(self, link: str) -> None:
        self._see("link up", link)

    def on_link_down(self, link: str) -> None:
        self._see("link down", link.replace("falls", "raises"))
        super().on_link_down(link)

    def on_load_sampled(self, sample: LoadSampled) -> None:
        self._see("sample", "".join(load.link for load in sample.links))
        super().on_load_sampled(sample)


def trap(monkeypatch: Any) -> None:
    """Let brokers with `CONFIG` have `Trapped` until the test ends."""
    monkeypatch.setattr(Trapped, "handled", [])
    monkeypatch.setitem(registry._registered, LoadExchange.name, Trapped)


def trap_for_good() -> None:
    """Let brokers with `CONFIG` have `Trapped` for the rest of this process."""
    registry._registered[LoadExchange.name] = Trapped
