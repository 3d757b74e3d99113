"""Subscribers: the clients that share the subscriptions of a workload.

They subscribe over a span of time, subscribe and unsubscribe at random times (churn), unsubscribe
in bursts, and vanish and return; subscriptions move from one client to another. Who does what is
drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from byway.matching import MatchIndex, Vocabulary
from byway.model import Filter
from byway.sim.scenario.groups import (
    SubscriptionGroups,
    assigned_clients,
    clusters_of,
    groups_of,
    order_by_groups,
    order_with_late_roots,
)
from byway.sim.scenario.random_streams import Purpose, poisson_times_us
from byway.sim.scenario.resolve import brokers_of, window_of
from byway.sim.scenario.run_context import RunContext
from byway.sim.scenario.schema import Churn, SubscriptionMoves, UnsubscribeBurst, Workload
from byway.sim.scenario.value_types import microseconds
from byway.workload import CoveringDegree, Feeds, Generator


class DrawnSubscription(NamedTuple):
    """A subscription in force: the number of its client among the subscribers, and its filter."""

    client: int
    filter: Filter


class RandomSet:
    """A set of numbers of which any can be drawn with the same chance."""

    def __init__(self) -> None:
        self._members: list[int] = []
        self._positions: dict[int, int] = {}

    def add(self, member: int) -> None:
        """Add a number that is not in the set."""
        self._positions[member] = len(self._members)
        self._members.append(member)

    def remove(self, member: int) -> None:
        """Remove a number that is in the set."""
        position, last = self._positions.pop(member), self._members.pop()
        if last != member:
            self._members[position] = last
            self._positions[last] = position

    def draw(self, rng: np.random.Generator) -> int | None:
        """A random member; None: the set is empty."""
        return self._members[int(rng.integers(len(self._members)))] if self._members else None


class Subscribers:
    """The clients that share the generated subscriptions, and the subscriptions in force.

    The name of a subscription is its number in order of arrival. What a client asks for while it is
    away is sent when it is back.
    """

    def __init__(self, context: RunContext, workload: Workload, generator: Generator) -> None:
        count = workload.subscriptions if workload.subscribers is None else workload.subscribers
        self._context = context
        self._workload = workload
        self._clients = context.clients(
            "s", count, "workload.subscribers_at", workload.subscribers_at,
            Purpose.SUBSCRIBERS, workload.session_ttl_s, apart=isinstance(generator, Feeds),
        )  # fmt: skip
        groups = None
        if isinstance(generator, CoveringDegree):
            groups = groups_of(generator, workload.subscriptions)
        self._order = _order(context, workload, groups)
        self._filters = _filters(workload, generator, self._order)
        self._client_by_row = self._assigned(groups)
        if isinstance(generator, Feeds):
            self._client_by_row = generator.subscriber_numbers().tolist()
        self._roots = [] if groups is None else self._arrivals_of_roots(groups)
        self._burst_rng = context.rng(Purpose.BURSTS)
        self._subscribed = 0
        self._in_force: dict[int, DrawnSubscription] = {}
        self._numbers = RandomSet()
        """The numbers of the subscriptions in force."""
        self._present = RandomSet()
        """The numbers of the clients that have not vanished."""
        for client in range(count):
            self._present.add(client)

    def start(self) -> None:
        """Schedule the first event of each series."""
        self._context.follow(_arrivals_us(self._workload), self._subscribe_next)
        churn, moves = self._context.scenario.churn, self._context.scenario.moves
        if churn is not None:
            self._start_churn(churn)
        if moves is not None:
            self._start_moves(moves)
        for burst in self._context.scenario.unsubscribe:
            self._context.world.at(microseconds(burst.at_s), partial(self._start_burst, burst))

    def _assigned(self, groups: SubscriptionGroups | None) -> list[int] | None:
        """By row the number of its client; None: that does not depend on groups."""
        workload, topology = self._workload, self._context.topology
        if groups is None or (workload.clusters == "none" and workload.roots_at is None):
            return None
        homes = [client.home_name for client in self._clients]
        rng = self._context.rng(Purpose.GROUPS)
        clusters = [list(range(len(homes)))]
        if workload.clusters != "none":
            clusters = clusters_of(workload.clusters, homes, topology)
        assigned = assigned_clients(groups, clusters, workload.scattered_groups, rng)
        if workload.roots_at is not None:
            allowed = brokers_of("workload.roots_at", workload.roots_at, topology)
            near = [client for client, home in enumerate(homes) if home in allowed]
            for row in (groups.is_root & _scattered(groups, workload)).nonzero()[0].tolist():
                assigned[row] = near[int(rng.integers(len(near)))]
        return assigned

    def _arrivals_of_roots(self, groups: SubscriptionGroups) -> list[int]:
        """The numbers of the subscriptions that are roots, in the generator's order."""
        if self._order is None:
            return [int(row) for row in groups.is_root.nonzero()[0]]
        numbers = {row: number for number, row in enumerate(self._order) if groups.is_root[row]}
        return [numbers[row] for row in sorted(numbers)]

    def _subscribe_next(self) -> None:
        number = self._subscribed
        if self._client_by_row is None:
            self._subscribe(number % len(self._clients))
        else:
            row = number if self._order is None else self._order[number]
            self._subscribe(self._client_by_row[row])

    def _subscribe(self, client: int) -> None:
        number, filter = self._subscribed, next(self._filters)
        self._subscribed += 1
        self._put_in_force(number, client, filter)

    def _put_in_force(self, number: int, client: int, filter: Filter) -> None:
        self._in_force[number] = DrawnSubscription(client, filter)
        self._numbers.add(number)
        self._clients[client].subscribe(filter, str(number))

    def _unsubscribe(self, number: int) -> None:
        client = self._in_force.pop(number).client
        self._numbers.remove(number)
        self._clients[client].unsubscribe(str(number))

    # --- churn

    def _start_churn(self, churn: Churn) -> None:
        from_s, to_s = window_of(churn, self._context.scenario)
        span = microseconds(from_s), microseconds(to_s)
        for rate_per_s, purpose, act in (
            (churn.subscribe_per_s, Purpose.CHURN_SUBSCRIBE, self._subscribe_any),
            (churn.unsubscribe_per_s, Purpose.CHURN_UNSUBSCRIBE, self._unsubscribe_any),
            (churn.vanish_per_s, Purpose.CHURN_VANISH, partial(self._vanish_any, churn)),
        ):
            rng = self._context.rng(purpose)
            times_us = poisson_times_us(rate_per_s, *span, rng.spawn(1)[0])
            self._context.follow(times_us, partial(act, rng))

    def _subscribe_any(self, rng: np.random.Generator) -> None:
        client = self._present.draw(rng)
        if client is not None:
            self._subscribe(client)

    def _unsubscribe_any(self, rng: np.random.Generator) -> None:
        number = self._numbers.draw(rng)
        if number is not None:
            self._unsubscribe(number)

    def _vanish_any(self, churn: Churn, rng: np.random.Generator) -> None:
        client = self._present.draw(rng)
        if client is None:
            return
        bounds_us = microseconds(churn.away_s_min), microseconds(churn.away_s_max)
        away_us = int(rng.integers(*bounds_us, endpoint=True))
        self._present.remove(client)
        self._clients[client].vanish()
        back_us = min(self._context.world.now_us + away_us, self._context.end_us)
        self._context.world.at(back_us, partial(self._return, client))

    def _return(self, client: int) -> None:
        self._present.add(client)
        self._clients[client].come_back()

    # --- moves

    def _start_moves(self, moves: SubscriptionMoves) -> None:
        rng = self._context.rng(Purpose.MOVES)
        from_s, to_s = window_of(moves, self._context.scenario)
        span = microseconds(from_s), microseconds(to_s)
        times_us = poisson_times_us(moves.per_s, *span, rng.spawn(1)[0])
        goals = _goals([client.home_name for client in self._clients], moves, self._context)
        self._context.follow(times_us, partial(self._move_any, goals, rng))

    def _move_any(self, goals: list[list[int]], rng: np.random.Generator) -> None:
        """End a subscription in force, and begin it at once at another client."""
        number = self._numbers.draw(rng)
        if number is None:
            return
        client, filter = self._in_force[number]
        goal = goals[client][int(rng.integers(len(goals[client])))]
        self._unsubscribe(number)
        number = self._subscribed
        self._subscribed += 1
        self._put_in_force(number, goal, filter)

    # --- bursts

    def _start_burst(self, burst: UnsubscribeBurst) -> None:
        if burst.which == "roots":
            chosen = [number for number in self._roots if number in self._in_force]
        else:
            chosen = self._broadest() if burst.which == "broadest" else self._shuffled()
        targets = iter(chosen[: burst.count])
        gap_us, from_us = microseconds(burst.gap_s), self._context.world.now_us
        times_us = (from_us + number * gap_us for number in range(min(burst.count, len(chosen))))
        self._context.follow(times_us, lambda: self._unsubscribe_if_in_force(next(targets)))

    def _unsubscribe_if_in_force(self, number: int) -> None:
        if number in self._in_force:
            self._unsubscribe(number)

    def _shuffled(self) -> list[int]:
        numbers: list[int] = self._burst_rng.permutation(list(self._in_force)).tolist()
        return numbers

    def _broadest(self) -> list[int]:
        """The subscriptions in force, those that cover the most others first, then the oldest."""
        index = MatchIndex(Vocabulary())
        for number, subscription in self._in_force.items():
            index.add(number, subscription.filter)
        covered = {
            number: len(index.covered_by(subscription.filter))
            for number, subscription in self._in_force.items()
        }
        return sorted(covered, key=lambda number: (-covered[number], number))


