"""The list of neighbours that an operator has reloaded counts at once, also after a crash."""

import shutil
from pathlib import Path

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkUp, NeighbourAdded, NeighbourRemoved, Started
from byway.model.addresses import Neighbour
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
    return storage, broker, take


def after_crash(directory: Path, listed: tuple[Neighbour, ...]):
    """The directory is copied as a crash would leave it."""
    left = directory.with_name("left")
    shutil.copytree(directory, left)
    storage = Storage(left)
    return storage, storage.restore(10, "B", BrokerConfig(), listed)


def test_one_that_was_added_and_has_parted_is_not_added_again(tmp_path):
    storage, broker, take = begin(tmp_path / "data", (A,))
    take(NeighbourAdded("X"))
    storage.listed((A, X))
    take(UP)
    take(PARTED)
    assert broker.former == {"X": "exchanged"}
    again, restored = after_crash(tmp_path / "data", (A, X))
    assert (again.added, again.removed) == ([], [])
    assert (restored.neighbours, restored.former) == (("A",), {"X": "exchanged"})


def test_one_that_was_removed_and_came_back_is_not_removed_again(tmp_path):
    storage, broker, take = begin(tmp_path / "data", (A, X))
    take(NeighbourRemoved("X"))
    storage.listed((A,))
    take(NeighbourAdded("X"))
    assert broker.neighbours == ("A", "X")
    again, restored = after_crash(tmp_path / "data", (A,))
    assert (again.added, again.removed) == ([], [])
    assert restored.neighbours == ("A", "X")
