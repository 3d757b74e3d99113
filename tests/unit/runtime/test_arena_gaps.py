"""Objects leave pools with few objects in them when they are replaced, while gaps are filled."""

import subprocess
import sys
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


def moved_of(size: int) -> tuple[float, float]:
    """Which share of survivors moves without fillers, and with them."""
    survivors, gaps = Survivors(size), ArenaGaps()
    survivors.replace_all()
    alone = survivors.moved
    survivors = Survivors(size)
    gaps.fill(size)
    for _ in range(5):
        survivors.replace_all()
    moved = survivors.moved
    gaps.release()
    assert not len(gaps)
    return alone, moved


@pytest.mark.parametrize("size", [48, 64, 128, 512])
def test_objects_leave_sparse_pools_when_they_are_replaced(size):
    """In a process of its own: that of the tests has gaps of other tests."""
    done = subprocess.run(
        [sys.executable, __file__, str(size)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    alone, moved = map(float, done.stdout.split())
    assert alone < 0.5, "they leave by themselves, so this shows nothing"
    assert moved > 0.9


def test_fillers_are_few():
    gaps = ArenaGaps()
    for size in SIZES:
        before = len(gaps)
        gaps.fill(size)
        assert (len(gaps) - before) * size < 70 * (1 << POOL_BITS)
    gaps.release()


if __name__ == "__main__":
    print(*moved_of(int(sys.argv[1])))
