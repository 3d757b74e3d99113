"""Inputs that were set aside because the broker raised, and the files they are kept in.

An input that raises is removed from the journal and set aside, one file each, so that an operator
can examine it and the same input is recognised when it comes again. This module decides what the
smallest part (unit) of an input is, when two units are the same, and how many are kept. The driver
decides what happens to connections.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from byway._version import __version__
from byway.core.inputs import (
    ClientAttached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkUp,
    MessageDiscarded,
    NeighbourAdded,
    RequestDiscarded,
)
from byway.model.errors import StorageError, shortened
from byway.model.messages import Batch, Publish, PublishRequest
from byway.storage.file_system import FileSystem, write_synced
from byway.storage.record_files import (
    RecordFile,
    decode_as,
    decode_inputs,
    encode_inputs,
    record,
    title,
)

log = logging.getLogger("byway.set_aside")

SET_ASIDE: Final = "set-aside"
KEPT_MAX: Final = 1_000
"""Inputs that are kept; beyond, an input that raises is still removed from the journal and its
sender's connection closed, but it is only logged, and so not recognised when it comes again."""
KEPT_BYTES_MAX: Final = 67_108_864
"""Bytes of their files, with the same effect."""
_WORDS_MAX: Final = 200
_TRACEBACK_MAX: Final = 20_000

_encode: Final = msgspec.msgpack.Encoder().encode


class InputOrigin(NamedTuple):
    """The sender of an input."""

    role: str
    """`link`, `client`, or empty for an input of this process itself, such as a timer."""
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}" if self.role else "the broker itself"


class SetAsideInput(msgspec.Struct, array_like=True, frozen=True):
    """An input that was set aside."""

    digest: str
    """Digest of its sender and its content; the name of its file."""
    at_us: int
    version: str
    """Version of the program that it raised in."""
    role: str
    name: str
    what: str
    """The input in words."""
    error: str
    """The exception, on one line."""
    traceback: str
    payload: bytes
    """The input as a journal holds it; empty if it cannot be encoded."""
    discarded: bool = False
    """Whether an operator discarded it; it counts as handled when it comes again."""

    @property
    def origin(self) -> InputOrigin:
        """The sender of the input."""
        return InputOrigin(self.role, self.name)

    @property
    def words(self) -> str:
        """The input, its sender, time and error, on one line for an operator."""
        at = datetime.fromtimestamp(self.at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"{self.digest}: {self.what} from {self.origin}, at {at} UTC: {self.error}"


_decode: Final = msgspec.msgpack.Decoder(SetAsideInput)


# --- inputs ------------------------------------------------------------------------------------


def units(event: Input) -> Iterator[Input]:
    """The smallest inputs that together have the effect of this one."""
    if isinstance(event, FrameReceived) and isinstance(event.frame, Batch):
        lane, first = event.frame.lane, event.frame.first
        for number, message in enumerate(event.frame.messages, first):
            yield FrameReceived(event.link, Batch(lane, number, (message,)))
    elif isinstance(event, ClientRequested):
        for request in event.requests:
            yield ClientRequested(event.client, (request,))
    else:
        yield event


def origin_of(event: Input) -> InputOrigin:
    """The peer over whose connection an input came; the process itself for all other inputs, such
    as the loss of a connection."""
    match event:
        case FrameReceived(link=link) | LinkUp(link=link) | MessageDiscarded(link=link):
            return InputOrigin("link", link)
        case NeighbourAdded(neighbour=link):
            return InputOrigin("link", link)
        case ClientAttached(client=client) | ClientRequested(client=client):
            return InputOrigin("client", client)
        case RequestDiscarded(client=client):
            return InputOrigin("client", client)
    return InputOrigin("", "")


def _meaning(event: Input) -> tuple[Any, ...]:
    """The content by which a unit is recognised when it comes again, without the numbers that
    change with the connection."""
    kind = type(event).__name__
    match event:
        case FrameReceived(frame=Batch(lane=lane, messages=messages)):
            return kind, int(lane), *messages
        case LinkUp(hello=hello):
            return kind, hello.broker, hello.incarnation, hello.knows, hello.epoch, hello.version
        case ClientAttached(incarnation=incarnation, session_ttl_us=ttl_us):
            return kind, incarnation, ttl_us
    return kind, event


def digest_of(event: Input) -> str:
    """The digest of a unit's sender and content."""
    meaning = (*origin_of(event), *_meaning(event))
    try:
        data = _encode(meaning)
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError):
        data = repr(meaning).encode()
    return blake2b(data, digest_size=8).hexdigest()


