"""The list of neighbours that the broker was told of last counts, also after a crash."""

import shutil
from pathlib import Path

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    FrameReceived,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighboursListed,
    Started,
)
from byway.model.addresses import Listing, Neighbour
from byway.model.messages import CONTROL, Batch, Disconnect, Hello, LinkKind
from byway.storage.storage import Storage

A, X = (Neighbour.parse(text, "k") for text in ("A@127.0.0.1:1", "X@127.0.0.1:2"))
UP = LinkUp("X", Hello("X", 1, 0, 0, 0, 0, kind=LinkKind.PRIMARY))
PARTED = FrameReceived("X", Batch(CONTROL, 1, (Disconnect("exchanged", True),)))


def begin(directory: Path, listed: tuple[Neighbour, ...]):
    storage = Storage(directory)
    broker = storage.restore(1, "B", BrokerConfig(), listed)

    def take(*events) -> None:
        storage.keep(2, list(events))
        broker.handle_batch(2, list(events))

    take(Started(1))
    return broker, take


def after_crash(directory: Path, listed: tuple[Neighbour, ...]):
    """The directory is copied as a crash would leave it."""
    left = directory.with_name("left")
    shutil.copytree(directory, left)
    return Storage(left).restore(10, "B", BrokerConfig(), listed)


def test_one_that_was_added_and_has_parted_is_not_added_again(tmp_path):
    broker, take = begin(tmp_path / "data", (A,))
    take(NeighbourAdded("X"))
    take(NeighboursListed(Listing((A, X))))
    take(UP)
    take(PARTED)
    assert broker.former == {"X": "exchanged"}
    restored = after_crash(tmp_path / "data", (A, X))
    assert restored.listing == Listing((A, X))
    assert (restored.neighbours, restored.former) == (("A",), {"X": "exchanged"})


def test_one_that_was_removed_and_came_back_is_not_removed_again(tmp_path):
    broker, take = begin(tmp_path / "data", (A, X))
    take(NeighbourRemoved("X"))
    take(NeighboursListed(Listing((A,))))
    take(NeighbourAdded("X"))
    assert broker.neighbours == ("A", "X")
    restored = after_crash(tmp_path / "data", (A,))
    assert restored.listing == Listing((A,))
    assert restored.neighbours == ("A", "X")


def test_ids_that_were_learnt_and_who_was_added_outlive_a_crash_and_older_snapshots(tmp_path):
    at_x = Neighbour(X.address)
    broker, take = begin(tmp_path / "data", (A, at_x))
    assert broker.listing == Listing((A, at_x))
    told = Listing((A, X), added=(at_x,))
    take(NeighboursListed(told))
    assert after_crash(tmp_path / "data", (A, at_x)).listing == told
    stale = Broker.restore(broker.snapshot(), BrokerConfig(), 7)
    assert stale.listing == Listing((A, X))  # it may have been linked since
    nothing = Broker.restore(Broker("B").snapshot())
    assert nothing.listing is None
