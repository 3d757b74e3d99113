"""Lazy covering: a covered subscription is not sent, but what was sent before stays.

A later, broader subscription leaves the narrower ones where they are: less traffic when it comes
and when it goes, larger tables in between.
"""

from __future__ import annotations

from byway.core.covering.active import Active


class Lazy(Active):
    """Forwards a subscription unless one that was forwarded before covers it."""

    name = "lazy"
    replaces = False