def discarded(event: Input) -> Input | None:
    """The input that is handled in place of a discarded unit; None: none is needed."""
    if isinstance(event, FrameReceived) and isinstance(event.frame, Batch):
        return MessageDiscarded(event.link, event.frame)
    if isinstance(event, ClientRequested):
        return RequestDiscarded(event.client, event.requests[0])
    return None


def what_is(event: Input) -> str:
    """A unit in words, for operators."""
    subject: Any = event
    if isinstance(event, FrameReceived) and isinstance(event.frame, Batch):
        subject = event.frame.messages[0]
    elif isinstance(event, ClientRequested):
        subject = event.requests[0]
    if isinstance(subject, Publish):
        id = f"{subject.publisher}/{subject.incarnation}/{subject.sequence}"
        return f"publication {id} of {len(subject.body)} bytes"
    if isinstance(subject, PublishRequest):
        return f"publication {subject.sequence} of {len(subject.body)} bytes"
    return shortened(repr(subject), _WORDS_MAX)


def raised_input(at_us: int, event: Input, error: BaseException) -> SetAsideInput:
    """The record of a unit that raised, with its error."""
    try:
        payload = encode_inputs(at_us, [event])
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError):
        payload = b""
    return _made(at_us, origin_of(event), digest_of(event), what_is(event), error, payload)


def unreadable_input(at_us: int, kind: str, payload: bytes, error: BaseException) -> SetAsideInput:
    """The record of an input in a journal that this program cannot decode."""
    digest = blake2b(payload, digest_size=8).hexdigest()
    what = (
        f"an input of kind {kind!r} that cannot be read" if kind else "inputs that cannot be read"
    )
    return _made(at_us, InputOrigin("", ""), digest, what, error, payload)


def _made(
    at_us: int, origin: InputOrigin, digest: str, what: str, error: BaseException, payload: bytes
) -> SetAsideInput:
    told = shortened(f"{type(error).__name__}: {error}".replace("\n", " "), _WORDS_MAX)
    trace = "".join(traceback.format_exception(error))[-_TRACEBACK_MAX:]
    return SetAsideInput(
        digest, at_us, __version__, origin.role, origin.name, what, told, trace, payload
    )


# --- files -------------------------------------------------------------------------------------


