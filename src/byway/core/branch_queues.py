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
from operator import attrgetter

from byway.core.context import Context
from byway.core.copies import Copy
from byway.core.held import Held, Key, publisher_of
from byway.core.in_flight import InFlight
from byway.core.links import UNLISTED
from byway.core.parked import Parked
from byway.core.planning import PlannedCopy, Planner
from byway.core.streams import Publisher, Stream, Streams
from byway.model.messages import Publish, Unadvertise


class BranchQueues:
    """What one broker holds."""

    def __init__(self, context: Context, planner: Planner, streams: Streams) -> None:
        self.planner = planner
        self.queues: dict[Key, deque[Held]] = {}
        self.parked = Parked()
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
        """Number of messages that are held, and not parked."""
        return sum(self.counts.values())

    def __repr__(self) -> str:
        return f"<BranchQueues: {len(self)} held of {len(self.queues)} publishers and branches>"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held or parked."""
        return not self.bytes and not self.parked.bytes

    def size(self, branch: str) -> int:
        """The bytes that what is held and parked in a branch takes, as the bounds count it."""
        return self.bytes.get(branch, 0) + self.parked.bytes.get(branch, 0)

    def held_in(self, branch: str) -> Iterator[Publish | Unadvertise]:
        """The messages that are held or parked in a branch."""
        for key, queue in self.queues.items():
            if key[2] == branch:
                for held in queue:
                    yield held.message
        for held in self.parked.in_branch(branch):
            yield held.message

    def source_of(self, publication: Publish) -> InFlight | None:
        """What a publication that is held or parked in some branch will be a copy of."""
        for branch in self._context.tree:
            key = publication.publisher, publication.incarnation, branch
            for held in self.queues.get(key, ()):
                if held.sequence == publication.sequence and isinstance(held.message, Publish):
                    return held.source
            parked = self.parked.find(key, publication.sequence)
            if parked is not None:
                return parked.source
        return None

    # --- in --------------------------------------------------------------------------------------

    def forward(
        self,
        message: Publish,
        distance: int,
        count: int,
        matched: int,
        missing: Sequence[str],
        source: InFlight,
    ) -> None:
        """Send a publication, with these fields of its header, to the targets that want it, and to
        neighbours whose tables are missing, or hold it."""
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
                append, touched = self._context.copies.append_to_all, self._context.out.touched
                for links, known, more in groups:
                    headed = _onward(message, known or distance + more, count)
                    append(links, headed, source, touched)
                return
        onward = _onward(message, distance, count)
        branches = self.planner.branches(matched, source.link)
        if missing:
            branches = self._with_missing(branches, missing)
            if UNLISTED in missing:  # nothing is sent there: what is kept is copied to others
                self._send(UNLISTED, onward, source)
        plan_for = self.planner.plan
        for branch, targets in branches:
            if self.queues and (*publisher_of(onward), branch) in self.queues:
                if self._keeps_order:
                    self._put(branch, Held(onward, targets, source, onward.sequence))
                else:
                    self._send_in(branch, Held(onward, targets, source, onward.sequence))
                continue
            plan = plan_for(branch, targets, onward, unconfirmed, source.several)
            if plan is None:
                self._hold(branch, Held(onward, targets, source, onward.sequence))
                continue
            for copy in plan:
                self._send(copy.link, copy.publication, source)
            if branch in self.planner.bypassed:
                self._park_rest(branch, Held(onward, targets, source, onward.sequence), plan)

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
        stream = self._streams.of(message.id.client, message.id.incarnation)
        stream.ended = stream.last
        self._put(branch, Held(message, 0, source, stream.last))

    def _put(self, branch: str, held: Held) -> None:
        key = self._hold(branch, held)
        if len(self.queues[key]) == 1:
            self._send_on(key)

    def _hold(self, branch: str, held: Held) -> Key:
        held.source.left += 1
        key = (*publisher_of(held.message), branch)
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

    def restore(self, key: Key, held: Held, *, parked: bool) -> None:
        """Hold or park a message that was so when a snapshot was taken."""
        if parked:
            self._park(key[2], held)
            held.source.left -= 1  # it counts already
        else:
            self._append(key, held)

    def _on_anchor_freed(self, number: int, neighbour: int) -> None:
        """The last entry of an anchor has ended, or a broader one with a shorter path quenches it:
        what is held for it goes as far as the neighbour, and is matched again there."""
        for queue in (*self.queues.values(), *self.parked.queues.values()):
            for held in queue:
                if held.targets >> number & 1:
                    held.targets = held.targets ^ 1 << number | 1 << neighbour

    def _removed(self, key: Key, held: Held) -> None:
        """A message is held no longer."""
        self._stream(key).waiting -= 1
        self._uncount(key[2], held)

    def _uncount(self, branch: str, held: Held) -> None:
        self.bytes[branch] -= held.source.bytes
        self.counts[branch] -= 1
        if not self.counts[branch]:
            del self.bytes[branch], self.counts[branch]

    def _stream(self, key: Key) -> Stream:
        return self._streams.of(key[0], key[1])

    def route_anew(self, link: str, copies: Sequence[Copy]) -> None:
        """Give back what a link that leads into a branch has not confirmed. Publications go to the
        front of their queues, for the targets that they were for; those that nobody wants any more
        are given up. The end of an advertisement keeps its place among them."""
        branch = self.planner.branch_of(link)
        returned: dict[Key, list[Held]] = {}
        last: dict[Publisher, int] = {}
        if self._links_version != self._context.links_version:
            self._tell_planner()
        for message, source in copies:
            assert isinstance(message, Publish | Unadvertise), "it is no data message"
            publisher = publisher_of(message)
            if isinstance(message, Publish):
                last[publisher] = max(last.get(publisher, 0), message.sequence)
                targets = self.planner.targets_beyond(link, message)
                if link == branch and message.sequence <= self._streams.of(*publisher).ended:
                    targets |= 1 << self._context.numbers.number(branch)  # see `Stream.ended`
                if not targets:
                    self._context.finish(source)
                    continue
                held = Held(self.planner.unheaded(link, message), targets, source, message.sequence)
            else:
                held = Held(message, 0, source, last.get(publisher, 0))
            returned.setdefault((*publisher, branch), []).append(held)
        for key in self.parked.keys_in(branch):
            returned.setdefault(key, [])
        for key, more in returned.items():
            self._requeue(key, more, link)

    def _requeue(self, key: Key, more: Sequence[Held] = (), lost: str = "") -> None:
        """Put what is parked, and what came back from a link that is `lost`, into a queue in order,
        and send what may go."""
        stream, before = self._stream(key), self.queues.get(key, ())
        parked = self.parked.take(key)
        stream.waiting -= len(before) + len(parked)
        stream.parked -= len(parked)
        for held in before:
            self._uncount(key[2], held)
        if before:
            self._remove_queue(key, stream)
        for held in self._joined([*more, *parked, *before], lost):
            if self._keeps_order or isinstance(held.message, Unadvertise):
                self._append(key, held)
            else:
                self._send_in(key[2], held)
                self._context.finish(held.source)  # its place is taken by the copies
        if key in self.queues:
            self._send_on(key)

    def _joined(self, units: list[Held], lost: str) -> list[Held]:
        """These units in order; those of one publication become one."""
        found: list[Held] = []
        for held in sorted(units, key=attrgetter("place")):
            if lost in held.reached:
                held.reached -= {lost}
            first = found[-1] if found else None
            if (
                first is not None
                and first.source is held.source
                and isinstance(held.message, Publish)
            ):
                first.targets |= held.targets
                first.reached |= held.reached
                self._context.finish(held.source)
            else:
                found.append(held)
        return found

    def _send_in(self, branch: str, held: Held) -> None:
        """Send a publication into a branch, where order is not kept; past what is held."""
        publication, source = held.message, held.source
        assert isinstance(publication, Publish), "it is no publication"
        assert source.stream is not None, "it is no publication"
        is_bypassed = branch in self.planner.bypassed
        if not is_bypassed and (*publisher_of(publication), branch) in self.queues:
            self._send(branch, publication, source)
            return
        plan = self.planner.plan(
            branch, held.targets, publication, source.stream.open, source.several, held.reached
        )
        assert plan is not None, "nothing conflicts"
        for copy in plan:
            self._send(copy.link, copy.publication, source)
        if is_bypassed:
            self._park_rest(branch, held, plan)

    def _park_rest(self, branch: str, held: Held, plan: Sequence[PlannedCopy]) -> None:
        """Park a publication for those of its targets that no link leads to."""
        rest = self.planner.unreached(branch, held.targets)
        if rest:
            reached = held.reached.union(copy.link for copy in plan)
            self._park(branch, Held(held.message, rest, held.source, held.sequence, reached))

    def _park(self, branch: str, held: Held) -> None:
        held.source.left += 1
        key = (*publisher_of(held.message), branch)
        self.parked.add(key, held)
        stream = self._stream(key)
        stream.waiting += 1
        stream.parked += 1

    # --- out -------------------------------------------------------------------------------------

    def on_confirmed(self, link: str, sources: Sequence[InFlight]) -> None:
        """A link has confirmed copies: what was held because of them may go."""
        branch = self.planner.branch_of(link)
        for stream in dict.fromkeys(id(source.stream) for source in sources):
            key = self._keys.get(stream, {}).get(branch)
            if key is not None:
                self._send_on(key)

    def on_link_changed(self, link: str) -> None:
        """A link came up, went down or was removed: what is held in its branch may go, and what is
        parked there too."""
        branch = self.planner.branch_of(link)
        for key in self.parked.keys_in(branch):
            self._requeue(key)
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
                source = held.source
                plan = self.planner.plan(
                    branch, held.targets, message, stream.open, source.several, held.reached
                )
                if plan is None:
                    return
                for copy in plan:
                    self._send(copy.link, copy.publication, held.source)
                if branch in self.planner.bypassed:
                    self._park_rest(branch, held, plan)
            elif key in self.parked.queues:
                self._park(branch, held)
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

    def remove_branch(self, branch: str) -> list[Publish]:
        """A neighbour was removed: what is held for it is given up; returns the publications."""
        given_up: list[Held] = []
        for key in [key for key in self.queues if key[2] == branch]:
            for held in self._remove_queue(key, self._stream(key)):
                self._removed(key, held)
                given_up.append(held)
        for key in self.parked.keys_in(branch):
            parked, stream = self.parked.take(key), self._stream(key)
            stream.waiting -= len(parked)
            stream.parked -= len(parked)
            given_up += parked
        for held in given_up:
            self._context.finish(held.source)
        return [held.message for held in given_up if isinstance(held.message, Publish)]

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


def _onward(message: Publish, distance: int, count: int) -> Publish:
    """A publication with the header for the next hop. `replace` would take twice as long."""
    return Publish(
        message.publisher,
        message.incarnation,
        message.sequence,
        message.published_us,
        message.hop + 1,
        distance,
        count,
        message.body,
    )
