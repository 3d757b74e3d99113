"""Planners for tests: the tree's, which goes through the queues of branches, and one that uses soft
links and holds. Each belongs to a behaviour that is on where a configuration names it."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from byway.core.behaviours import Behaviour, register
from byway.core.bodies import read
from byway.core.planning import PlannedCopy, TreePlanner
from byway.model.messages import LinkKind, Publish
from byway.sim.topology.tree import Topology


@register
class PlannedTree(Behaviour):
    """Plans what the tree does without a planner."""

    name: ClassVar[str] = "planned-tree"

    def planner(self) -> TreePlanner:
        return TreePlanner(self.view.numbers)


@register
class SoftRoutes(Behaviour):
    """Sends copies over soft links where that spares a hop, as the mesh will, with an oracle in the
    place of maps: it knows the whole tree, and a publication names the brokers that it is for, by
    an attribute of their name each.

    In a branch it takes the first links before its targets (even sequences), or the last one before
    all of them. It may use a link only if no other link that is comparable to it, one before the
    other, has unconfirmed publications of the publisher; else the single open link before all
    targets; else it holds.
    """

    name: ClassVar[str] = "soft-routes"
    tree: ClassVar[Topology]
    """The tree of the world; a test sets it before it makes the world."""
    held: ClassVar[int] = 0
    """How often publications were held, and sent over soft links, since a test cleared it."""
    soft: ClassVar[int] = 0

    def planner(self) -> "SoftRoutes":
        return self

    bypassed = ()

    def whole(self, matched: int) -> None:
        del matched

    def on_links_changed(self) -> None:
        pass

    def branch_of(self, link: str) -> str:
        return self._way(link)[0]

    def span(self, link: str) -> int:
        return len(self._way(link))

    def branches(self, matched: int, came_from: str | None) -> Sequence[tuple[str, int]]:
        del came_from
        numbers = self.view.numbers
        return [(link, 1 << numbers.number(link)) for link in numbers.links(matched)]

    def unreached(self, branch: str, targets: int) -> int:
        del branch, targets
        return 0

    def plan(
        self,
        branch: str,
        targets: int,
        publication: Publish,
        unconfirmed: Mapping[str, int],
        several: int,
        reached: frozenset[str] = frozenset(),
    ) -> Sequence[PlannedCopy] | None:
        del several, reached
        brokers = self._brokers(targets, publication) or [branch]
        usable = [link for link in self._links(branch) if self._is_usable(link)]
        nearest = [[x for x in self._way(broker) if x in usable][-1] for broker in brokers]
        if publication.sequence % 2:
            common = [x for x in usable if all(x in self._way(target) for target in nearest)]
            links = {max(common, key=lambda x: len(self._way(x)))}
        else:
            links = {x for x in nearest if not any(x != y and self._lies_on(y, x) for y in nearest)}
        open_links = [link for link in unconfirmed if self.branch_of(link) == branch]
        if any(self._are_comparable(x, y) for x in links for y in open_links):
            free = [
                x for x in open_links
                if x in usable
                and all(self._lies_on(x, y) for y in links)
                and not any(self._are_comparable(x, y) for y in open_links)
            ]  # fmt: skip
            if not free:
                SoftRoutes.held += 1
                return None
            links = {free[0]}
        SoftRoutes.soft += sum(self.view.kind(link) is LinkKind.SOFT for link in links)
        return [PlannedCopy(link, publication, targets) for link in sorted(links)]

    def targets_beyond(self, link: str, publication: Publish) -> int:
        """The targets are the neighbour's bit, and those brokers behind the link that it is for."""
        beyond = [x for x in self._named(publication) if link in self._way(x)]
        branch = self.branch_of(link)
        return 1 << self.view.numbers.number(branch) if beyond else 0

    def unheaded(self, link: str, publication: Publish) -> Publish:
        del link
        return publication

    def _named(self, publication: Publish) -> list[str]:
        names = read(publication.body)
        return [x for x in self.tree.brokers if x in names and x != self.view.broker]

    def _brokers(self, targets: int, publication: Publish) -> list[str]:
        """The brokers in the branches of these targets that a publication is for."""
        branches = self.view.numbers.links(targets)
        return [x for x in self._named(publication) if self.branch_of(x) in branches]

    def _links(self, branch: str) -> list[str]:
        """The links into a branch, the nearest ends first."""
        others = [x for x in self.tree.brokers if x != self.view.broker and self.view.kind(x)]
        found = [x for x in others if self.branch_of(x) == branch]
        return sorted(found, key=lambda x: (len(self._way(x)), x))

    def _is_usable(self, link: str) -> bool:
        """A link of the tree keeps copies while it is down; others need not."""
        return self.view.kind(link) is LinkKind.PRIMARY or self.view.takes_data(link)

    def _way(self, broker: str) -> tuple[str, ...]:
        """The brokers on the way to another one, without this one."""
        return self.tree.path(self.view.broker, broker)[1:]

    def _lies_on(self, link: str, other: str) -> bool:
        return link in self._way(other)

    def _are_comparable(self, one: str, other: str) -> bool:
        return one != other and (self._lies_on(one, other) or self._lies_on(other, one))