class SetAsideFiles:
    """The inputs set aside in one broker's directory, and the senders that are barred for them."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self.directory = directory / SET_ASIDE
        self._files = files
        self.entries: dict[str, SetAsideInput] = {}
        """By digest, the inputs set aside, oldest first."""
        self.origins: dict[InputOrigin, int] = {}
        """By sender, the number of its inputs set aside."""
        self.barred: dict[InputOrigin, SetAsideInput] = {}
        """By sender whose input came again, that input; the sender is refused until an operator
        discards it."""
        self.total = 0
        """Inputs set aside by this process."""
        self.refused = 0
        """Number of times that an input set aside came again and was refused."""
        self._bytes = 0
        if files.exists(self.directory):
            self._load()

    def __repr__(self) -> str:
        return f"<SetAsideFiles {len(self.entries)} inputs, {len(self.barred)} senders barred>"

    def _load(self) -> None:
        found = []
        for name in self._files.names(self.directory):
            path = self.directory / name
            if path.suffix == ".new":
                continue
            try:
                file = RecordFile(self._files, path, SET_ASIDE)
                found += [decode_as(path, _decode, data) for data in file]
            except StorageError as error:
                log.warning("an input that was set aside cannot be read: %s", error)
        for entry in sorted(found, key=lambda entry: (entry.at_us, entry.digest)):
            self._add(entry)

    def _add(self, entry: SetAsideInput) -> None:
        self.entries[entry.digest] = entry
        self.origins[entry.origin] = self.origins.get(entry.origin, 0) + 1
        self._bytes += _size(entry)

    @property
    def waiting(self) -> list[SetAsideInput]:
        """Inputs that no operator has discarded, oldest first."""
        return [entry for entry in self.entries.values() if not entry.discarded]

    def put(self, entry: SetAsideInput) -> None:
        """Write an input that raised to the disk. Raises `OSError`."""
        self.total += 1
        log.error("an input was set aside: %s", entry.words)
        if entry.digest in self.entries:
            self._forget(entry.digest)
        self._make_room()
        if len(self.entries) >= KEPT_MAX or self._bytes + _size(entry) > KEPT_BYTES_MAX:
            log.error("%s is full: the input is not kept", self.directory)
            return
        self._write(entry)
        self._add(entry)

    def _make_room(self) -> None:
        """Remove discarded inputs that never came again, oldest first, while there are too many."""
        for entry in list(self.entries.values()):
            if len(self.entries) < KEPT_MAX:
                return
            if entry.discarded:
                self.remove(entry.digest)

    def _write(self, entry: SetAsideInput) -> None:
        self._files.make_directory(self.directory)
        path = self.directory / entry.digest
        new = path.with_suffix(".new")
        write_synced(self._files, new, title(SET_ASIDE) + record(_encode(entry)))
        self._files.rename(new, path)
        self._files.sync_path(self.directory)

    def remove(self, digest: str) -> None:
        """Remove an input and its file."""
        self._forget(digest)
        with suppress(OSError):
            self._files.remove(self.directory / digest)

    def _forget(self, digest: str) -> None:
        entry = self.entries.pop(digest)
        self._bytes -= _size(entry)
        self.origins[entry.origin] -= 1
        if not self.origins[entry.origin]:
            del self.origins[entry.origin]

    def known(self, event: Input) -> SetAsideInput | None:
        """The record of this unit, if it was set aside before."""
        return self.entries.get(digest_of(event))

    def bar(self, entry: SetAsideInput) -> None:
        """Bar the sender of an input that came again."""
        self.refused += 1
        if entry.role:
            self.barred[entry.origin] = entry

    def bars(self, role: str, name: str) -> str:
        """Why a sender is barred; empty if it is not."""
        entry = self.barred.get(InputOrigin(role, name))
        if entry is None:
            return ""
        return f"{entry.what} of it cannot be handled here and was set aside ({entry.digest})"

    def discard(self, which: str) -> list[SetAsideInput]:
        """Discard the inputs whose digest begins with `which`, or `all`; those discarded. Raises
        `OSError`."""
        chosen = [
            e for e in self.waiting if which == "all" or (which and e.digest.startswith(which))
        ]
        for entry in chosen:
            self.remove(entry.digest)
            self.barred.pop(entry.origin, None)
            if _may_come_again(entry):
                kept = msgspec.structs.replace(entry, discarded=True)
                self._write(kept)
                self._add(kept)
        for entry in self.waiting:  # a sender may be barred for another input
            if entry.origin in self.barred:
                self.barred[entry.origin] = entry
        return chosen


def _may_come_again(entry: SetAsideInput) -> bool:
    """Whether its sender repeats it until it is acknowledged."""
    if not entry.payload or not entry.role:
        return False
    try:
        _, inputs = decode_inputs(entry.payload)
    except (msgspec.MsgspecError, KeyError):
        return False
    return discarded(inputs[0]) is not None


def _size(entry: SetAsideInput) -> int:
    return len(entry.payload) + len(entry.traceback) + len(entry.what) + len(entry.error)
