"""Steps from a broker's data directory: what its snapshot holds of the subject, which inputs in its
journals named it, and which of those it could not handle.

Nothing is replayed, locked or written, so a broker that runs is not disturbed. It decides which
inputs touch a subject: those that name it, and those that end everything of the client or
neighbour it came from. The end of a journal may be missing while it is written; that is noted, and
so is damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from byway.core import snapshot
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    MessageDiscarded,
    NeighbourRemoved,
    RequestDiscarded,
    TimerFired,
)
from byway.core.snapshot import BrokerState, EntryState
from byway.model.errors import SnapshotError, StorageError
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    Batch,
    Disconnect,
    EntryId,
    Message,
    Publish,
    PublishRequest,
    Request,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncNames,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.storage.file_system import OS_FILES
from byway.storage.record_files import DamagedError, RecordFile, decode_as, decode_readable
from byway.storage.set_aside import SetAsideFiles
from byway.storage.state_files import (
    JOURNAL,
    STATE,
    JournalOwner,
    journal_numbers,
    journal_path,
    read_state,
)
from byway.story.steps import Source, StoryStep
from byway.story.subject import PublicationId, Subject, entry_text

ATTEMPTS: Final = 5
"""Times a directory is read again because its broker replaced a journal in the meantime."""
REGISTERING: Final = ("subscribe", "advertise")
"""Inputs by which a broker gets an entry from a client or neighbour."""
SESSION_TIMER: Final = "session"
"""Owner of the timer that ends the session of a client that stayed away."""

_decode_owner: Final = msgspec.msgpack.Decoder(JournalOwner)


class _JournalReplacedError(Exception):
    """A snapshot has replaced a journal since the directory was listed."""


def read_journal_steps(path: Path, subject: Subject) -> tuple[list[StoryStep], Source]:
    """What the data directory at `path` has of a subject. Raises `StorageError`."""
    for attempt in range(ATTEMPTS):
        try:
            return _Reader(path, subject).read()
        except _JournalReplacedError as error:
            if attempt == ATTEMPTS - 1:
                raise StorageError(path, "its journals are replaced too often") from error
    raise AssertionError("unreachable")


class _Reader:
    """Reads one data directory once; what it finds is in `read`."""

    def __init__(self, directory: Path, subject: Subject) -> None:
        self.directory = directory
        self.subject = subject
        self.broker = ""
        self.inputs = 0
        self.notes: list[str] = []
        self._steps: list[StoryStep] = []
        self._incarnations: dict[str, int] = {}
        """By client, as far as it is known."""
        self._entry_origins: set[str] = set()
        """Where the subject came from, if it is an entry."""
        self._context: set[int] = set()
        """Steps, by place, of inputs that concern all entries of a client or neighbour. They belong
        to the story if the subject came from that one."""
        self._aside = ""
        """Why an input that is being read was set aside; empty for one in a journal."""

    def read(self) -> tuple[list[StoryStep], Source]:
        numbers = journal_numbers(OS_FILES, self.directory)
        if (self.directory / STATE).is_file():
            self._read_state()
        for number in numbers:
            self._read_journal(journal_path(self.directory, number))
        self._read_set_aside()
        steps = [
            step
            for place, step in enumerate(self._steps)
            if place not in self._context or step.origin in self._entry_origins
        ]
        source = Source(
            path=str(self.directory),
            kind="data",
            files=len(numbers),
            records=self.inputs,
            broker=self.broker,
            notes=tuple(self.notes),
        )
        return steps, source

    def _step(self, what: str, id: str, at_us: int, origin: str, detail: str = "") -> StoryStep:
        """The step that stands for an input of a journal, or for one that was set aside."""
        return StoryStep(
            broker=self.broker,
            evidence="set-aside" if self._aside else "journal",
            what=what,
            id=id,
            at_us=at_us,
            origin=origin,
            detail=self._aside or detail,
        )

    # --- the snapshot --------------------------------------------------------------------------

    def _read_state(self) -> None:
        state = read_state(OS_FILES, self.directory, "")
        assert state is not None
        self.broker = state.id
        try:
            held = snapshot.read(state.broker)
        except SnapshotError as error:
            self.notes.append(f"the snapshot cannot be read: {error.reason}")
            return
        self._incarnations = {client.name: client.incarnation for client in held.clients}
        self._read_entries(held)
        self._read_publications(held)

    def _read_entries(self, held: BrokerState) -> None:
        for what, table in (
            ("advertisement held", held.adverts),
            ("subscription held", held.subscriptions),
            ("placeholder held", held.placeholders),
        ):
            for entry in table.entries:
                if self.subject.is_entry(entry.id.client, entry.id.name):
                    link = entry.origin.link
                    origin = f"client {entry.origin.client}" if link is None else f"link {link}"
                    step = StoryStep(
                        broker=self.broker, evidence="snapshot", what=what,
                        id=entry_text(entry.id), origin=origin, detail=_held(entry),
                    )  # fmt: skip
                    self._steps.append(step)
                    self._entry_origins.add(origin)

    def _read_publications(self, held: BrokerState) -> None:
        for link in held.links:
            for message in link.data:
                if isinstance(message, Publish):
                    self._add_kept("unconfirmed", message, f"link {link.peer}")
        for client in held.clients:
            for delivery in client.kept:
                self._add_kept("in session", delivery.publication, f"client {client.name}")

    def _add_kept(self, what: str, message: Publish, target: str) -> None:
        id = _publication(message)
        if self.subject.is_publication(id):
            step = StoryStep(
                broker=self.broker, evidence="snapshot", what=what, id=str(id), target=target
            )
            self._steps.append(step)

    # --- journals ------------------------------------------------------------------------------

    def _read_journal(self, path: Path) -> None:
        """Read the inputs of a journal, up to where it ends or is damaged."""
        try:
            file = RecordFile(OS_FILES, path, JOURNAL)
        except StorageError as error:
            if not path.exists():
                raise _JournalReplacedError from error
            if not isinstance(error, DamagedError):
                raise
            self.notes.append(f"{path.name} {error.reason}")
            return
        records = iter(file)
        try:
            head = next(records, None)
            if head is None:
                return
            self.broker = decode_as(path, _decode_owner, head).id
            for payload in records:
                self._read_inputs(path, payload)
        except DamagedError as error:  # the end of what is being written, too
            self.notes.append(f"{path.name} {error.reason}: what follows is not read")

    def _read_inputs(self, path: Path, payload: bytes) -> None:
        try:
            at_us, inputs, unread = decode_readable(payload)
        except msgspec.DecodeError as error:
            self.notes.append(f"{path.name}: inputs that cannot be read ({error})")
            return
        for name, _, reason in unread:
            self.notes.append(f"{path.name}: an input {name!r} that cannot be read ({reason!r})")
        self.inputs += len(inputs) + len(unread)
        for event in inputs:
            self._read_input(at_us, event)

    def _read_input(self, at_us: int, event: Input) -> None:
        match event:
            case FrameReceived(link=link, frame=Batch(messages=messages)):
                self._read_messages(at_us, link, messages)
            case ClientRequested(client=client, requests=requests):
                self._read_requests(at_us, client, requests)
            case MessageDiscarded(link=link, batch=Batch(messages=messages)):
                self._read_messages(at_us, link, messages, "discarded: ")
            case RequestDiscarded(client=client, request=request):
                self._read_requests(at_us, client, (request,), "discarded: ")
            case NeighbourRemoved(neighbour=link):
                self._add_context(
                    at_us, f"link {link}", "neighbour removed", "what came from it ends"
                )
            case ClientAttached(client=client, incarnation=incarnation):
                self._incarnations[client] = incarnation
                self._add_presence(at_us, client, "client attached", f"incarnation {incarnation}")
            case ClientDetached(client=client, for_good=for_good):
                detail = "for good: its entries end" if for_good else ""
                self._add_presence(at_us, client, "client detached", detail)
            case TimerFired(timer=timer) if timer.owner == SESSION_TIMER:
                self._add_presence(at_us, timer.detail, "session expired", "its entries end")

    def _add_presence(self, at_us: int, client: str, what: str, detail: str) -> None:
        if self.subject.owns(client):
            self._add_context(at_us, f"client {client}", what, detail)

    def _add_context(self, at_us: int, origin: str, what: str, detail: str) -> None:
        self._context.add(len(self._steps))
        self._steps.append(self._step(what, self.subject.text, at_us, origin, detail))

    def _add_entry(self, at_us: int, origin: str, what: str, id: str, detail: str) -> None:
        self._steps.append(self._step(what, id, at_us, origin, detail))
        if what in REGISTERING:
            self._entry_origins.add(origin)

    def _add_publish(
        self, at_us: int, origin: str, what: str, id: PublicationId, hop: int, body: bytes
    ) -> None:
        if self.subject.is_publication(id):
            step = self._step(what, str(id), at_us, origin, f"{len(body):,} bytes of body")
            self._steps.append(msgspec.structs.replace(step, hop=hop))

    def _read_messages(
        self, at_us: int, link: str, messages: Iterable[Message], prefix: str = ""
    ) -> None:
        origin = f"link {link}"
        for message in messages:
            if isinstance(message, Publish):
                id, what = _publication(message), f"{prefix}publish"
                self._add_publish(at_us, origin, what, id, message.hop, message.body)
            elif isinstance(message, Disconnect):
                self._add_context(at_us, origin, "disconnect", "what came from it ends")
            else:
                for what, entry, detail in _mentions(message):
                    if self.subject.is_entry(entry.client, entry.name):
                        self._add_entry(at_us, origin, prefix + what, entry_text(entry), detail)

    def _read_requests(
        self, at_us: int, client: str, requests: Iterable[Request], prefix: str = ""
    ) -> None:
        origin = f"client {client}"
        for request in requests:
            if isinstance(request, PublishRequest):
                id = PublicationId(client, self._incarnations.get(client), request.sequence)
                self._add_publish(at_us, origin, f"{prefix}publish", id, 0, request.body)
            else:
                for what, name, detail in _requested(request):
                    if self.subject.is_entry(client, name):
                        self._add_entry(at_us, origin, prefix + what, f"{client}/{name}", detail)

    # --- what could not be handled -------------------------------------------------------------

    def _read_set_aside(self) -> None:
        """Read the inputs that were set aside, which are no longer in a journal."""
        for entry in SetAsideFiles(OS_FILES, self.directory).entries.values():
            try:
                at_us, inputs, _ = decode_readable(entry.payload)
            except msgspec.DecodeError:
                continue
            state = "discarded" if entry.discarded else "set aside"
            self._aside = f"{state} {entry.digest}: {entry.error}"
            for event in inputs:
                self._read_input(at_us, event)


# --- what messages and requests name --------------------------------------------------------------


def _mentions(message: Message) -> Iterator[tuple[str, EntryId, str]]:
    """The entries that a message names, each with what it says of it and a detail."""
    match message:
        case Subscribe(id=id, filter=filter):
            yield "subscribe", id, str(filter)
        case SubscribeMany(subscriptions=subscriptions):
            for subscription in subscriptions:
                yield from _mentions(subscription)
        case SubscriptionsSettled(ids=ids):
            yield from (("subscription settled", id, "") for id in ids)
        case Unsubscribe(ids=ids):
            yield from (("unsubscribe", id, "") for id in ids)
        case Retire(ids=ids):
            yield from (("retire", id, "") for id in ids)
        case Advertise(id=id, filter=filter):
            yield "advertise", id, str(filter)
        case AdvertisementSettled(id=id):
            yield "advertisement settled", id, ""
        case Unadvertise(id=id):
            yield "unadvertise", id, ""
        case SyncNames(advertisements=advertisements, subscriptions=subscribed):
            for id, settled in (*advertisements, *subscribed):
                yield "sync: neighbour holds it", id, "settled" if settled else "not settled"
        case AdvertisementsSynced(ended=ended) | SubscriptionsSynced(ended=ended):
            yield from (("sync: it has ended", id, "") for id in ended)


def _requested(request: Request) -> Iterator[tuple[str, str, str]]:
    """The entries that a client's request names, each with what it asks for and a detail."""
    match request:
        case SubscribeRequest(name=name, filter=filter):
            yield "subscribe", name, str(filter)
        case UnsubscribeRequest(names=names):
            yield from (("unsubscribe", name, "") for name in names)
        case AdvertiseRequest(name=name, filter=filter):
            yield "advertise", name, str(filter)
        case UnadvertiseRequest(name=name):
            yield "unadvertise", name, ""


def _publication(message: Publish) -> PublicationId:
    return PublicationId(message.publisher, message.incarnation, message.sequence)


def _held(entry: EntryState) -> str:
    sent = f"; sent to {', '.join(entry.forwarded)}" if entry.forwarded else ""
    waits = "" if entry.settled else "; not settled"
    return f"{entry.filter}{sent}{waits}"