def _arrivals_us(workload: Workload) -> Iterator[int]:
    """The times at which the workload's subscriptions arrive: evenly over their span."""
    from_us, span_us = microseconds(workload.subscribe_at_s), microseconds(workload.subscribe_for_s)
    for number in range(workload.subscriptions):
        yield from_us + number * span_us // workload.subscriptions


def _goals(homes: list[str], moves: SubscriptionMoves, context: RunContext) -> list[list[int]]:
    """For each client, the clients that its subscriptions may move to."""
    regions = [frozenset(context.topology.brokers)]
    if moves.within is not None:
        regions = [
            frozenset(role.brokers)
            for role in context.topology.roles
            if role.name.startswith(moves.within)
        ]
    near = {
        home: [goal for region in regions if home in region for goal in _clients_in(region, homes)]
        for home in dict.fromkeys(homes)
    }
    return [near[home] or [client] for client, home in enumerate(homes)]


def _clients_in(region: frozenset[str], homes: list[str]) -> list[int]:
    return [client for client, home in enumerate(homes) if home in region]


def _order(
    context: RunContext, workload: Workload, groups: SubscriptionGroups | None
) -> list[int] | None:
    """The rows in the order in which they arrive; None: as the generator gives them."""
    if workload.order == "given":
        return None
    rng = context.rng(Purpose.ORDER)
    if groups is not None and (workload.roots_after or workload.order == "groups"):
        late = _scattered(groups, workload)
        if workload.order == "groups":
            return order_by_groups(groups, late, workload.roots_after, rng)
        return order_with_late_roots(groups, late, workload.roots_after, rng)
    order: list[int] = rng.permutation(workload.subscriptions).tolist()
    return order


def _scattered(groups: SubscriptionGroups, workload: Workload) -> npt.NDArray[np.bool_]:
    """For each row whether its group is in no cluster."""
    if workload.clusters == "none":
        return np.ones(len(groups.of), np.bool_)
    return groups.of < workload.scattered_groups


def _filters(workload: Workload, generator: Generator, order: list[int] | None) -> Iterator[Filter]:
    """The workload's subscriptions in order of arrival, and further ones without end.

    When the generator has no more, its subscriptions come again from the first one on.
    """
    first = generator.take_filters(workload.subscriptions)
    if order is not None:
        first = [first[row] for row in order]
    yield from first
    del first
    row = workload.subscriptions
    available = generator.subscription_count()
    while True:
        chunk, start = divmod(row if available is None else row % available, generator.ROWS)
        found = generator.subscriptions(chunk).filters()[start:]
        yield from found
        row += len(found)
