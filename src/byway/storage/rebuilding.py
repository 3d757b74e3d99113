"""Replays records of inputs into a broker, and leaves out an input that raises.

A broker that raised is half changed and cannot be used, so it is made again from the last
checkpoint, and the inputs since are handled once more, without the smallest part that raises. This
module knows nothing of files.
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
    raised_input,
    units,
    unreadable_input,
)

Made = Callable[[], Broker]


def broker_from(
    data: bytes, config: BrokerConfig, stale: bool, up: list[str], attached: list[str]
) -> Broker:
    """The broker of a snapshot, with these links up and these clients attached. Raises
    `SnapshotError`."""
    return Broker.restore(data, config, up=up, attached=attached, stale=stale)


class Rebuild:
    """A broker that is rebuilt from a snapshot, record by record."""

    def __init__(self, make: Made) -> None:
        self.broker = make()
        self.inputs = 0
        """Number of inputs handled."""
        self._make = make
        self._since: list[bytes] = []
        """Records handled since the last checkpoint."""

    def hand_in(self, payload: bytes) -> list[SetAsideInput]:
        """Handle the inputs of a record; those that raise, or cannot be read, and are left out."""
        try:
            at_us, inputs, unread = decode_readable(payload)
        except msgspec.DecodeError as error:
            return [unreadable_input(0, "", payload, error)]
        found = [unreadable_input(at_us, *one) for one in unread]
        try:
            self.broker.handle_batch(at_us, inputs)
        except Exception:
            return found + self._one_by_one(at_us, inputs)
        self._since.append(encode_inputs(at_us, inputs) if unread else payload)
        self.inputs += len(inputs)
        return found

    def _one_by_one(self, at_us: int, inputs: list[Input]) -> list[SetAsideInput]:
        """Handle inputs one by one; those that raise. A sender whose input raises sends what
        followed again, so the rest of its inputs is left out as well."""
        self._go_back()
        self._checkpoint()
        found: dict[InputOrigin, SetAsideInput] = {}
        for unit in (unit for event in inputs for unit in units(event)):
            origin = origin_of(unit)
            if origin.role and origin in found:
                continue
            try:
                self.broker.handle(at_us, unit)
            except Exception as error:
                found[origin] = raised_input(at_us, unit, error)
                self._go_back()
            else:
                self._since.append(encode_inputs(at_us, [unit]))
                self.inputs += 1
        return list(found.values())

    def _go_back(self) -> None:
        self.broker = self._make()
        for payload in self._since:
            self.broker.handle_batch(*decode_inputs(payload))

    def _checkpoint(self) -> None:
        """Make the present state the checkpoint to go back to."""
        broker = self.broker
        config, stale = broker.config, broker.sessions_stale
        data, up, attached = broker.snapshot(), broker.links_up, broker.clients_attached
        self._make = lambda: broker_from(data, config, stale, up, attached)
        self._since = []
