"""Objects leave pools with few objects in them when they are replaced, while gaps are filled."""

from itertools import repeat

import pytest

from byway.runtime.arena_gaps import SIZES, ArenaGaps

POOL_BITS = 14


def place(one: object) -> int:
    return id(one) >> POOL_BITS


class Survivors:
    """One object of a size in each of many pools, where there were many others."""

    def __init__(self, size: int) -> None:
        self.length = size - 33
        crowd = [bytes(self.length) for _ in repeat(None, 40 * (1 << POOL_BITS) // size)]
        self.left = list({place(one): one for one in crowd}.values())
        self.pools = set(map(place, self.left))

    def replace_all(self) -> None:
        """Replace each by another one, as a counter or a timer is replaced."""
        for number in range(len(self.left)):
            self.left[number] = bytes(self.length)

    @property
    def moved(self) -> float:
        return sum(place(one) not in self.pools for one in self.left) / len(self.left)


@pytest.mark.parametrize("size", [48, 64, 128, 512])
def test_objects_leave_sparse_pools_when_they_are_replaced(size):
    survivors, gaps = Survivors(size), ArenaGaps()
    survivors.replace_all()
    assert survivors.moved < 0.5, "they leave by themselves, so this shows nothing"
    survivors = Survivors(size)
    gaps.fill(size)
    for _ in range(5):
        survivors.replace_all()
    assert survivors.moved > 0.9
    gaps.release()
    assert not len(gaps)


def test_fillers_are_few():
    gaps = ArenaGaps()
    for size in SIZES:
        before = len(gaps)
        gaps.fill(size)
        assert (len(gaps) - before) * size < 70 * (1 << POOL_BITS)
    gaps.release()
