"""What a link has not confirmed can be taken back, and routed anew."""

from byway.core.copies import Copies, CopyQueue
from byway.core.in_flight import InFlight
from byway.core.streams import ALL_CONFIRMED, Stream, Streams
from byway.core.window import Window
from byway.model import TRUE
from byway.model.messages import Message, Publish, Unadvertise
from tests.lone_broker import entry


def publication(sequence: int, publisher: str = "p") -> Publish:
    return Publish(publisher, 1, sequence, 0, 1, 1, 0, b"")


def in_flight(number: int, stream: Stream | None = None, window: Window | None = None) -> InFlight:
    return InFlight(window or Window(), number, "A", "", 1, stream)


def store(*links: str) -> Copies:
    copies = Copies()
    for link in links:
        copies.add_link(link, CopyQueue())
    return copies


def kept(copies: Copies, link: str) -> list[Message]:
    return copies.links[link].messages


def test_a_stream_knows_where_its_publications_are_unconfirmed():
    copies, stream, other = store("C", "D"), Stream(), Stream()
    first, second = in_flight(1, stream), in_flight(2, stream)
    copies.append("C", publication(1), first)
    copies.append("D", publication(1), first)
    copies.append("C", publication(2), second)
    copies.append("C", publication(1, "q"), in_flight(3, other))
    assert (stream.open, other.open) == ({"C": 2, "D": 1}, {"C": 1})
    assert (first.left, second.left) == (3, 2)
    queue = copies.links["C"]
    queue.post()
    copies.release("C", queue.confirm(1))
    assert stream.open == {"C": 1, "D": 1}
    copies.release("C", queue.confirm_run(3, 3))
    assert (stream.open, other.open) == ({"C": 1, "D": 1}, {})


def test_an_unadvertisement_is_of_no_stream():
    copies, end = store("C"), in_flight(1)
    copies.append("C", Unadvertise(entry("a"), TRUE), end)
    assert end.left == 2
    copies.release("C", copies.links["C"].confirm(0))
    assert len(copies.links["C"]) == 1


def test_what_a_link_did_not_confirm_is_taken_back_in_order():
    copies, stream = store("C", "D"), Stream()
    sources = [in_flight(number, stream) for number in (1, 2, 3, 4)]
    for source in sources:
        copies.append("C", publication(source.number), source)
    queue = copies.links["C"]
    queue.post()
    copies.release("C", queue.confirm(1))
    copies.release("C", queue.confirm_run(3, 3))
    taken = copies.take_back("C")
    assert taken == [(publication(2), sources[1]), (publication(4), sources[3])]
    assert (len(queue), queue.next, stream.open) == (0, 1, {})
    assert [source.left for source in sources] == [2, 2, 2, 2]  # until they are finished


def test_what_is_taken_back_can_be_routed_anew():
    """The sender waits for the copy over another link in place of the one that was taken back."""
    copies, stream = store("C", "D"), Stream()
    source = in_flight(1, stream)
    copies.append("C", publication(1), source)
    source.left -= 1  # it has been handled
    for message, taken in copies.take_back("C"):
        copies.append("D", message, taken)
        taken.left -= 1  # for the copy that was taken back
    assert (kept(copies, "C"), kept(copies, "D")) == ([], [publication(1)])
    assert (source.left, stream.open) == (1, {"D": 1})


def test_a_link_that_is_removed_leaves_its_copies():
    copies = store("C", "D")
    source = in_flight(1, Stream())
    copies.append("C", publication(1), source)
    assert copies.remove_link("C") == [(publication(1), source)]
    assert list(copies.links) == ["D"]


def test_publishers_with_unconfirmed_publications_are_not_forgotten():
    streams = Streams(2)
    busy = streams.of("busy", 1)
    busy.last, busy.open = 7, {"C": 1}
    for number in range(10):
        assert streams.of(f"p{number}", 1).last == 0
    assert streams.of("busy", 1) is busy
    busy.open = ALL_CONFIRMED
    for number in range(10):
        streams.of(f"p{number}", 1)
    assert streams.of("busy", 1).last == 0
    assert len(streams.young) + len(streams.old) <= 3
