"""The planner of the mesh: over which links of a branch copies travel, so that order is kept.

The working map says where copies for some targets should go. A copy over one link may overtake an
earlier one over another that lies on the same way, so a link is used for a publisher only while no
link *comparable* to it, one on the tree's path to the other, has unconfirmed publications of that
publisher. Else one copy takes the single open link that lies before all targets, a *detour*, if
there is one; else the publication is held. (DESIGN §5, *Order*.) Now and then it is held though
there is a detour, so that the publisher can leave that (`change_overs`). With `order = "none"`
no links conflict.

While a neighbour is *bypassed*, its link carries nothing: copies for brokers behind it take other
links, and what no link leads to is parked (`parked`). A broker on the way that cannot be reached
may have quenched others behind it: they are wanted at brokers that the tables do not name. So what
is parked for it goes to the nearest brokers behind it that have a link too, each once; those that
need not have it drop it. (`tests/models/dead_brokers.py`: without this, one in nine runs loses.)

What follows from the targets alone is computed once and kept until maps, links or numbers change.
A plan also has the links that would get a copy if candidates were links, its *profile*, and counts
the publications that go by it: from that the link manager knows which links are worth having.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from byway.core.behaviours.broker_view import BrokerView
from byway.core.bodies import routes_of
from byway.core.mesh.change_overs import ChangeOvers
from byway.core.mesh.overlay_maps import OverlayMaps
from byway.core.mesh.working_map import Strategy
from byway.core.planning import Group, PlannedCopy, WholePlan
from byway.model.messages import Publish

PLANS_MAX = 65_536
"""Plans that are kept; beyond, all are made anew."""
VARIANTS_MAX = 256
"""Variants of one plan that are kept; beyond, they are made anew."""

HELD_SHARE: Final = 4
"""Nobody is kept back where what is held in a branch is at this fraction of its bound."""


class Leg(NamedTuple):
    """A link that gets a copy, and what the copy's header says of the way there."""

    link: str
    distance: int
    """The `distance` that it arrives with; 0: it grows by `span`."""
    span: int
    """Hops of the tree to the receiver."""
    alone: int
    """The target at the receiver or beyond it, as a bit, if there is one only. If it has several
    entries that match, `distance` is 1."""


class Variants(dict[int, tuple[Group, ...]]):
    """By targets with several entries that match, the groups of links that get equal copies; each
    is made when it is first asked for."""

    __slots__ = ("_legs",)

    def __init__(self, legs: Sequence[Leg]) -> None:
        super().__init__()
        self._legs = legs

    def __missing__(self, several: int) -> tuple[Group, ...]:
        if len(self) >= VARIANTS_MAX:
            self.clear()
        groups: dict[tuple[int, int], list[str]] = {}
        for leg in self._legs:
            groups.setdefault(_header(leg, several), []).append(leg.link)
        made = self[several] = tuple(
            Group(tuple(links), *header) for header, links in sorted(groups.items())
        )
        return made


class Plan(msgspec.Struct):
    """What follows from the targets in a branch."""

    legs: tuple[Leg, ...]
    conflicts: frozenset[str]
    """Links that must have no unconfirmed publications of the publisher."""
    profile: tuple[str, ...]
    """Links that would get a copy if candidates were links."""
    unreached: int = 0
    """The targets that no link leads to."""
    hits: int = 0
    """How many publications went by this plan since they were taken."""


