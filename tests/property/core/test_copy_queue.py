"""The copies of a link, confirmed in any order, are those of a plain dict by number."""

from hypothesis import given
from hypothesis import strategies as st

from byway.core.copies import CopyQueue
from byway.core.in_flight import InFlight, unowned
from byway.core.window import Runs
from byway.model.messages import Message, Publish

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 90), st.just(0)),
    st.tuples(st.just("confirm"), st.integers(0, 10**6), st.just(0)),
    st.tuples(st.just("run"), st.integers(0, 10**6), st.integers(0, 90)),
    st.tuples(st.just("renumber"), st.just(0), st.just(0)),
    st.tuples(st.just("post"), st.just(0), st.just(0)),
)


class Naive:
    """The copies by number."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Message, InFlight]] = {}
        self.next = 1
        self.posted = 0

    def confirm(self, first: int, last: int) -> list[InFlight]:
        return [self.kept.pop(n)[1] for n in sorted(self.kept) if first <= n <= last]

    def renumber(self) -> None:
        fresh = self.next - 1 - self.posted
        self.kept = dict(enumerate(self.kept.values(), 1))
        self.next = len(self.kept) + 1
        self.posted = self.next - 1 - fresh

    @property
    def last_confirmed(self) -> int:
        return max((n for n in range(self.next) if n not in self.kept), default=0)


@given(st.lists(STEPS, max_size=40))
def test_a_queue_keeps_what_is_not_confirmed(steps):
    queue, naive, sequence = CopyQueue(), Naive(), 0
    for what, a, b in steps:
        match what:
            case "append":
                for _ in range(a):
                    sequence += 1
                    copy = Publish("p", 1, sequence, 0, 0, 0, 0, b""), unowned()
                    queue.append(*copy)
                    naive.kept[naive.next] = copy
                    naive.next += 1
            case "confirm":
                number = a % (naive.posted + 1)
                assert list(queue.confirm(number)) == naive.confirm(0, number)
            case "run" if naive.posted:
                first = a % naive.posted + 1
                last = min(first + b, naive.posted)
                assert list(queue.confirm_run(first, last)) == naive.confirm(first, last)
            case "renumber":
                queue.renumber()
                naive.renumber()
            case "post":
                fresh = [naive.kept[n][0] for n in range(naive.posted + 1, naive.next)]
                assert queue.post() == (naive.posted + 1, tuple(fresh))
                naive.posted = naive.next - 1
        assert (queue.next, queue.posted, len(queue)) == (naive.next, naive.posted, len(naive.kept))
        assert queue.fresh == naive.next - 1 - naive.posted
        assert list(queue) == list(naive.kept.values())
        assert queue.numbers == list(naive.kept)
        assert queue.last_confirmed == naive.last_confirmed
        after = naive.last_confirmed
        missing = [copy[0] for n, copy in naive.kept.items() if after < n <= naive.posted]
        assert queue.after(after) == tuple(missing)
        half = naive.next // 2
        assert list(queue.since(half)) == [copy for n, copy in naive.kept.items() if n >= half]


@given(st.lists(STEPS, max_size=30))
def test_a_restored_queue_goes_on_as_the_first_one(steps):
    queue = CopyQueue()
    for what, a, b in steps:
        match what:
            case "append":
                for _ in range(a):
                    queue.append(Publish("p", 1, 1, 0, 0, 0, 0, b""), unowned())
                queue.post()
            case "confirm":
                queue.confirm(a % (queue.posted + 1))
            case "run" if queue.posted:
                first = a % queue.posted + 1
                queue.confirm_run(first, min(first + b, queue.posted))
    twin, numbers = CopyQueue(), queue.numbers
    follow = numbers == list(range(queue.next - len(numbers), queue.next))
    twin.restore(list(queue), queue.next, [] if follow else numbers)
    copy = Publish("p", 1, 2, 0, 0, 0, 0, b""), unowned()
    for one in (queue, twin):
        one.append(*copy)
    assert twin.numbers == queue.numbers
    assert (twin.post()[0], twin.last_confirmed) == (queue.post()[0], queue.last_confirmed)
    half = queue.next // 2
    assert list(twin.confirm(half)) == list(queue.confirm(half))
    assert twin.numbers == queue.numbers


def test_a_copy_that_waits_for_long_costs_no_room():
    """One copy is never confirmed, a hundred thousand behind it are."""
    queue = CopyQueue()
    queue.append(Publish("p", 1, 1, 0, 0, 0, 0, b""), unowned())
    for number in range(2, 100_000):
        queue.append(Publish("q", 1, number, 0, 0, 0, 0, b""), unowned())
        queue.post()
        queue.confirm_run(number, number)
    assert (len(queue), queue.numbers) == (1, [1])
    assert len(queue._messages) + len(queue._stragglers) < 200


@given(st.permutations(range(2, 40)), st.data())
def test_runs_are_the_numbers_added(numbers, data):
    runs, naive = Runs(), set()
    for number in numbers:
        runs.add(number)
        naive.add(number)
        expanded = [n for first, last in runs for n in range(first, last + 1)]
        assert expanded == sorted(naive)
        assert all(last + 1 not in naive for _, last in runs)
        assert (runs.numbers, len(runs)) == (len(naive), len(list(runs)))
    first = data.draw(st.integers(1, 41))
    last = runs.take(first)
    assert last == (39 if first == 2 else first - 1)
    assert not runs or first != 2
