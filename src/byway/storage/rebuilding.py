"""Hands what was kept to a broker, and goes back where an input raises.

A broker that raised is half changed and worth nothing, so it is made again from the last place that
is known to be sound, and what followed is handed in once more, the smallest part that raises left
out. It knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input
from byway.storage.record_files import decode_inputs, decode_readable, encode_inputs
from byway.storage.set_aside import (
    InputOrigin,
    SetAsideInput,
    origin_of,
    set_aside,
    set_aside_unread,
    units,
)

Made = Callable[[], Broker]


def broker_from(
    data: bytes, config: BrokerConfig, stale: bool, up: list[str], attached: list[str]
) -> Broker:
    """The broker of a snapshot, its links up and its clients here as they were. Raises
    `SnapshotError`."""
    return Broker.restore(data, config, up=up, attached=attached, stale=stale)


class Rebuild:
    """A broker on the way from a snapshot to its last input."""

    def __init__(self, make: Made) -> None:
        self.broker = make()
        self.inputs = 0
        """Handed in."""
        self._make = make
        self._since: list[bytes] = []
        """What was handed in since the place to go back to."""

    def hand_in(self, payload: bytes) -> list[SetAsideInput]:
        """Hand in a record; what of it raises, or cannot be read, and is left out."""
        try:
            at_us, inputs, unread = decode_readable(payload)
        except msgspec.DecodeError as error:
            return [set_aside_unread(0, "", payload, error)]
        found = [set_aside_unread(at_us, *one) for one in unread]
        try:
            self.broker.handle_batch(at_us, inputs)
        except Exception:
            return found + self._one_by_one(at_us, inputs)
        self._since.append(encode_inputs(at_us, inputs) if unread else payload)
        self.inputs += len(inputs)
        return found

    def _one_by_one(self, at_us: int, inputs: list[Input]) -> list[SetAsideInput]:
        """Whoever sent what raises sends the rest again, so that is left out as well."""
        self._go_back()
        self._stay_here()
        found: dict[InputOrigin, SetAsideInput] = {}
        for unit in (unit for event in inputs for unit in units(event)):
            origin = origin_of(unit)
            if origin.role and origin in found:
                continue
            try:
                self.broker.handle(at_us, unit)
            except Exception as error:
                found[origin] = set_aside(at_us, unit, error)
                self._go_back()
            else:
                self._since.append(encode_inputs(at_us, [unit]))
                self.inputs += 1
        return list(found.values())

    def _go_back(self) -> None:
        self.broker = self._make()
        for payload in self._since:
            self.broker.handle_batch(*decode_inputs(payload))

    def _stay_here(self) -> None:
        """This is the place to go back to from now on."""
        broker = self.broker
        config, stale = broker.config, broker.sessions_stale
        data, up, attached = broker.snapshot(), broker.links_up, broker.clients_attached
        self._make = lambda: broker_from(data, config, stale, up, attached)
        self._since = []
