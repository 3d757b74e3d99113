"""What a story is about: an id as people write it, and which entries and publications it names.

Names may contain slashes and may be numbers, so one text can be read in several ways. All of them
are looked for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from byway.model.messages import EntryId
from byway.story.steps import StoryError

EXPECTED: Final = (
    "expected CLIENT/NAME for a subscription or advertisement, PUBLISHER/SEQUENCE or "
    "PUBLISHER/INCARNATION/SEQUENCE for a publication"
)


class PublicationId(NamedTuple):
    """A publication; without an incarnation, the one of every incarnation of its publisher."""

    publisher: str
    incarnation: int | None
    sequence: int

    def __str__(self) -> str:
        incarnation = "?" if self.incarnation is None else self.incarnation
        return f"{self.publisher}/{incarnation}/{self.sequence}"


class Subject(NamedTuple):
    """The entries and publications that an id may name."""

    text: str
    entries: frozenset[tuple[str, str]]
    """Pairs of client and name."""
    publications: frozenset[PublicationId]

    def owns(self, client: str) -> bool:
        """Whether the id may name an entry of `client`."""
        return any(client == owner for owner, _ in self.entries)

    def is_entry(self, client: str, name: str) -> bool:
        """Whether the id names this subscription or advertisement."""
        return (client, name) in self.entries

    def is_publication(self, publication: PublicationId) -> bool:
        """Whether the id names this publication; an incarnation that is not known may be any."""
        publisher, incarnation, sequence = publication
        return any(
            (own.publisher, own.sequence) == (publisher, sequence)
            and (None in (own.incarnation, incarnation) or own.incarnation == incarnation)
            for own in self.publications
        )


def parse_subject(text: str) -> Subject:
    """The subject that `text` names. Raises `StoryError`."""
    parts = text.split("/")
    splits = [("/".join(parts[:at]), "/".join(parts[at:])) for at in range(1, len(parts))]
    entries = frozenset((client, name) for client, name in splits if client and name)
    if not entries:
        raise StoryError(repr(text), EXPECTED)
    return Subject(text, entries, frozenset(_publications(parts)))


def _publications(parts: list[str]) -> list[PublicationId]:
    found = []
    if parts[0] and _is_number(parts[-1]):
        sequence = int(parts[-1])
        found.append(PublicationId("/".join(parts[:-1]), None, sequence))
        if len(parts) > 2 and _is_number(parts[-2]):
            found.append(PublicationId("/".join(parts[:-2]), int(parts[-2]), sequence))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def entry_text(id: EntryId) -> str:
    """The full id of an entry, as a story shows it."""
    return f"{id.client}/{id.name}/{id.incarnation}/{id.number}"
