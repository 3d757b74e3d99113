"""The file that says that a broker was here before: what is in it, when it is written, and what is
said about one that cannot be used."""

import asyncio
from hashlib import blake2b
from pathlib import Path

import pytest

from byway.core.inputs import (
    FrameReceived,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighboursListed,
)
from byway.model.addresses import Address, Listing, Neighbour
from byway.model.errors import StorageError
from byway.model.messages import CONTROL, Batch, Disconnect, Hello, LinkKind
from byway.runtime.restart_marker import RestartMarker
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings
from byway.storage.marker_file import FILE
from byway.storage.storage import Storage

ANYWHERE = Address("127.0.0.1", 0)
B2 = Neighbour(Address("h", 2), "B2")
B3 = Neighbour(Address("h", 3), "B3")


def server(*neighbours: Neighbour) -> BrokerServer:
    return BrokerServer(BrokerSettings(id="B1", listen=ANYWHERE, neighbours=neighbours))


def followed(directory: Path, *neighbours: Neighbour) -> tuple[RestartMarker, BrokerServer]:
    marker, found = RestartMarker(str(directory), "B1"), server(*neighbours)
    marker.follow(found)
    return marker, found


def in_loop(test):
    """Drivers need a running event loop."""

    def run(tmp_path):
        async def main():
            test(tmp_path)

        asyncio.run(main())

    return run


def reread(directory: Path, *listed: Neighbour) -> list[str]:
    return RestartMarker(str(directory), "B1").names(listed)


def test_a_first_start_knows_of_nothing(tmp_path):
    marker = RestartMarker(str(tmp_path), "B1")
    assert (marker.was_here, marker.names((B2,))) == (False, [])
    assert not list(tmp_path.iterdir())


@in_loop
def test_the_file_is_there_from_the_start_and_follows_the_set_of_neighbours(tmp_path):
    _, broker = followed(tmp_path / "deep" / "er", B2)
    directory = tmp_path / "deep" / "er"
    assert RestartMarker(str(directory), "B1").was_here
    assert reread(directory, B2) == ["B2"]
    broker.driver.now(NeighbourAdded("L"))
    assert reread(directory, B2) == ["B2", "L"]
    broker.driver.now(NeighbourRemoved("L"))
    assert reread(directory, B2) == ["B2"]


@in_loop
def test_it_is_written_before_anything_is_done_and_only_if_something_changed(tmp_path):
    marker, broker = followed(tmp_path)
    seen = []
    broker.open_link = lambda action: seen.append((action.link, reread(tmp_path)))
    broker.driver.now(NeighbourAdded("L"))
    assert seen == [("L", ["L"])]
    before = marker.path.stat().st_ino
    broker.driver.now(NeighbourAdded("L"))
    broker.driver.now(LinkUp("L", Hello("L", 7, 0, 0, 0, 0, 0)))
    assert marker.path.stat().st_ino == before


@in_loop
def test_a_neighbour_that_was_taken_off_the_list_is_not_waited_for(tmp_path):
    _, broker = followed(tmp_path, B2, B3)
    broker.driver.now(NeighbourAdded("L"))
    assert reread(tmp_path, B2, B3) == ["B2", "B3", "L"]
    assert reread(tmp_path, B3) == ["B3", "L"]
    moved = Neighbour(Address("elsewhere", 2), "B2")
    assert reread(tmp_path, moved, B3) == ["B2", "B3", "L"]
    assert reread(tmp_path, Neighbour(B2.address), B3) == ["B2", "B3", "L"]


@in_loop
def test_who_is_listed_is_kept_up_to_date(tmp_path):
    _, broker = followed(tmp_path, B2)
    broker.driver.now(NeighbourAdded("B3"))  # it dialled in
    broker.driver.now(NeighboursListed(Listing((B2, B3))))  # as after a reload
    assert reread(tmp_path, B2) == ["B2"]


@in_loop
def test_who_leaves_for_good_has_its_first_start_before_it(tmp_path):
    marker, broker = followed(tmp_path, B2)
    marker.forget()
    broker.driver.now(NeighbourRemoved("B2"))
    assert not RestartMarker(str(tmp_path), "B1").was_here


@in_loop
def test_what_was_learnt_outlives_the_process_and_an_operators_list_outranks_it(tmp_path):
    _, broker = followed(tmp_path, B2, B3)
    broker.driver.now(NeighbourAdded("L"))
    learnt = Hello("L", 7, 0, 0, 0, 0, address="h:9", learnt=True, kind=LinkKind.PRIMARY)
    broker.driver.now(LinkUp("L", learnt))
    broker.driver.now(LinkUp("S", Hello("S", 8, 0, 0, 0, 0, kind=LinkKind.SOFT, address="h:8")))
    broker.driver.now(LinkUp("B2", Hello("B2", 9, 0, 0, 0, 0, kind=LinkKind.PRIMARY)))
    farewell = Batch(CONTROL, 1, (Disconnect("exchanged", for_good=True),))
    broker.driver.now(FrameReceived("B2", farewell))
    marker = RestartMarker(str(tmp_path), "B1")
    assert marker.names((B2, B3)) == ["B3", "L"]
    assert marker.learnt == {"L": "h:9"}
    assert marker.former((B2, B3)) == {"B2": "exchanged"}
    assert marker.listing == Listing((B2, B3))
    broker.driver.now(NeighboursListed(Listing((B3,))))  # an operator removes it …
    removed = RestartMarker(str(tmp_path), "B1")
    assert removed.former((B3,)) == {"B2": "exchanged"}
    assert removed.former((B2, B3)) == {}  # … and adds it again


