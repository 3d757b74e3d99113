"""Two ends, messages that finish in any order, a connection that breaks: what one end has confirmed
is what the other has finished, and what it still keeps is what it has not."""

from hypothesis import given
from hypothesis import strategies as st

from byway.core.in_flight import InFlight
from byway.core.links import LinkEnd
from byway.core.window import Window
from byway.model.messages import Acknowledge, Batch, Publish

STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 6)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("finish"), st.integers(0, 10**6)),
    st.tuples(st.just("answer"), st.integers(1, 3)),
    st.tuples(st.just("cut"), st.booleans()),
    st.tuples(st.just("forget"), st.just(0)),
)


class Link:
    """A sends to B. The oracle: sets of sequences, by what became of them."""

    def __init__(self) -> None:
        self.ends = LinkEnd("A", "B", 1), LinkEnd("B", "A", 1)
        self.there: list[Batch] = []
        self.back: list[Acknowledge] = []
        self.sequence = 0
        self.at_b: dict[int, tuple[Window, int]] = {}
        """By sequence, messages that B has and that are not finished."""
        self.finished: set[int] = set()
        self.confirmed: list[int] = []
        self.forgotten: set[int] = set()
        """Finished by B, which then lost its state before it could say so."""
        self.connect()

    def connect(self) -> None:
        a, b = self.ends
        to_b, to_a = a.hello(), b.hello()
        meeting = a.meet(to_a, to_b)
        b.meet(to_b, to_a)
        self.heard(meeting.confirmed)
        self.there += meeting.again
        if not meeting.resumed:
            opened = a.opened()
            self.there += [] if opened is None else [opened]
            b.opened()
        self.answer()

    def cut(self) -> None:
        for end in self.ends:
            end.lost()
        self.there.clear()
        self.back.clear()

    def send(self, count: int) -> None:
        a, _ = self.ends
        for _ in range(count):
            self.sequence += 1
            source = InFlight(Window(), self.sequence, None, "", 2)
            a.copies.append(Publish("p", 1, self.sequence, 0, 0, 0, 0, b""), source)
        batch = a.post_data()
        if batch is not None:
            self.there.append(batch)

    def deliver(self) -> None:
        if self.there:
            _, b = self.ends
            first, messages = b.take(self.there.pop(0))
            for number, message in enumerate(messages, first):
                assert message.sequence not in self.at_b
                self.at_b[message.sequence] = b.window, number

    def finish(self, choice: int) -> None:
        if self.at_b:
            sequence = sorted(self.at_b)[choice % len(self.at_b)]
            window, number = self.at_b.pop(sequence)
            window.finish(number)
            self.finished.add(sequence)
            self.answer()

    def answer(self) -> None:
        _, b = self.ends
        if b.up:
            while (frame := b.acknowledgement()) is not None:
                self.back.append(frame)

    def hear(self) -> None:
        if self.back:
            self.heard(self.ends[0].received(self.back.pop(0)))

    def heard(self, sources: list[InFlight]) -> None:
        self.confirmed += [source.number for source in sources]

    def forget(self) -> None:
        """B loses its state."""
        self.cut()
        a, b = self.ends
        self.ends = a, LinkEnd("B", "A", b.incarnation + 1)
        self.at_b.clear()
        self.forgotten |= self.finished - set(self.confirmed)
        self.finished &= set(self.confirmed)
        self.connect()

    def check(self) -> None:
        assert len(set(self.confirmed)) == len(self.confirmed), "confirmed twice"
        assert set(self.confirmed) <= self.finished
        kept = [message.sequence for message in self.ends[0].copies.messages]
        assert kept == [n for n in range(1, self.sequence + 1) if n not in set(self.confirmed)]


@given(st.lists(STEPS, max_size=60))
def test_what_is_finished_is_confirmed_once_whatever_the_order(steps):
    link = Link()
    for what, detail in steps:
        match what:
            case "send":
                link.send(detail)
            case "deliver":
                for _ in range(detail):
                    link.deliver()
            case "finish":
                link.finish(detail)
            case "answer":
                for _ in range(detail):
                    link.hear()
            case "cut":
                link.cut()
                if detail:
                    link.connect()
            case "forget":
                link.forget()
        link.check()
    if not link.ends[0].up:
        link.connect()
    while link.there:
        link.deliver()
    while link.back:
        link.hear()
    link.check()
    # everything that B has finished is confirmed, though others before it are not
    assert set(link.confirmed) == link.finished
    while link.at_b:
        link.finish(0)
    while link.back:
        link.hear()
    assert not link.ends[0].copies
    assert not link.ends[1].window.early
