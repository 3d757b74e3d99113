"""Compiled code of the matching index: compiled on first use, then loaded from disk (`caching`)."""

from byway.matching.kernels import entry, relations, verdicts

__all__ = ["entry", "relations", "verdicts"]
