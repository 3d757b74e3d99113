"""Seen sequences: which publications of one publisher were seen, when they arrive out of order.

The home broker admits at most `publisher_window` unconfirmed publications of one publisher. So none
that is yet to be seen for the first time lies so far or further below the highest one seen, and
what lies below the window counts as seen.
"""

from __future__ import annotations

from byway.model.errors import BywayError


class SeenSequences:
    """The sequences seen among the `size` highest, exactly; all lower ones count as seen.

    Bit i of `mask` stands for the sequence `last - i`, so the mask has at most `size` bits.
    """

    __slots__ = ("last", "mask", "size")

    def __init__(self, size: int, last: int = 0, mask: int = 0) -> None:
        if size < 1 or last < 0 or mask < 0 or mask.bit_length() > size:
            raise BywayError(f"no window of {size} sequences: last {last}, mask {mask:#x}")
        self.size = size
        self.last = last
        self.mask = mask

    def __contains__(self, sequence: int) -> bool:
        below = self.last - sequence
        return below >= self.size or (below >= 0 and bool(self.mask >> below & 1))

    def add(self, sequence: int) -> bool:
        """Take a sequence as seen; whether it was not before."""
        below = self.last - sequence
        if below < 0:
            kept = self.size + below  # how many bits stay within the window
            mask = self.mask if kept > 0 else 0
            if mask.bit_length() > kept > 0:
                mask &= (1 << kept) - 1
            self.mask = mask << -below | 1 if mask else 1
            self.last = sequence
            return True
        if below >= self.size or self.mask >> below & 1:
            return False
        self.mask |= 1 << below
        return True
