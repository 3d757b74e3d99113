"""Branch queues: what is held of each publisher in each branch, and when it is sent.

Several links may lead into one branch, and a copy over one of them could overtake an earlier copy
over another. So copies of one publisher for one branch stand in a queue; a planner (`planning`)
says whether the first may go, and over which links. A publication that is held keeps those behind
it waiting, and the end of an advertisement too: it goes over the primary link of the branch, when
no other link has unconfirmed publications of the publisher. A broker without a planner has none of
this.

With `order = "none"` no publication is held, but the end of an advertisement still is: those before
it must find the subscriptions to it. Later ones pass it by, over the primary link of the branch, so
that it does not wait for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from byway.core.context import Context
from byway.core.copies import Copy
from byway.core.in_flight import InFlight
from byway.core.links import UNLISTED
from byway.core.planning import Group, Planner
from byway.core.streams import Stream, Streams
from byway.model.messages import Publish, Unadvertise

Key = tuple[str, int, str]
"""A publisher, its incarnation and a branch."""


class Held(msgspec.Struct, eq=False):
    """A data message that waits for its turn in a branch."""

    message: Publish | Unadvertise
    targets: int
    source: InFlight
    """What it will be a copy of, which waits for it."""
    sequence: int
    """The sequence of a publication; of the end of an advertisement, that of the last publication
    before it."""


class BranchQueues:
    """What one broker holds."""

    def __init__(self, context: Context, planner: Planner, streams: Streams) -> None:
        self.planner = planner
        self.queues: dict[Key, deque[Held]] = {}
        self.bytes: dict[str, int] = {}
        """By branch, what is held there takes, as the bounds count it."""
        self.counts: dict[str, int] = {}
        """By branch, how many messages are held there, where there are any."""
        self._keys: dict[int, dict[str, Key]] = {}
        """By stream (its `id`: streams with messages that are held are kept) and branch, the key of
        its queue."""
        self._context = context
        self._streams = streams
        self._keeps_order = context.config.mesh.order == "publisher"
        self._links_version = context.links_version
        context.numbers.on_anchor_freed = self._on_anchor_freed

    def __len__(self) -> int:
        """Number of messages that are held."""
        return sum(self.counts.values())

    def __repr__(self) -> str:
        return f"<BranchQueues: {len(self)} held of {len(self.queues)} publishers and branches>"

    def held_in(self, branch: str) -> Iterator[Publish | Unadvertise]:
        """The messages that are held in a branch."""
        for key, queue in self.queues.items():
            if key[2] == branch:
                for held in queue:
                    yield held.message

    def source_of(self, publication: Publish) -> InFlight | None:
        """What a publication that is held in some branch will be a copy of."""
        for branch in self._context.tree:
            key = publication.publisher, publication.incarnation, branch
            for held in self.queues.get(key, ()):
                if held.sequence == publication.sequence and isinstance(held.message, Publish):
                    return held.source
        return None

    # --- in --------------------------------------------------------------------------------------

    def forward(
        self, onward: Publish, matched: int, missing: Sequence[str], source: InFlight
    ) -> int:
        """Send a publication to the targets that want it, and to neighbours whose tables are
        missing, or hold it; to how many branches it goes."""
        assert source.stream is not None, "it is no publication"
        unconfirmed = source.stream.open
        if self._links_version != self._context.links_version:
            self._tell_planner()
        if not missing and not self.queues:
            whole = self.planner.whole(matched)
            if whole is not None and (not unconfirmed or whole.conflicts.isdisjoint(unconfirmed)):
                whole.hits += 1
                several = source.several & whole.deciding
                groups = whole.variants[several] if several else whole.groups
                self._send_to_all(groups, onward, source)
                return whole.branches
        branches = self.planner.branches(matched, source.link)
        if missing:
            branches = self._with_missing(branches, missing)
            if UNLISTED in missing:  # nothing is sent there: what is kept is copied to others
                self._send(UNLISTED, onward, source)
        plan_for = self.planner.plan
        for branch, targets in branches:
            if self.queues and (*_publisher(onward), branch) in self.queues:
                if self._keeps_order:
                    self._put(branch, Held(onward, targets, source, onward.sequence))
                else:
                    self._send_in(branch, targets, onward, source)
                continue
            plan = plan_for(branch, targets, onward, unconfirmed, source.several)
            if plan is None:
                self._hold(branch, Held(onward, targets, source, onward.sequence))
            else:
                for copy in plan:
                    self._send(copy.link, copy.publication, source)
        return len(branches)

    def _send_to_all(self, groups: Sequence[Group], onward: Publish, source: InFlight) -> None:
        """Send a publication over the links of a plan, to each group with a header of its own."""
        append, touched = self._context.copies.append_to_all, self._context.out.touched
        for links, distance, more in groups:
            headed = onward
            if distance or more:  # `replace` would take twice as long
                headed = Publish(
                    onward.publisher,
                    onward.incarnation,
                    onward.sequence,
                    onward.published_us,
                    onward.hop,
                    distance or onward.distance + more,
                    onward.count,
                    onward.body,
                )
            append(links, headed, source, touched)

    def _tell_planner(self) -> None:
        """Links were added or removed: no copy may be planned for one that has gone."""
        self._links_version = self._context.links_version
        self.planner.on_links_changed()

    def _with_missing(
        self, branches: Sequence[tuple[str, int]], missing: Sequence[str]
    ) -> Sequence[tuple[str, int]]:
        """These branches, with neighbours whose tables are missing as further targets."""
        numbers, targets = self._context.numbers, dict(branches)
        for link in missing:
            if link != UNLISTED:
                targets[link] = targets.get(link, 0) | 1 << numbers.number(link)
        return sorted(targets.items())

    def end_advertisement(self, branch: str, message: Unadvertise, source: InFlight) -> None:
        """Send the end of an advertisement behind the publications of its publisher."""
        last = self._streams.of(message.id.client, message.id.incarnation).last
        self._put(branch, Held(message, 0, source, last))

    def _put(self, branch: str, held: Held) -> None:
        key = self._hold(branch, held)
        if len(self.queues[key]) == 1:
            self._send_on(key)

    def _hold(self, branch: str, held: Held) -> Key:
        held.source.left += 1
        key = (*_publisher(held.message), branch)
        self._append(key, held)
        return key

    def _append(self, key: Key, held: Held) -> None:
        branch, stream = key[2], self._stream(key)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = deque()
            self._keys.setdefault(id(stream), {})[branch] = key
        queue.append(held)
        stream.waiting += 1
        self.bytes[branch] = self.bytes.get(branch, 0) + held.source.bytes
        self.counts[branch] = self.counts.get(branch, 0) + 1

    def restore(self, key: Key, held: Held) -> None:
        """Hold a message that was held when a snapshot was taken."""
        self._append(key, held)

    def _on_anchor_freed(self, number: int, neighbour: int) -> None:
        """The last entry of an anchor has ended, or a broader one with a shorter path quenches it:
        what is held for it goes as far as the neighbour, and is matched again there."""
        for queue in self.queues.values():
            for held in queue:
                if held.targets >> number & 1:
                    held.targets = held.targets ^ 1 << number | 1 << neighbour

    def _removed(self, key: Key, held: Held) -> None:
        """A message is held no longer."""
        branch = key[2]
        self._stream(key).waiting -= 1
        self.bytes[branch] -= held.source.bytes
        self.counts[branch] -= 1
        if not self.counts[branch]:
            del self.bytes[branch], self.counts[branch]

    def _stream(self, key: Key) -> Stream:
        return self._streams.of(key[0], key[1])

    def route_anew(self, link: str, copies: Sequence[Copy]) -> None:
        """Give back what a link that leads into a branch has not confirmed. Publications go to the
        front of their queues, for the targets that they were for; all else is given up."""
        branch = self.planner.branch_of(link)
        touched: dict[Key, None] = {}
        if self._links_version != self._context.links_version:
            self._tell_planner()
        for message, source in copies:
            targets = (
                self.planner.targets_beyond(link, message) if isinstance(message, Publish) else 0
            )
            if not targets:
                self._context.finish(source)
                continue
            assert isinstance(message, Publish)
            key = (message.publisher, message.incarnation, branch)
            planned = self.planner.unheaded(link, message)
            if self._keeps_order:
                self._append(key, Held(planned, targets, source, message.sequence))
                touched[key] = None
                continue
            self._send_in(branch, targets, planned, source)
            self._context.finish(source)  # its place is taken by the copies
            if key in self.queues:
                touched[key] = None
        for key in touched:
            self.queues[key] = deque(sorted(self.queues[key], key=_order))
            self._send_on(key)

    def _send_in(self, branch: str, targets: int, publication: Publish, source: InFlight) -> None:
        """Send a publication into a branch, where order is not kept; past what is held."""
        assert source.stream is not None, "it is no publication"
        if (*_publisher(publication), branch) in self.queues:
            self._send(branch, publication, source)
            return
        open_links = source.stream.open
        plan = self.planner.plan(branch, targets, publication, open_links, source.several)
        assert plan is not None, "nothing conflicts"
        for copy in plan:
            self._send(copy.link, copy.publication, source)

    # --- out -------------------------------------------------------------------------------------

    def on_confirmed(self, link: str, sources: Sequence[InFlight]) -> None:
        """A link has confirmed copies: what was held because of them may go."""
        branch = self.planner.branch_of(link)
        for stream in dict.fromkeys(id(source.stream) for source in sources):
            key = self._keys.get(stream, {}).get(branch)
            if key is not None:
                self._send_on(key)

    def on_link_changed(self, link: str) -> None:
        """A link came up, went down or was removed: what is held in its branch may go."""
        branch = self.planner.branch_of(link)
        for key in [key for key in self.queues if key[2] == branch]:
            self._send_on(key)

    def _send_on(self, key: Key) -> None:
        """Send from the front of a queue what may go now."""
        queue, stream, branch = self.queues[key], self._stream(key), key[2]
        if self._links_version != self._context.links_version:
            self._tell_planner()
        while queue:
            held = queue[0]
            message = held.message
            if isinstance(message, Publish):
                several = held.source.several
                plan = self.planner.plan(branch, held.targets, message, stream.open, several)
                if plan is None:
                    return
                for copy in plan:
                    self._send(copy.link, copy.publication, held.source)
            else:
                if any(x != branch and self.planner.branch_of(x) == branch for x in stream.open):
                    return
                self._context.copies.append(branch, message, held.source)
                self._context.out.touched[branch] = None
                self._context.out.has_other_data = True
            self._removed(key, queue.popleft())
            self._context.finish(held.source)
        self._remove_queue(key, stream)

    def _send(self, link: str, publication: Publish, source: InFlight) -> None:
        self._context.copies.append(link, publication, source)
        self._context.out.touched[link] = None

    def remove_branch(self, branch: str) -> None:
        """A neighbour was removed: what is held for it is given up."""
        for key in [key for key in self.queues if key[2] == branch]:
            for held in self._remove_queue(key, self._stream(key)):
                self._removed(key, held)
                self._context.finish(held.source)

    def replace_branch(self, old: str, new: str) -> None:
        """A neighbour, and with it its branch, has another name."""
        for key in [key for key in self.queues if key[2] == old]:
            moved = (*key[:2], new)
            branches = self._keys[id(self._stream(key))]
            del branches[old]
            branches[new] = moved
            self.queues[moved] = self.queues.pop(key)
        for counts in (self.bytes, self.counts):
            if old in counts:
                counts[new] = counts.pop(old)

    def _remove_queue(self, key: Key, stream: Stream) -> deque[Held]:
        keys = self._keys[id(stream)]
        del keys[key[2]]
        if not keys:
            del self._keys[id(stream)]
        return self.queues.pop(key)


def _publisher(message: Publish | Unadvertise) -> tuple[str, int]:
    if isinstance(message, Publish):
        return message.publisher, message.incarnation
    return message.id.client, message.id.incarnation


def _order(held: Held) -> tuple[int, bool]:
    """Publications by sequence; the end of an advertisement is behind those before it."""
    return held.sequence, isinstance(held.message, Unadvertise)
