"""One end of a link: numbers, acknowledgements and confirmations of its two lanes.

It decides what has to be sent again when a link comes back, what may be forgotten, and which
numbers can be confirmed to the peer. It does not know what messages mean, nor how they travel. What
is sent on the data lane is kept in `copies`.

Three things are kept apart. *Received*: the frame arrived; control messages are forgotten then.
*Confirmed*: every onward copy is safe; data messages are kept until then. *Settled* is a matter of
the routing tables and none of this file's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from byway.core.copies import CopyQueue
from byway.core.in_flight import InFlight
from byway.core.window import LinkWindow
from byway.model.bounds import INT64_MAX, PUBLISHER_WINDOW, RUNS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Acknowledge,
    Batch,
    Hello,
    Lane,
    LinkKind,
    Message,
    SelectiveAcknowledge,
    UnorderedHello,
)

UNLISTED: Final = ""
"""The name of no broker: the link to it stands for those to neighbours that are not listed and have
not connected yet (see `recovery`)."""
EPOCH_MAX: Final = INT64_MAX
CONTROL_MAX: Final = 65_536
"""Control messages kept for a peer that is away; beyond, tables are compared when it is back."""


class Meeting(msgspec.Struct, frozen=True):
    """What follows when the ends of a link have greeted each other."""

    resumed: bool
    """Whether both ends go on where they were. If not, they count from 1 and compare tables."""
    confirmed: Sequence[InFlight] = ()
    """If resumed: what the data messages that the peer has confirmed meanwhile are copies of."""
    again: tuple[Batch, ...] = ()
    """To be sent now, if resumed: what the peer did not receive."""


class Outbox:
    """What was sent on the control lane and may have to be sent again, in order of its numbers."""

    __slots__ = ("kept", "next")

    def __init__(self) -> None:
        self.next = 1
        self.kept: deque[Message] = deque()

    @property
    def first(self) -> int:
        """Number of the oldest message kept."""
        return self.next - len(self.kept)

    def put(self, messages: Sequence[Message]) -> int:
        """Keep messages until they are forgotten; returns the number of the first."""
        first = self.next
        self.kept.extend(messages)
        self.next += len(messages)
        return first

    def forget(self, number: int) -> None:
        """Forget all messages up to `number`."""
        kept = self.kept
        for _ in range(number - self.next + len(kept) + 1):
            kept.popleft()

    def clear(self) -> None:
        """Forget all messages, and count the next ones from 1."""
        self.kept.clear()
        self.next = 1

    def after(self, number: int) -> tuple[Message, ...]:
        """The messages after `number`, which must not be older than the oldest one kept."""
        skipped = number - self.first + 1
        return tuple(self.kept)[skipped:]


def _following_epoch(ours: int, theirs: int) -> int:
    """The epoch after both; the same at both ends. One that cannot be counted up any more, which
    nobody comes to by counting, is left out, so that an end which says so does no lasting harm."""
    return max((epoch for epoch in (ours, theirs) if epoch < EPOCH_MAX), default=0) + 1


class LinkEnd:
    """This broker's end of the link to one peer. It outlives connections, not the broker.

    `up` tells whether frames may be sent now. While it is down, messages are kept and numbered, and
    go out when the ends meet again. `open` tells whether the peer takes data: after a reset it
    does not before tables are synced, and data is kept meanwhile. `soft` tells that the link will
    never be one of the tree; whether another one is, the routing in force knows.
    """

    __slots__ = (
        "address", "arrived_control", "arrived_data", "broker", "control", "control_max", "copies",
        "dials", "epoch",
        "incarnation", "open", "ordered", "peer", "peer_incarnation", "publisher_window", "soft",
        "told_control", "told_data", "up", "window",
    )  # fmt: skip

    def __init__(
        self,
        broker: str,
        peer: str,
        incarnation: int,
        control_max: int = CONTROL_MAX,
        soft: bool = False,
        publisher_window: int = PUBLISHER_WINDOW,
        ordered: bool = True,
    ) -> None:
        self.broker = broker
        self.peer = peer
        self.incarnation = incarnation
        self.control_max = control_max
        self.soft = soft
        self.publisher_window = publisher_window
        self.ordered = ordered
        """Whether publications of one publisher are kept in order."""
        self.address = ""
        """Where the peer says it can be dialled."""
        self.dials = False
        """Whether one of both ends decided on the link while it ran: then each that knows the
        other's address dials it, but a soft link is dialled by the end that decided."""
        self.up = False
        self.open = False
        self.peer_incarnation = 0
        self.epoch = 0
        self.control = Outbox()
        self.copies = CopyQueue()
        self.arrived_control = self.arrived_data = 0  # numbers received
        self.told_control = self.told_data = 0  # of these, what the peer knows
        self.window = LinkWindow()

    def __repr__(self) -> str:
        control, copies = self.control, self.copies
        state = ("up" if self.open else "agreeing") if self.up else "down"
        return (
            f"<LinkEnd {self.broker}-{self.peer} {state}: sent {control.next - 1}+{copies.posted}, "
            f"unconfirmed {len(copies)}, received {self.arrived_control}+{self.arrived_data}, "
            f"confirmed {self.window.finished_up_to}>"
        )

    # --- coming and going --------------------------------------------------------------------

    def hello(self, kind: LinkKind | None = None) -> Hello:
        """What this end says when a connection to the peer is made."""
        control, data = self.arrived_control, self.arrived_data
        confirmed = self.window.finished_up_to
        return (Hello if self.ordered else UnorderedHello)(
            self.broker,
            self.incarnation,
            self.peer_incarnation,
            control,
            data,
            confirmed,
            self.epoch,
            kind=kind,
            learnt=self.dials,
            publisher_window=self.publisher_window,
            runs=self.window.runs(RUNS_MAX),
        )

    def meet(self, hello: Hello, said: Hello | None = None) -> Meeting:
        """The peer's greeting has come: resume, or count from 1. `said` is our own greeting, which
        the peer goes by: if numbers were lost since, neither end may resume."""
        self._check(hello)
        self.address = hello.address or self.address
        self.dials |= hello.learnt and not self.soft
        if said is not None and (said.knows, said.epoch) != (self.peer_incarnation, self.epoch):
            raise RemoteProtocolError(self.peer, "was greeted with numbers that are gone")
        if self.resumes_with(hello):
            received = (hello.control, hello.data)
            self._check_numbers(received)
            self._check_confirmed(hello)
            confirmed = self._confirm(hello)
            self.up = True
            self.window.resume(said.runs if said is not None else ())
            return Meeting(True, confirmed, self._again(received))
        self._reset()
        self.epoch = _following_epoch(self.epoch, hello.epoch)
        self.peer_incarnation = hello.incarnation
        self.up = True
        return Meeting(resumed=False)

    def resumes_with(self, hello: Hello) -> bool:
        """Whether both ends still hold the numbers of each other."""
        known = hello.incarnation == self.peer_incarnation and hello.knows == self.incarnation
        return known and hello.epoch == self.epoch

    def _reset(self) -> None:
        """Count from 1. Control messages are forgotten: tables replace them. Data that was never
        confirmed stays and is sent again once tables are synced."""
        self.control.clear()
        self.copies.renumber()
        self.arrived_control = self.arrived_data = self.told_control = self.told_data = 0
        self.window = LinkWindow()  # what finishes late finishes in the old one
        self.open = False

    def _check(self, hello: Hello) -> None:
        if hello.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                self.peer, f"speaks version {hello.version}, expected {PROTOCOL_VERSION}"
            )
        if hello.broker != self.peer:
            raise RemoteProtocolError(self.peer, f"says it is {hello.broker!r}")
        if hello.publisher_window != self.publisher_window:
            reason = (
                f"has publisher_window {hello.publisher_window}, and {self.broker} has "
                f"{self.publisher_window}: it must be equal in the whole network"
            )
            raise RemoteProtocolError(self.peer, reason)
        if isinstance(hello, UnorderedHello) == self.ordered:
            ours, theirs = ("publisher", "none") if self.ordered else ("none", "publisher")
            reason = (
                f'has order "{theirs}" in [mesh], and {self.broker} has "{ours}": it must be equal '
                "in the whole network"
            )
            raise RemoteProtocolError(self.peer, reason)
        if hello.incarnation < 1:
            raise RemoteProtocolError(self.peer, f"has incarnation {hello.incarnation}")

    def _check_numbers(self, received: tuple[int, int]) -> None:
        """Only what the peer acknowledged was forgotten, so it cannot lack older messages. What was
        numbered while the link was down counts as sent: a peer that says it has that loses it, as
        it can lose whatever it is sent."""
        data = (self.copies.last_confirmed, self.copies.posted) if self.open else (0, 0)
        ranges = (self.control.first - 1, self.control.next - 1), data
        for lane, number, (least, most) in zip(Lane, received, ranges, strict=True):
            if not least <= number <= most:
                raise RemoteProtocolError(
                    self.peer,
                    f"says it received up to number {number} of lane {lane.name}, "
                    f"expected {least} to {most}",
                )

    def _again(self, received: tuple[int, int]) -> tuple[Batch, ...]:
        # what arrived needs no further acknowledgement; data stays until it is confirmed
        control, data = received
        self.control.forget(control)
        missing = self.control.after(control)
        copies = self.copies.after(data) if self.open else ()
        return (
            *([Batch(CONTROL, control + 1, missing)] if missing else ()),
            *([Batch(DATA, data + 1, copies)] if copies else ()),
        )

    def lost(self) -> None:
        """The connection is gone; nothing is forgotten."""
        self.up = False

    def distrusted(self) -> None:
        """The peer broke the rules: the connection is gone, and the next one counts from 1."""
        self.up = False
        self.peer_incarnation = 0

    # --- sending -----------------------------------------------------------------------------

    def post_control(self, messages: Sequence[Message]) -> Batch | None:
        """Number and keep control messages; the frame to send, or None while they have to wait."""
        control = self.control
        first = control.put(messages)
        if self.up:
            return Batch(CONTROL, first, tuple(messages))
        if len(control.kept) > self.control_max:
            control.clear()
            self.peer_incarnation = 0  # tables are compared when it comes back
        return None

    def post_data(self) -> Batch | None:
        """The frame of the copies that were made since the last call; None if there are none, or
        while they have to wait."""
        first, messages = self.copies.post()
        return Batch(DATA, first, messages) if messages and self.open and self.up else None

    def opened(self) -> Batch | None:
        """The peer takes data from now on: the frame of what has waited for that, if anything."""
        if self.open:
            return None
        self.open = True
        waiting = tuple(self.copies.messages)
        return Batch(DATA, 1, waiting) if waiting and self.up else None

    def received(self, frame: Acknowledge) -> Sequence[InFlight]:
        """The peer acknowledges frames: forget control messages that arrived, and data messages
        that it confirms. Returns what these are copies of. What the peer was not sent it cannot
        acknowledge: then nothing changes."""
        control, copies = self.control, self.copies
        sent = copies.posted if self.open else 0
        if frame.control >= control.next or frame.data > sent:
            lane = CONTROL if frame.control >= control.next else DATA
            number = frame.data if lane else frame.control
            raise RemoteProtocolError(
                self.peer, f"acknowledges number {number} of lane {lane.name}, never sent"
            )
        if type(frame) is Acknowledge:
            if frame.confirmed > sent:
                raise RemoteProtocolError(
                    self.peer, f"confirms number {frame.confirmed}, never sent"
                )
            if control.kept:
                control.forget(frame.control)
            return copies.confirm(frame.confirmed)
        assert isinstance(frame, SelectiveAcknowledge)
        self._check_confirmed(frame)
        if control.kept:
            control.forget(frame.control)
        return self._confirm(frame)

    def _check_confirmed(self, said: SelectiveAcknowledge | Hello) -> None:
        """Check that a peer confirms messages that it received, in order."""
        before = said.confirmed
        for first, last in ((0, before), *said.runs):
            if last > said.data:
                raise RemoteProtocolError(
                    self.peer, f"confirms number {last}, but has received up to {said.data} only"
                )
            if first and not before < first <= last:
                raise RemoteProtocolError(
                    self.peer, f"confirms numbers {first} to {last} behind {before}"
                )
            before = last

    def _confirm(self, said: SelectiveAcknowledge | Hello) -> Sequence[InFlight]:
        """The peer confirms data messages up to a number, and runs beyond it: forget them, and
        return what they are copies of."""
        confirmed = list(self.copies.confirm(said.confirmed))
        for first, last in said.runs:
            confirmed += self.copies.confirm_run(first, last)
        return confirmed

    # --- receiving ---------------------------------------------------------------------------

    def take(self, batch: Batch) -> tuple[int, tuple[Message, ...]]:
        """The messages of a batch that are new, and the number of the first of them.

        What was received before a reconnection and is sent again is left out. A gap is an error of
        the peer: lanes are FIFO.
        """
        is_data, first, messages = batch.lane is DATA, batch.first, batch.messages
        expected = (self.arrived_data if is_data else self.arrived_control) + 1
        if first > expected:
            raise RemoteProtocolError(
                self.peer,
                f"lane {batch.lane.name} goes on with number {first}, expected {expected}",
            )
        if first < expected:
            messages = messages[expected - first :]
        if is_data:
            self.arrived_data += len(messages)
        else:
            self.arrived_control += len(messages)
        return expected, messages

    def acknowledgement(self) -> Acknowledge | None:
        """What the peer should know now of what arrived and is confirmed, if that is news. If that
        does not fit into one frame, further calls give more of them."""
        window, control = self.window, self.arrived_control
        confirmed, untold = window.finished_up_to, window.untold
        if confirmed == window.told and self.told_control == control and not untold:
            return None  # that data has arrived lets nobody forget anything: it is told in passing
        window.told = confirmed
        self.told_control = control
        self.told_data = data = self.arrived_data
        if untold:
            runs = window.take_untold(RUNS_MAX)
            if runs:
                return SelectiveAcknowledge(control, data, confirmed, runs)
        return Acknowledge(control, data, confirmed)
