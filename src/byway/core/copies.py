"""Copies in flight: data messages for other brokers, each kept until its receiver confirms it.

One store for all links: what was sent or waits to be sent over each, what it is a copy of, and, by
publisher (`streams`), on which links copies are unconfirmed. It decides nothing: which copies are
made is for `publications` to say, when they are sent and confirmed for `links`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from byway.core.in_flight import InFlight
from byway.core.streams import ALL_CONFIRMED
from byway.model.messages import Message

Copy = tuple[Message, InFlight]
"""A data message, and what it is a copy of."""

_COMPACT_FROM: Final = 64
"""Places of confirmed copies that are not worth the work of giving them back."""


class CopyQueue:
    """The copies for one link, by number, from when they are made until they are confirmed.

    Numbers follow one another, so the place of a copy in two lists tells its number; the place of
    one that is confirmed before an older one is empty. When most places are empty, the copies left
    in the others become *stragglers*, with a number each, and the lists begin anew: a copy that
    waits for long costs no room for those that follow it.
    """

    __slots__ = (
        "_base",
        "_empty",
        "_first",
        "_head",
        "_messages",
        "_sources",
        "_stragglers",
        "bytes",
        "fresh",
        "generation",
        "posted",
    )

    def __init__(self) -> None:
        self._messages: list[Message | None] = []
        self._sources: list[InFlight | None] = []
        self._base = 1
        """The number of the copy in the first place."""
        self._head = 0
        """The first place that counts; those before are empty."""
        self._empty = 0
        """Empty places that count."""
        self._stragglers: dict[int, Copy] = {}
        """By number, in order, unconfirmed copies that are older than the first place."""
        self._first = 1
        """While there are stragglers, a number below which there are none."""
        self.posted = 0
        """The number up to which copies were put into frames, or would have been, had the link
        been up."""
        self.fresh = 0
        """How many copies are not in frames: the last ones."""
        self.generation = 0
        """Counts how often the copies got other numbers."""
        self.bytes = 0
        """What the unconfirmed copies take, as the bounds count it; `Copies` counts it."""

    def __len__(self) -> int:
        """Number of unconfirmed copies."""
        return len(self._messages) - self._head - self._empty + len(self._stragglers)

    def __iter__(self) -> Iterator[Copy]:
        """The unconfirmed copies, the oldest first."""
        return self.since(0)

    def __repr__(self) -> str:
        return f"<CopyQueue: {len(self)} unconfirmed, the last is {self.next - 1}>"

    @property
    def next(self) -> int:
        """The number of the next copy."""
        return self._base + len(self._messages)

    @property
    def messages(self) -> list[Message]:
        """The unconfirmed copies without what they are copies of, the oldest first."""
        return [message for message, _ in self]

    def since(self, number: int) -> Iterator[Copy]:
        """The unconfirmed copies with this number and later ones."""
        if number < self._base:
            for straggler, copy in self._stragglers.items():
                if straggler >= number:
                    yield copy
        sources = self._sources
        for place in range(max(number - self._base, self._head), len(sources)):
            message, source = self._messages[place], sources[place]
            if message is not None and source is not None:
                yield message, source

    @property
    def numbers(self) -> list[int]:
        """The numbers of the unconfirmed copies."""
        places = enumerate(self._messages, self._base)
        return [*self._stragglers, *(number for number, message in places if message is not None)]

    @property
    def last_confirmed(self) -> int:
        """The highest number of a confirmed copy: all later ones are kept."""
        number = self.next - 1
        for kept in reversed(self.numbers):
            if kept != number:
                break
            number -= 1
        return number

    # --- sending ---------------------------------------------------------------------------------

    def append(self, message: Message, source: InFlight) -> None:
        """Give a copy the next number, and keep it."""
        self._messages.append(message)
        self._sources.append(source)
        self.fresh += 1

    def post(self) -> tuple[int, tuple[Message, ...]]:
        """The copies since the last call, which go into a frame, and the number of the first."""
        first, fresh, messages = self.posted + 1, self.fresh, self._messages
        if not fresh:
            return first, ()
        self.posted += fresh
        self.fresh = 0
        posted = tuple(messages[-fresh:] if fresh < len(messages) else messages)
        return first, posted  # type: ignore[return-value]  # what was not sent is not confirmed

    def after(self, number: int) -> tuple[Message, ...]:
        """The copies after `number` that were put into frames; none of them may be confirmed."""
        kept = zip(self.numbers, self, strict=True)
        return tuple(message for at, (message, _) in kept if number < at <= self.posted)

    # --- confirmed -------------------------------------------------------------------------------

    def confirm(self, number: int) -> Sequence[InFlight]:
        """Let go of all copies up to `number`; returns what they are copies of."""
        late = self._confirm_stragglers(self._first, number) if self._stragglers else ()
        head, stop = self._head, number + 1 - self._base
        if stop <= head:
            return late
        messages, found = self._messages, self._sources
        sources = found[head:stop]
        if stop == len(found):
            found.clear()
            messages.clear()
            self._base += stop
            self._head = 0
        elif stop >= _COMPACT_FROM and stop * 2 >= len(found):
            del found[:stop], messages[:stop]
            self._base += stop
            self._head = 0
        else:
            found[head:stop] = [None] * (stop - head)
            messages[head:stop] = [None] * (stop - head)
            self._head = stop
        if not self._empty:
            return [*late, *sources] if late else sources  # type: ignore[return-value, list-item]
        confirmed = [source for source in sources if source is not None]
        self._empty -= len(sources) - len(confirmed)
        return [*late, *confirmed]

    def confirm_run(self, first: int, last: int) -> Sequence[InFlight]:
        """Let go of the copies with these numbers; returns what they are copies of. Those that are
        confirmed already are left out."""
        late = self._confirm_stragglers(first, last) if first < self._base else []
        start, stop = max(first - self._base, self._head), last + 1 - self._base
        if stop <= start:
            return late
        if stop - start == 1:  # mostly
            source = self._sources[start]
            sources = [] if source is None else [source]
            self._sources[start] = self._messages[start] = None
        else:
            sources = [source for source in self._sources[start:stop] if source is not None]
            self._sources[start:stop] = [None] * (stop - start)
            self._messages[start:stop] = [None] * (stop - start)
        self._empty += len(sources)
        if self._empty >= _COMPACT_FROM and self._empty * 2 >= len(self._messages):
            self._straggle()
        return [*late, *sources] if late else sources

    def _confirm_stragglers(self, first: int, last: int) -> list[InFlight]:
        """Look at every number or at every straggler, whichever are fewer."""
        stragglers, sources = self._stragglers, []
        first, last = max(first, self._first), min(last, self._base - 1)
        numbers: Sequence[int] = range(first, last + 1)
        if len(numbers) > len(stragglers):
            numbers = [number for number in stragglers if first <= number <= last]
        for number in numbers:
            copy = stragglers.pop(number, None)
            if copy is not None:
                sources.append(copy[1])
        if first == self._first:
            self._first = max(first, last + 1)
        return sources

    def _straggle(self) -> None:
        """Give the empty places back."""
        stragglers = self._stragglers
        if not stragglers:
            self._first = self._base + self._head
        stop = self.posted + 1 - self._base  # those that are not in frames follow one another
        for number, message, source in zip(
            range(self._base, self.posted + 1), self._messages[:stop], self._sources, strict=False
        ):
            if message is not None and source is not None:
                stragglers[number] = message, source
        del self._messages[:stop], self._sources[:stop]
        self._base += stop
        self._head = self._empty = 0

    # --- all at once -----------------------------------------------------------------------------

    def replace(self, copies: Sequence[Copy]) -> None:
        """Keep these copies instead, counted from 1, as if all were in frames."""
        self._messages = [message for message, _ in copies]
        self._sources = [source for _, source in copies]
        self._base, self._head, self._empty = 1, 0, 0
        self._stragglers, self._first = {}, 1
        self.posted, self.fresh = len(copies), 0
        self.generation += 1

    def renumber(self) -> None:
        """Count the copies that are kept from 1 again."""
        fresh = self.fresh
        self.replace(list(self))
        self.posted, self.fresh = self.posted - fresh, fresh

    def restore(self, copies: Sequence[Copy], following: int, numbers: Sequence[int] = ()) -> None:
        """Keep these copies, all of them in frames; the next one has the number `following`.
        `numbers` are theirs, if they do not follow one another up to that."""
        self.replace(() if numbers else copies)
        self._base, self.posted = following - len(self._messages), following - 1
        if numbers:
            self._stragglers, self._first = dict(zip(numbers, copies, strict=True)), numbers[0]


class Copies:
    """The copies in flight of one broker."""

    __slots__ = ("bytes", "links")

    def __init__(self) -> None:
        self.links: dict[str, CopyQueue] = {}
        """By link, its copies, in the order of the names."""
        self.bytes = 0
        """What the unconfirmed copies for all links take, as the bounds count it."""

    def __repr__(self) -> str:
        links = ", ".join(f"{link} {len(queue)}" for link, queue in self.links.items())
        return f"<Copies: {links}>"

    def add_link(self, link: str, queue: CopyQueue) -> None:
        """Keep copies for one more link."""
        self.links[link] = queue
        self.links = dict(sorted(self.links.items()))  # as after `restore`

    def replace_link(self, old: str, new: str) -> None:
        """Keep for one link what was kept for another."""
        self.add_link(new, self.links.pop(old))

    def append(self, link: str, message: Message, source: InFlight) -> None:
        """Keep one more copy for a link; what it is a copy of waits for it."""
        source.left += 1
        stream = source.stream
        if stream is not None:
            stream.count(link)
        queue = self.links[link]
        queue.append(message, source)
        queue.bytes += source.bytes
        self.bytes += source.bytes

    def append_to_all(
        self, links: Sequence[str], message: Message, source: InFlight, touched: dict[str, None]
    ) -> None:
        """Keep one more copy for each of these links, which are marked as touched."""
        count, stream, queues, size = len(links), source.stream, self.links, source.bytes
        assert stream is not None, "it is no publication"
        source.left += count
        self.bytes += size * count
        if stream.open is ALL_CONFIRMED:
            stream.open = dict.fromkeys(links, 1)
        else:
            unconfirmed = stream.unconfirmed()
            for link in links:
                unconfirmed[link] = unconfirmed.get(link, 0) + 1
        for link in links:
            queue = queues[link]
            queue._messages.append(message)
            queue._sources.append(source)
            queue.fresh += 1
            queue.bytes += size
            touched[link] = None

    def release(self, link: str, sources: Sequence[InFlight]) -> None:
        """Copies for a link are in flight no more. What they are copies of still waits for them:
        `Context.finish` counts them down."""
        size = 0
        for source in sources:
            size += source.bytes
            stream = source.stream
            if stream is not None:
                unconfirmed: dict[str, int] = stream.open  # type: ignore[assignment]
                left = unconfirmed[link] - 1
                if left:
                    unconfirmed[link] = left
                elif len(unconfirmed) > 1:
                    del unconfirmed[link]
                else:
                    stream.open = ALL_CONFIRMED
        self.links[link].bytes -= size
        self.bytes -= size

    def take_back(self, link: str) -> list[Copy]:
        """Remove and return what a link has not confirmed, the oldest first, so that it can be
        routed anew, or be given up. Each one's source waits for it until `Context.finish`, or
        until as many copies have been appended in its place and it is finished.

        The numbers of these copies are gone: a link that is to go on must start anew.
        """
        queue = self.links[link]
        copies = list(queue)
        queue.replace(())
        self.release(link, [source for _, source in copies])
        return copies

    def remove_link(self, link: str) -> list[Copy]:
        """Keep nothing for a link any more; returns what it had not confirmed."""
        copies = self.take_back(link)
        del self.links[link]
        return copies
