"""Recovery from a broker that raises: it is rebuilt without the input that raised.

The inputs of the turn had no effect yet, so they are removed from the journal, the broker is
rebuilt from it, and they are handled one by one; the smallest part that raises is set aside. This
module decides what is handled again and whose connection must be closed; the driver closes it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from byway.core.actions import Action
from byway.core.broker import Broker
from byway.core.inputs import Input, Started
from byway.model.errors import BrokenError, StorageError
from byway.storage.set_aside import (
    InputOrigin,
    SetAsideFiles,
    SetAsideInput,
    discarded,
    origin_of,
    raised_input,
    units,
    what_is,
)

log = logging.getLogger("byway.recovery")

FATAL: Final = (AssertionError, MemoryError)
"""Errors that mean a fault of the broker itself or of the machine: the process ends."""


class InputJournal(Protocol):
    """Where inputs are kept before they have any effect; `Storage` is the real one."""

    directory: Path
    set_aside: SetAsideFiles

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Append inputs that are handled together. Raises `StorageError`."""

    def take_back(self) -> None:
        """Remove the inputs of the last `keep`. Raises `StorageError`."""

    def rebuild(self) -> Broker:
        """A new broker, from what is kept. Raises `StorageError`."""

    def refresh(self) -> None:
        """Take a snapshot, so that the next rebuild is short. Raises `StorageError`."""


class Recovered(NamedTuple):
    """The result of a turn in which the broker raised."""

    broker: Broker
    actions: list[Action]
    """Actions of the inputs that did not raise."""
    raised: list[SetAsideInput]
    """Inputs that were set aside; the connections of their senders must be closed."""


class Recognised(NamedTuple):
    """Inputs of a turn, without those that were set aside before."""

    events: list[Input]
    again: list[SetAsideInput]
    """Inputs that came again and are refused; their senders' connections must be closed."""
    done: list[SetAsideInput]
    """Inputs that an operator discarded; they count as handled once `events` are."""


def recover(
    journal: InputJournal | None, broker: Broker, at_us: int, events: list[Input], error: Exception
) -> Recovered:
    """Rebuild the broker, and handle the inputs that do not raise. Raises `BrokenError` if that is
    not possible."""
    if journal is None:
        raise BrokenError(broker.name, _without_data(events, error)) from error
    _check(broker.name, events, error)
    try:
        return _go_back(journal, broker.name, at_us, events)
    except StorageError as failure:
        reason = f"{_described(error)}, and the broker cannot be rebuilt: {failure}"
        raise BrokenError(broker.name, reason) from failure


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _without_data(events: list[Input], error: Exception) -> str:
    senders = sorted({str(origin_of(event)) for event in events})
    return (
        f"handling an input of {', '.join(senders)} failed with {_described(error)}, "
        "and without --data the broker cannot be rebuilt"
    )


def _check(name: str, events: list[Input], error: Exception) -> None:
    """Raise `BrokenError` if the process must end."""
    if isinstance(error, FATAL):
        reason = f"{_described(error)}; the input that led to it is set aside at the next start"
        raise BrokenError(name, reason) from error
    if any(isinstance(event, Started) for event in events):
        raise BrokenError(name, f"it cannot start: {_described(error)}") from error


def _go_back(journal: InputJournal, name: str, at_us: int, events: list[Input]) -> Recovered:
    journal.take_back()
    broker = journal.rebuild()
    actions: list[Action] = []
    raised: dict[InputOrigin, SetAsideInput] = {}
    for unit in (unit for event in events for unit in units(event)):
        origin = origin_of(unit)
        if origin.role and origin in raised:
            continue  # it comes again, when its sender is back
        try:
            journal.keep(at_us, [unit])
            actions += broker.handle(at_us, unit)
        except StorageError:
            raise
        except Exception as error:
            _check(name, [unit], error)
            raised[origin] = entry = raised_input(at_us, unit, error)
            _put(journal, entry)
            journal.take_back()
            broker = journal.rebuild()
    journal.refresh()
    if not raised:
        log.error("inputs that raised together did not one by one; nothing was set aside")
    return Recovered(broker, actions, list(raised.values()))


def _put(journal: InputJournal, entry: SetAsideInput) -> None:
    try:
        journal.set_aside.put(entry)
    except OSError as error:
        reason = f"an input cannot be set aside: {error.strerror}"
        raise StorageError(journal.set_aside.directory, reason) from error


def recognise(files: SetAsideFiles, events: list[Input]) -> Recognised:
    """The inputs without those that were set aside before. Once an input of a sender is refused,
    nothing more of that sender is handled."""
    taken: list[Input] = []
    again: dict[InputOrigin, SetAsideInput] = {}
    done: list[SetAsideInput] = []
    for event in events:
        origin = origin_of(event)
        if origin not in files.origins:
            taken.append(event)
            continue
        for unit in units(event):
            if origin.role and origin in again:
                break
            entry = files.known(unit)
            if entry is None:
                taken.append(unit)
            elif entry.discarded:
                log.warning("lost: %s of %s", what_is(unit), origin)
                done.append(entry)
                instead = discarded(unit)
                taken += [] if instead is None else [instead]
            else:
                again[origin] = entry
    return Recognised(taken, list(again.values()), done)
