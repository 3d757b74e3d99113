"""Two generations: a bound on what is remembered, without an order to keep.

New values go into the young generation. When it is full it becomes the old one, and what was old
until then is forgotten: at least half and at most all of the bound is remembered, and forgetting
costs nothing for each value.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Generations(Generic[K, V]):
    """The base of a table of values by key in two generations.

    A subclass reads and writes the two dicts itself, which costs no call, counts as it likes how
    full the young one is, and calls `age` before it exceeds `half`.
    """

    __slots__ = ("half", "old", "young")

    def __init__(self, size_max: int) -> None:
        self.half = max(size_max // 2, 1)
        """The bound of the young generation."""
        self.young: dict[K, V] = {}
        self.old: dict[K, V] = {}

    def age(self) -> None:
        """Forget the old generation; the young one is the old one now."""
        self.old, self.young = self.young, {}
