"""Planning: over which links copies of a publication travel, once it is known who wants it.

Matching says which *targets* want a publication; in the tree these are neighbours. They lie in
*branches*, one for each neighbour, and several links may lead into a branch: its primary link, and
links beside the tree. A planner decides for each branch which links get a copy, with which header,
and for which targets; or that the publication is *held*, because a copy over another link would let
it overtake earlier publications of its publisher. `branch_queues` carries that out.

On the tree alone there is one link a branch, so nothing is ever held: `TreePlanner` says so, and
`Publications` does the same without asking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from byway.core.link_numbers import LinkNumbers
from byway.model.messages import Publish


class PlannedCopy(msgspec.Struct, frozen=True):
    """One copy of a publication."""

    link: str
    publication: Publish
    """The copy, with the header for this link."""
    targets: int
    """The targets that it is for, as bits."""


class Group(NamedTuple):
    """Links that get equal copies."""

    links: tuple[str, ...]
    distance: int
    """The `distance` of the copies' header; 0: that of the publication, and `more`."""
    more: int


class WholePlan(msgspec.Struct):
    """The copies for all targets that want a publication, in all branches."""

    groups: tuple[Group, ...]
    """As they are where each target has one entry that matches, or it does not matter."""
    conflicts: frozenset[str]
    """Links that must have no unconfirmed publications of the publisher."""
    profile: tuple[str, ...] = ()
    """Links that the planner counts publications for."""
    deciding: int = 0
    """The targets for which it matters whether they have several entries that match, as bits."""
    variants: Mapping[int, tuple[Group, ...]] = {}
    """By those of them that have several, the groups."""
    hits: int = 0
    """How many publications went by this plan since the planner took the number."""


class Planner(Protocol):
    """Decides over which links copies travel."""

    @property
    def whole(self) -> Callable[[int], WholePlan | None]:
        """By mask of targets, what `plan` says for each branch, taken together, where no link of
        `conflicts` has unconfirmed publications of the publisher; None: it has to be asked branch
        by branch."""

    @property
    def bypassed(self) -> Collection[str]:
        """The branches whose neighbour is dead, so that copies go round it: there, targets may be
        without a link that leads to them."""

    def on_links_changed(self) -> None:
        """Links were added or removed since it was last asked."""

    def branch_of(self, link: str) -> str:
        """The primary link of the branch that a link leads into."""

    def span(self, link: str) -> int:
        """The hops of the tree from here to the other end of a link; 0 if they are not known."""

    def branches(self, matched: int, came_from: str | None) -> Sequence[tuple[str, int]]:
        """By branch, the targets that want a publication, in the order of the branches' names. The
        branch that it came from is not among them."""

    def plan(
        self,
        branch: str,
        targets: int,
        publication: Publish,
        unconfirmed: Mapping[str, int],
        several: int,
        reached: frozenset[str] = frozenset(),
    ) -> Sequence[PlannedCopy] | None:
        """The copies for targets in a branch; None: it is held until a copy of its publisher is
        confirmed in that branch, or a link changes. `unconfirmed`: how many publications of the
        publisher each link has not confirmed. `several`: the targets with several entries that
        matched, for what copies say of it; a target that has changed since counts as having one.
        `reached`: links that have had a copy already."""

    def unreached(self, branch: str, targets: int) -> int:
        """Those of these targets, in a branch that is bypassed, that no link leads to."""

    def targets_beyond(self, link: str, publication: Publish) -> int:
        """The targets that a copy sent over a link was for, matched again."""

    def unheaded(self, link: str, publication: Publish) -> Publish:
        """A copy that was sent over a link, with the header that it had when it was planned."""


class TreePlanner:
    """The planner of a broker without links beside the tree: a copy for each neighbour."""

    def __init__(self, numbers: LinkNumbers) -> None:
        self._numbers = numbers

    def whole(self, matched: int) -> None:
        """Nothing: it does not happen."""
        del matched

    bypassed: Collection[str] = ()

    def on_links_changed(self) -> None:
        """Nothing follows from it."""

    def branch_of(self, link: str) -> str:
        """Every link is a branch of its own."""
        return link

    def span(self, link: str) -> int:
        """One: all links are links of the tree."""
        del link
        return 1

    def branches(self, matched: int, came_from: str | None) -> Sequence[tuple[str, int]]:
        """The neighbours that want it."""
        del came_from  # it is not matched
        links = self._numbers.links(matched)
        return [(link, 1 << self._numbers.number(link)) for link in links]

    def plan(
        self,
        branch: str,
        targets: int,
        publication: Publish,
        unconfirmed: Mapping[str, int],
        several: int,
        reached: frozenset[str] = frozenset(),
    ) -> Sequence[PlannedCopy]:
        """One copy over the link itself, which keeps it while it is down."""
        del unconfirmed, several, reached
        return (PlannedCopy(branch, publication, targets),)

    def unreached(self, branch: str, targets: int) -> int:
        """None: the link of a branch is always used."""
        del branch, targets
        return 0

    def targets_beyond(self, link: str, publication: Publish) -> int:
        """None: what a neighbour that was removed wanted, nobody else does."""
        del link, publication
        return 0

    def unheaded(self, link: str, publication: Publish) -> Publish:
        """The copy itself: all links of the tree have one header."""
        del link
        return publication