class WholePlans(dict[int, WholePlan | None]):
    """By mask of targets, the copies for all of them; each is made when it is first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], WholePlan | None]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, matched: int) -> WholePlan | None:
        if len(self) >= PLANS_MAX:
            self.clear()
        made = self[matched] = self._make(matched)
        return made


class MeshPlanner:
    """Plans by the maps of one broker."""

    def __init__(
        self, view: BrokerView, strategy: Strategy, on_kept_back: Callable[[], None]
    ) -> None:
        """`on_kept_back` is called when a publication is held that could take a detour."""
        self._view = view
        self._strategy = strategy
        self._on_kept_back = on_kept_back
        self._profiles = view.config.mesh.interval_us > 0
        """Whether anybody takes the counts."""
        self._keeps_order = view.config.mesh.order == "publisher"
        self._maps = OverlayMaps.build(view.broker, (), 1)
        self._branch_of: dict[str, str] = {}
        self._ways: dict[str, tuple[str, ...]] = {}
        """By link, the tree's path to it; for one that is on no map, nothing but its branch."""
        self.bypassed: frozenset[str] = frozenset()
        """Neighbours whose link carries nothing, so that copies go round them."""
        self.change_overs = ChangeOvers(view.config.mesh.detour_us_max)
        """Publishers that took a detour."""
        self._held_bytes_max = view.config.link_bytes_max // HELD_SHARE
        self._sought: dict[str, None] = {}
        """Anchors that no link leads to, of plans that were made since somebody asked."""
        self._plans: dict[tuple[str, int, frozenset[str]], Plan] = {}
        self._wholes = WholePlans(self._whole)
        # asked for every publication: a method of the dict itself costs no further call
        self.whole: Callable[[int], WholePlan | None] = self._wholes.__getitem__
        """The copies for all targets of a mask, if nothing is held and no link conflicts; None if
        something is parked."""
        self._counted: list[Plan | WholePlan] = []
        """All plans that may have hits; others than `_plans` has, after numbers have changed."""
        self._counts: dict[str, int] = {}
        """By link of the profile, hits of plans that are gone."""
        self._branches: dict[int, Sequence[tuple[str, int]]] = {}
        view.numbers.dependent += (self._plans, self._wholes, self._branches)

    @property
    def strategy(self) -> Strategy:
        """The strategy in use."""
        return self._strategy

    def use_strategy(self, strategy: Strategy) -> None:
        """Choose links by another strategy from now on."""
        if strategy != self._strategy:
            self._strategy = strategy
            self._forget_plans()

    def use_maps(
        self,
        maps: OverlayMaps,
        branch_of: Mapping[str, str],
        bypassed: frozenset[str] = frozenset(),
    ) -> None:
        """Go by these maps from now on. `branch_of`: by soft link, whether the maps use it or not,
        the neighbour in whose branch its other end is. `bypassed`: neighbours whose link the maps
        do not use."""
        self._maps = maps
        self.bypassed = bypassed
        self._branch_of = dict(branch_of)
        master = maps.master
        self._ways = {link: master.path(link) for link in master.neighbours}
        for link, branch in branch_of.items():
            self._ways[link] = master.path(link) if self._is_in(link, branch) else ()
        self._forget_plans()

    @property
    def has_sought(self) -> bool:
        """Whether there are any for `take_sought`."""
        return bool(self._sought)

    def take_sought(self) -> list[str]:
        """The anchors that no link led to when plans for them were made since the last call."""
        sought, self._sought = self._sought, {}
        return sorted(sought)

    def take_counts(self) -> dict[str, int]:
        """By link of the profile, how many publications it would have carried since the last call;
        those of links that are in the profile no more, too."""
        self._add_hits()
        wholes = [whole for whole in self._wholes.values() if whole is not None]
        self._counted = [*self._plans.values(), *wholes]
        counts, self._counts = self._counts, {}
        return dict(sorted(counts.items()))

    def _forget_plans(self) -> None:
        self._add_hits()
        self._counted.clear()
        self._plans.clear()
        self._wholes.clear()

    def on_links_changed(self) -> None:
        """Plan without links that have gone since the maps were made."""
        takes_data = self._view.takes_data
        usable = [x for x in self._maps.order if x in self._branch_of]
        if not all(map(takes_data, usable)):
            left, candidates = filter(takes_data, usable), self._maps.candidates
            maps = self._maps.with_links(left, candidates, self.bypassed)
            self.use_maps(maps, self._branch_of, self.bypassed)

    def _add_hits(self) -> None:
        counts = self._counts
        for plan in self._counted:
            if plan.hits:
                for link in plan.profile:
                    counts[link] = counts.get(link, 0) + plan.hits
                plan.hits = 0

    # --- for the queues of branches ------------------------------------------------------------

    def branch_of(self, link: str) -> str:
        """The primary link of the branch that a link leads into."""
        return self._branch_of.get(link, link)

    def span(self, link: str) -> int:
        """The hops of the tree to the other end of a link; 0 for one that is on no map."""
        return len(self._ways.get(link, (link,)))

    def _whole(self, matched: int) -> WholePlan | None:
        legs: list[Leg] = []
        conflicts: frozenset[str] = frozenset()
        profile: list[str] = []
        if len(self._counted) >= PLANS_MAX:
            self._forget_plans()
        for branch, targets in self.branches(matched, None):
            plan = self._plan_for(branch, targets)
            if plan.unreached:
                return None
            conflicts |= plan.conflicts
            profile += plan.profile
            legs += plan.legs
        variants = Variants(legs)
        deciding = 0
        for leg in legs:
            deciding |= leg.alone
        made = WholePlan(variants[0], conflicts, tuple(profile), deciding, variants)
        self._counted.append(made)
        return made

    def branches(self, matched: int, came_from: str | None) -> Sequence[tuple[str, int]]:
        """By branch, the targets that want a publication."""
        del came_from  # it is not matched
        found = self._branches.get(matched)
        if found is None:
            if len(self._branches) >= PLANS_MAX:
                self._branches.clear()
            found = self._branches[matched] = self._by_branch(matched)
        return found

    def _by_branch(self, matched: int) -> Sequence[tuple[str, int]]:
        by_branch: dict[str, int] = {}
        for number in _numbers(matched):
            branch = self._view.numbers.links_of[number]
            by_branch[branch] = by_branch.get(branch, 0) | 1 << number
        return sorted(by_branch.items())

    def plan(
        self,
        branch: str,
        targets: int,
        publication: Publish,
        unconfirmed: Mapping[str, int],
        several: int,
        reached: frozenset[str] = frozenset(),
    ) -> Sequence[PlannedCopy] | None:
        """The copies for targets in a branch; None: it is held."""
        plan = self._plan_for(branch, targets, reached)
        legs = plan.legs
        if unconfirmed and not plan.conflicts.isdisjoint(unconfirmed):
            detour = self._open_before_all(branch, plan, unconfirmed)
            if detour is None or self._keeps_back(branch, publication, unconfirmed):
                return None
            legs = (self._leg(detour, self._anchors(branch, targets)),)
        elif self.change_overs.kept_back:
            key = publication.publisher, publication.incarnation, branch
            self.change_overs.on_free(key, self._view.now_us)
        plan.hits += 1
        return [PlannedCopy(leg.link, _along(publication, leg, several), targets) for leg in legs]

    def _keeps_back(
        self, branch: str, publication: Publish, unconfirmed: Mapping[str, int]
    ) -> bool:
        """Whether a publication that could take a detour is held, so that its publisher can leave
        that. Not where copies go round a dead neighbour, nor where much is held already: that
        would stop publishers of other branches."""
        if branch in self.bypassed:
            return False
        key = publication.publisher, publication.incarnation, branch
        left = sum(count for x, count in unconfirmed.items() if self.branch_of(x) == branch)
        has_room = self._view.held_bytes(branch) < self._held_bytes_max
        keeps = self.change_overs.keeps_back(key, self._view.now_us, left, may_begin=has_room)
        if keeps:
            self._on_kept_back()
        return keeps

    def unreached(self, branch: str, targets: int) -> int:
        """Those of these targets that no link leads to."""
        return self._plan_for(branch, targets).unreached

    def targets_beyond(self, link: str, publication: Publish) -> int:
        """The targets that a copy sent over a link was for, matched again: those behind it and on
        the way there, or, if it is on no map any more, all of its branch."""
        index = self._view.subscriptions.index
        mask, _, _, _ = routes_of(publication.body, index, None)
        targets = dict(self._by_branch(mask)).get(self.branch_of(link), 0)
        if not self._ways.get(link):
            return targets
        beyond, branch = 0, self.branch_of(link)
        for number in _numbers(targets):
            way = self._way(self._view.numbers.names[number], branch)
            # one before it may stand for those behind it now: a broader entry has quenched theirs
            if link in way or way[-1] in self._ways[link]:
                beyond |= 1 << number
        return beyond

    def unheaded(self, link: str, publication: Publish) -> Publish:
        """A copy with the distance that it had before it was sent past brokers; where others left
        on the way, 1."""
        passed = max(len(self._ways.get(link, ())) - 1, 0)
        distance = max(publication.distance - passed, 1)
        return msgspec.structs.replace(publication, distance=distance)

    # --- plans ---------------------------------------------------------------------------------

    def _plan_for(self, branch: str, targets: int, reached: frozenset[str] = frozenset()) -> Plan:
        """What follows from the targets."""
        plan = self._plans.get((branch, targets, reached))
        if plan is None:
            if len(self._counted) >= PLANS_MAX:
                self._forget_plans()
            plan = self._plans[branch, targets, reached] = self._plan(branch, targets, reached)
            self._counted.append(plan)
        return plan

    def _plan(self, branch: str, targets: int, reached: frozenset[str]) -> Plan:
        working = self._maps.working
        anchored = self._anchors(branch, targets)
        anchors = [name for _, name in anchored]
        wanted, unreached = working.targets(anchors), 0
        if branch in self.bypassed:
            unreached = self._unreached(branch, targets)
            behind = [name for _, name in self._anchors(branch, unreached)]
            wanted = self._round(behind, wanted, reached)
        chosen = working.names(working.forward(wanted, self._strategy))
        links: list[str] = []
        if self._keeps_order:
            links = [link for link in self._ways if self.branch_of(link) == branch]
        conflicts = frozenset(
            other for link in chosen for other in links if self._are_comparable(link, other)
        )
        legs = tuple(self._leg(link, anchored) for link in chosen)
        profile = self._maps.profile(anchors, self._strategy) if self._profiles else ()
        return Plan(legs, conflicts, tuple(profile), unreached)

    def _unreached(self, branch: str, targets: int) -> int:
        target_of, found = self._maps.working.target_of, 0
        for number, anchor in self._anchors(branch, targets):
            if not target_of.get(anchor):
                self._sought[anchor] = None
                found |= 1 << number
        return found

    def _round(self, unreached: Sequence[str], wanted: int, reached: frozenset[str]) -> int:
        """These links, with the nearest ones behind anchors that no link leads to, and without
        those that have had a copy, and those reached through them."""
        working = self._maps.working
        for place, link in enumerate(working.order):
            if working.roots[place] == place and not wanted >> place & 1:
                way = self._maps.master.path(link)
                wanted |= any(anchor in way for anchor in unreached) << place
        for link in reached:
            had = working.target_of.get(link, 0)
            if had and working.order[had.bit_length() - 1] == link:
                wanted &= ~working.beyond[had.bit_length() - 1]
        return wanted

    def _anchors(self, branch: str, targets: int) -> list[tuple[int, str]]:
        """The numbers of these targets, and their anchors. One that the map does not have in this
        branch, because subscriptions and records travel apart, counts as the neighbour before
        it."""
        numbers = self._view.numbers
        found = []
        for number in _numbers(targets):
            name = numbers.names[number]
            if name and numbers.links_of[number] == branch:
                found.append((number, name if self._is_in(name, branch) else branch))
        return found

    def _leg(self, link: str, anchors: Iterable[tuple[int, str]]) -> Leg:
        """Where others leave the way to a link: at the last such broker the distance begins anew,
        and right before the receiver if several are wanted there or beyond it."""
        way = self._ways[link]
        beyond, left, last = 0, 0, 0
        for number, anchor in anchors:
            other = self._way(anchor, way[0])
            shared = sum(1 for one, two in zip(way, other, strict=False) if one == two)
            if shared == len(way):
                beyond, last = beyond + 1, number
            else:
                left = max(left, shared)
        span = len(way)
        if beyond > 1 or span == 1:
            return Leg(link, 1 if span > 1 else 0, span, 0)
        return Leg(link, span - left if left else 0, span, 1 << last if beyond else 0)

    def _way(self, broker: str, branch: str) -> tuple[str, ...]:
        return self._maps.master.path(broker) if self._is_in(broker, branch) else (branch,)

    def _is_in(self, broker: str, branch: str) -> bool:
        """Whether the map has a broker in a branch."""
        master = self._maps.master
        return broker in master and master.branch(broker) == branch

    def _are_comparable(self, one: str, other: str) -> bool:
        """Whether one of two links lies on the path to the other, or that is not known."""
        if one == other:
            return False
        way, others = self._ways[one], self._ways[other]
        return not way or not others or one in others or other in way

    def _open_before_all(
        self, branch: str, plan: Plan, unconfirmed: Mapping[str, int]
    ) -> str | None:
        """The single open link that lies before all links that would get a copy."""
        working = self._maps.working
        open_links = [x for x in sorted(unconfirmed) if self.branch_of(x) == branch]
        for link in open_links:
            if (
                link in working.order
                and all(link in self._ways[leg.link] for leg in plan.legs)
                and not any(self._are_comparable(link, other) for other in open_links)
            ):
                return link
        return None


def _numbers(mask: int) -> Iterable[int]:
    while mask:
        last = mask & -mask
        yield last.bit_length() - 1
        mask ^= last


def _header(leg: Leg, several: int) -> tuple[int, int]:
    """The distance that a copy says, or 0, and then how much is added to it."""
    distance = 1 if leg.alone & several else leg.distance
    return distance, 0 if distance else leg.span - 1


def _along(publication: Publish, leg: Leg, several: int) -> Publish:
    """A publication with the header for a link."""
    distance, more = _header(leg, several)
    if not distance and not more:
        return publication
    return msgspec.structs.replace(publication, distance=distance or publication.distance + more)
