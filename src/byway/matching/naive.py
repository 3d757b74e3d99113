"""The oracle: the same interface as `MatchIndex`, answered by looking at every filter.

Slow on purpose and obviously right: property tests and benches compare with it, and a broker that
waits for its kernels answers with it (`table_index`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byway.model import (
    Attributes,
    DuplicateKeyError,
    Filter,
    UnknownKeyError,
    covers,
    intersects,
)


class NaiveIndex:
    """A dictionary of filters, scanned for every question."""

    def __init__(self) -> None:
        self._filters: dict[int, tuple[Filter, int | None, int | None]] = {}

    def add(
        self, key: int, filter: Filter, link: int | None = None, target: int | None = None
    ) -> None:
        """Store a filter under a new key. Without a target of its own it has that of its link."""
        if key in self._filters:
            raise DuplicateKeyError(key)
        self._filters[key] = (filter, link, link if target is None else target)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        if self._filters.pop(key, None) is None:
            raise UnknownKeyError(key)

    def __len__(self) -> int:
        return len(self._filters)

    def items(self) -> Iterator[tuple[int, Filter, int | None, int | None]]:
        """Keys in the order in which they were added, with filters, links and targets."""
        return ((key, *stored) for key, stored in self._filters.items())

    def match(self, attributes: Attributes) -> list[int]:
        """Keys of the filters that match a publication."""
        return [k for k, (f, *_) in self._filters.items() if f.matches(attributes)]

    def match_batch(self, publications: Sequence[Attributes]) -> list[list[int]]:
        """The answer of `match` for each publication."""
        return [self.match(p) for p in publications]

    def match_links(self, attributes: Attributes, exclude: int | None = None) -> tuple[int, bool]:
        """(mask of targets, whether two or more entries match), link `exclude` left out."""
        mask, matched, _, _ = self.match_routes(attributes, exclude)
        return mask, matched > 1

    def match_routes(
        self, attributes: Attributes, exclude: int | None = None
    ) -> tuple[int, int, list[int], int]:
        """(mask of targets, how many entries match, local keys, targets of two or more), link
        `exclude` left out."""
        targets, found, local = [], 0, []
        for key, (f, link, target) in self._filters.items():
            if (link is not None and link == exclude) or not f.matches(attributes):
                continue
            found += 1
            if target is None:
                local.append(key)
            else:
                targets.append(target)
        mask = sum(1 << target for target in set(targets))
        several = sum(1 << target for target in set(targets) if targets.count(target) > 1)
        return mask, found, local, several

    def covering(self, filter: Filter) -> list[int]:
        """Keys whose filter covers the given one."""
        return [k for k, (f, *_) in self._filters.items() if covers(f, filter)]

    def covered_by(self, filter: Filter) -> list[int]:
        """Keys whose filter the given one covers."""
        return [k for k, (f, *_) in self._filters.items() if covers(filter, f)]

    def intersecting(self, advertisement: Filter) -> list[int]:
        """Keys of subscriptions that the given advertisement may feed."""
        return [k for k, (f, *_) in self._filters.items() if intersects(advertisement, f)]

    def intersecting_advertisements(self, subscription: Filter) -> list[int]:
        """Keys of advertisements that may feed the given subscription."""
        return [k for k, (f, *_) in self._filters.items() if intersects(f, subscription)]
