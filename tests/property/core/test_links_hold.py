"""Two ends and a connection that breaks: nothing is lost, doubled or reordered while both live."""

from hypothesis import given
from hypothesis import strategies as st

from byway.core.in_flight import unowned
from byway.core.links import LinkEnd
from byway.model import TRUE
from byway.model.messages import Acknowledge, Batch, EntryId, Lane, Unadvertise, Unsubscribe


class Wire:
    """Both directions of a connection, each a queue of frames that is lost when it breaks."""

    def __init__(self) -> None:
        self.ends = {"A": LinkEnd("A", "B", 1), "B": LinkEnd("B", "A", 1)}
        self.flying: dict[str, list[Batch | Acknowledge]] = {"A": [], "B": []}  # by receiver
        self.taken: dict[str, list[tuple[int, object]]] = {"A": [], "B": []}
        self.sent: dict[str, list[list[object]]] = {"A": [[], []], "B": [[], []]}
        self.connect()

    def connect(self) -> list[bool]:
        hellos = {name: end.hello() for name, end in self.ends.items()}
        meetings = {name: self.ends[name].meet(hellos[other(name)]) for name in "AB"}
        for name, meeting in meetings.items():
            self.flying[other(name)].extend(meeting.again)
            opened = self.ends[name].opened()
            assert opened is None or not meeting.resumed
        return [meeting.resumed for meeting in meetings.values()]

    def disconnect(self) -> None:
        for name, end in self.ends.items():
            end.lost()
            self.flying[name].clear()

    def send(self, name: str, lane: Lane, count: int) -> None:
        start = len(self.sent[name][lane])
        ids = [EntryId(name, "x", start + i) for i in range(count)]
        control = lane is Lane.CONTROL
        messages = [Unsubscribe((id,)) if control else Unadvertise(id, TRUE) for id in ids]
        self.sent[name][lane] += messages
        self.post(name, lane, messages)

    def post(self, name, lane, messages) -> None:
        end = self.ends[name]
        if lane is Lane.DATA:
            for message in messages:
                end.copies.append(message, unowned())
        batch = end.post_data() if lane is Lane.DATA else end.post_control(messages)
        if batch is not None:
            self.flying[other(name)].append(batch)

    def deliver(self, name: str) -> None:
        """The next frame arrives; control is acknowledged, data finishes and is confirmed."""
        if not self.flying[name]:
            return
        end, batch = self.ends[name], self.flying[name].pop(0)
        if isinstance(batch, Acknowledge):
            end.received(batch)
            return
        first, messages = end.take(batch)
        for number, message in enumerate(messages, first):
            self.taken[name].append((batch.lane, message))
            if batch.lane is Lane.DATA:
                end.window.finish(number)
        acknowledgement = end.acknowledgement()
        if acknowledgement is not None:
            self.flying[other(name)].append(acknowledgement)


def other(name: str) -> str:
    return "B" if name == "A" else "A"


NAMES = st.sampled_from("AB")
STEPS = st.one_of(
    st.tuples(st.just("send"), NAMES, st.sampled_from(Lane), st.integers(1, 3)),
    st.tuples(st.just("deliver"), NAMES),
    st.tuples(st.just("break")),
    st.tuples(st.just("mend")),
)


@given(st.lists(STEPS, max_size=80))
def test_everything_arrives_once_and_in_order(steps):
    wire = Wire()
    for what, *details in steps:
        if what == "send":
            wire.send(*details)
        elif what == "deliver":
            wire.deliver(*details)
        elif what == "break":
            wire.disconnect()
        elif not wire.ends["A"].up:
            assert wire.connect() == [True, True]
    if not wire.ends["A"].up:
        wire.connect()
    while wire.flying["A"] or wire.flying["B"]:
        wire.deliver("A")
        wire.deliver("B")
    for name in "AB":
        for lane in Lane:
            got = [message for where, message in wire.taken[name] if where == lane]
            assert got == wire.sent[other(name)][lane]
        assert (len(wire.ends[name].control.kept), len(wire.ends[name].copies)) == (0, 0)
        assert not wire.ends[name].window.early
