"""Keys of entries: small numbers, given again when an entry has gone, so that nothing grows with
churn.

An entry of a table has the same key in a draft of that table: what goes by key, as statistics do,
holds in both. A key is free when neither uses it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.tables import Table

_BLOCK_BITS: Final = 10


class UsedKeys:
    """How many keys of each block of 1,024 are in use, so that it is known which blocks at the end
    are not. It depends on keys in use alone, as they are in a snapshot."""

    def __init__(self) -> None:
        self._blocks: list[int] = []

    def add(self, key: int) -> None:
        """A key is in use from now on."""
        block = key >> _BLOCK_BITS
        while block >= len(self._blocks):
            self._blocks.append(0)
        self._blocks[block] += 1

    def remove(self, key: int) -> None:
        """A key is in use no more."""
        blocks = self._blocks
        blocks[key >> _BLOCK_BITS] -= 1
        while blocks and not blocks[-1]:
            blocks.pop()

    def leave_spare(self, keys: int) -> bool:
        """Whether, of so many keys in all, a block or more at the end is unused. Cutting it off
        takes time for each key that is free, and can be needed again only after so many keys were
        new, so it costs little for each entry."""
        return keys >= len(self._blocks) + 1 << _BLOCK_BITS


class Keys:
    """The keys of one table and of its drafts."""

    def __init__(self) -> None:
        self.free = array("q")
        """Free keys, the one that is given next at the end."""
        self.is_shared = False
        """Whether more than one table takes its keys from here."""
        self._tables: list[Table] = []

    def join(self, table: Table) -> None:
        """A table, which is empty, takes its keys from here."""
        self.is_shared = bool(self._tables)
        self._tables.append(table)

    def give(self, id: EntryId) -> int:
        """The key for a new entry of a table: the one that it has in another, or a free one."""
        if self.is_shared:
            for table in self._tables:
                known = table.get(id)
                if known is not None:
                    return known.key
        if self.free:
            return self.free.pop()
        if not self.is_shared:
            return self._tables[0].keys_end
        return max(table.keys_end for table in self._tables)  # all keys below are in use

    def release(self, table: Table, key: int) -> None:
        """A table no longer uses a key."""
        if self.is_shared:
            for other in self._tables:
                if other is not table and other.uses_key(key):
                    return
        self.free.append(key)

    def free_but_for(self, table: Table) -> list[int]:
        """The keys that are free as far as this table is concerned, the next one last."""
        if not self.is_shared:
            return self.free.tolist()
        return [*self._used_by_others(table), *self.free]

    def keep_only(self, table: Table) -> None:
        """All other tables are given up: free what only they use."""
        if self.is_shared:
            self.free = array("q", self.free_but_for(table))
            self._tables, self.is_shared = [table], False

    def _used_by_others(self, table: Table) -> list[int]:
        """Keys that other tables use and this one does not, the largest first."""
        end = max(other.keys_end for other in self._tables)
        return [
            key
            for key in range(end - 1, -1, -1)
            if not table.uses_key(key) and any(other.uses_key(key) for other in self._tables)
        ]
