"""Chance: random numbers for what a broker does at random, such as how long it backs off.

A driver brings the seed (`Started`). A number is a hash of the seed, the broker, its incarnation,
whose number it is, and how many numbers that one has drawn. So a snapshot holds a seed and a few
counts, a broker that is rebuilt from its inputs draws the same, and one that starts again with the
same seed draws others. It is not for secrets.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

_BITS: Final = 53  # as many as a float has
_encode = msgspec.msgpack.Encoder().encode


class Chance:
    """The random numbers of one broker, a sequence for each owner."""

    def __init__(self, broker: str, incarnation: int) -> None:
        self._broker = broker
        self._incarnation = incarnation
        self.seed = 0
        self.draws: dict[str, int] = {}
        """By owner, how many numbers it has drawn."""

    def __repr__(self) -> str:
        return f"<Chance of {self._broker}: seed {self.seed}, drawn {self.draws}>"

    def restore(self, seed: int, draws: dict[str, int]) -> None:
        """Go on from a snapshot."""
        self.seed, self.draws = seed, draws

    def random(self, owner: str) -> float:
        """The owner's next number, from 0 up to but not 1."""
        number = self.draws[owner] = self.draws.get(owner, 0) + 1
        words = _encode((self.seed, self._broker, self._incarnation, owner, number))
        bits = int.from_bytes(blake2b(words, digest_size=8).digest(), "big") >> (64 - _BITS)
        return float(bits) / (1 << _BITS)