@in_loop
def test_ids_that_were_learnt_and_who_was_added_are_kept(tmp_path):
    at_2 = Neighbour(B2.address)
    _, broker = followed(tmp_path, at_2)
    broker.driver.now(NeighbourAdded("B2"), NeighboursListed(Listing((B2,), added=(at_2,))))
    marker = RestartMarker(str(tmp_path), "B1")
    assert marker.listing == Listing((B2,), (at_2,))
    assert marker.names((at_2,)) == ["B2"]
    assert marker.names(()) == []


def test_a_file_of_the_first_format_is_read(tmp_path):
    text = (
        '{"format":1,"id":"B1","neighbours":["B2","L"],"listed":[{"address":{"host":"h","port":2},'
        '"id":"B2"}],"checksum":"CHECKSUM"}'
    )
    bare = text.replace("CHECKSUM", "")
    checksum = blake2b(bare.encode(), digest_size=16).hexdigest()
    (tmp_path / FILE).write_text(text.replace("CHECKSUM", checksum))
    marker = RestartMarker(str(tmp_path), "B1")
    assert (marker.names((B2,)), marker.learnt, marker.former((B2,))) == (["B2", "L"], {}, {})


# --- files that cannot be used -----------------------------------------------------------------


@in_loop
def test_another_brokers_file_is_refused(tmp_path):
    followed(tmp_path)
    with pytest.raises(StorageError, match=r"neighbours.json: belongs to broker 'B1', not to 'X'"):
        RestartMarker(str(tmp_path), "X")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data.replace(b"B2", b"B4"), "is damaged: its checksum is wrong"),
        (lambda data: data[:-9], "is damaged: "),
        (lambda _: b"", "is damaged: "),
        (lambda _: b"\xff" * 20, "is damaged: "),
        (lambda data: data.replace(b'"format":2', b'"format":4'), "has format 4, expected 1 to 3"),
        (lambda _: b" " * 20_000_000, "is longer than 16777216 bytes"),
    ],
    ids=["another name", "cut", "empty", "no text", "newer", "long"],
)
def test_a_damaged_file_is_refused(tmp_path, damage, reason):
    async def write() -> None:
        followed(tmp_path, B2)

    asyncio.run(write())
    path = tmp_path / FILE
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError) as caught:
        RestartMarker(str(tmp_path), "B1")
    assert caught.value.path == str(path)
    assert caught.value.reason.startswith(reason)


@in_loop
def test_a_directory_that_is_none_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        RestartMarker(str(tmp_path / "file"), "B1")
    with pytest.raises(StorageError, match="cannot be written: "):
        followed(Path("/proc/nowhere"))


# --- together with a state ---------------------------------------------------------------------


def test_names_count_where_no_state_was_kept(tmp_path):
    storage = Storage(str(tmp_path))
    core = BrokerSettings(id="B1", listen=ANYWHERE).core
    broker = storage.restore(1, "B1", core, (B2,), marked_neighbours="L")
    assert list(broker.neighbours) == ["B2", "L"]
    assert not broker.is_restarting
    storage.abandon()


def test_names_count_beside_an_older_state_but_not_beside_the_last_one(tmp_path):
    core = BrokerSettings(id="B1", listen=ANYWHERE).core
    storage = Storage(str(tmp_path))
    storage.restore(1, "B1", core, (B2,), marked_neighbours=["L"], restarting=True)
    storage.stop()
    exact = Storage(str(tmp_path))
    broker = exact.restore(1, "B1", core, (B2,), marked_neighbours=["L", "M"], restarting=True)
    assert list(broker.neighbours) == ["B2", "L"]
    assert broker.is_restarting  # as it was when it stopped
    exact._append(b"")  # a journal that ends within a record
    path = max(tmp_path.glob("journal-*"))
    exact.abandon()
    path.write_bytes(path.read_bytes()[:-3])
    stale = Storage(str(tmp_path))
    broker = stale.restore(1, "B1", core, (B2,), marked_neighbours=["L", "M"], restarting=True)
    assert list(broker.neighbours) == ["B2", "L", "M"]
    assert sorted(broker.missing) == ["B2", "L", "M"]
    stale.abandon()
    again = Storage(str(tmp_path))  # what was recalled is part of the state
    assert list(again.restore(1, "B1", core, (B2,)).neighbours) == ["B2", "L", "M"]
    again.abandon()


def test_neighbours_added_to_the_list_are_no_former_ones_any_more(tmp_path):
    """Nor after a crash: whom the list had is kept once the change has had its effects."""
    former = {"B2": "exchanged", "B3": "exchanged"}

    async def start(*listed: Neighbour, **options: object):
        settings = BrokerSettings(id="B1", listen=ANYWHERE, neighbours=listed)
        storage = Storage(str(tmp_path))
        broker = storage.restore(1, "B1", settings.core, listed, **options)
        server = BrokerServer(settings, broker, storage)
        await server.start()
        await server.kill()
        storage.abandon()
        return broker.neighbours, dict(broker.former), server.acceptance.added

    assert asyncio.run(start(B2, former=former)) == ((), former, set())
    assert asyncio.run(start(B2)) == ((), former, set())
    added = ("B3",), {"B2": "exchanged"}, {B3}
    assert asyncio.run(start(B2, B3)) == added
    assert asyncio.run(start(B2, B3)) == added  # they have not been linked yet
    assert asyncio.run(start(B2)) == ((), {"B2": "exchanged"}, set())
    assert asyncio.run(start(B2)) == ((), {"B2": "exchanged"}, set())
