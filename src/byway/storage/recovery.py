"""What is done when a broker raises: it goes back to what was kept, without the input that did it.

Nobody was told anything that followed from the inputs of the turn, so the journal is taken back to
before them, the broker is made again from it, and they are handed in one by one, the smallest part
that raises left out and set aside. It decides what may happen again and who must be closed; the
driver does it.
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
    set_aside,
    units,
    what_is,
)

log = logging.getLogger("byway.recovery")

FATAL: Final = (AssertionError, MemoryError)
"""What says that the broker itself is wrong, or the machine: the process ends."""


class InputJournal(Protocol):
    """Where inputs are kept before anything is done about them."""

    directory: Path
    aside: SetAsideFiles

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep inputs that are handed in together."""

    def take_back(self) -> None:
        """What was kept last did not happen."""

    def rebuild(self) -> Broker:
        """The broker by what is kept."""

    def refresh(self) -> None:
        """Make the next way back short."""


class Recovered(NamedTuple):
    """How a turn ended in which the broker raised."""

    broker: Broker
    actions: list[Action]
    """What followed from the inputs that did not raise."""
    raised: list[SetAsideInput]
    """What was set aside; whoever sent it must be closed."""


class Recognised(NamedTuple):
    """Inputs of a turn, without those that were set aside before."""

    events: list[Input]
    again: list[SetAsideInput]
    """These came again and are refused; whoever sent them must be closed."""
    done: list[SetAsideInput]
    """These were given up before; they count as handled once `events` are."""


def recover(
    journal: InputJournal | None, broker: Broker, at_us: int, events: list[Input], error: Exception
) -> Recovered:
    """Go back, and hand in what does not raise. Raises `BrokenError` if that cannot be."""
    if journal is None:
        raise BrokenError(broker.name, _without_data(events, error)) from error
    _check(broker.name, events, error)
    try:
        return _go_back(journal, broker.name, at_us, events)
    except StorageError as failure:
        reason = f"{_told(error)}, and the way back is barred: {failure}"
        raise BrokenError(broker.name, reason) from failure


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _without_data(events: list[Input], error: Exception) -> str:
    senders = sorted({str(origin_of(event)) for event in events})
    return (
        f"handling an input of {', '.join(senders)} failed with {_told(error)}, and without --data "
        "there is nothing to go back to"
    )


def _check(name: str, events: list[Input], error: Exception) -> None:
    """Whether the process must end."""
    if isinstance(error, FATAL):
        reason = f"{_told(error)}; the input that led to it is set aside at the next start"
        raise BrokenError(name, reason) from error
    if any(isinstance(event, Started) for event in events):
        raise BrokenError(name, f"it cannot begin: {_told(error)}") from error


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
            raised[origin] = entry = set_aside(at_us, unit, error)
            _put(journal, entry)
            journal.take_back()
            broker = journal.rebuild()
    journal.refresh()
    if not raised:
        log.error("inputs that raised together did not one by one; nothing was set aside")
    return Recovered(broker, actions, list(raised.values()))


def _put(journal: InputJournal, entry: SetAsideInput) -> None:
    try:
        journal.aside.put(entry)
    except OSError as error:
        reason = f"an input cannot be set aside: {error.strerror}"
        raise StorageError(journal.aside.directory, reason) from error


def recognise(aside: SetAsideFiles, events: list[Input]) -> Recognised:
    """Leave out what was set aside before. Of a sender whose input is refused, nothing after it is
    taken."""
    taken: list[Input] = []
    again: dict[InputOrigin, SetAsideInput] = {}
    done: list[SetAsideInput] = []
    for event in events:
        origin = origin_of(event)
        if origin not in aside.origins:
            taken.append(event)
            continue
        for unit in units(event):
            if origin.role and origin in again:
                break
            entry = aside.known(unit)
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
