"""Subscribers: generated clients that share the subscriptions of a workload.

They subscribe over a span of time, change their minds at random times, unsubscribe in bursts, move,
and vanish and return. Who does what is drawn from the seed.
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
    Groups,
    clusters_of,
    groups_of,
    order_by_groups,
    order_with_late_roots,
    places_of,
)
from byway.sim.scenario.places import brokers_of
from byway.sim.scenario.random_streams import Purpose, poisson_times_us
from byway.sim.scenario.schema import Churn, MovesSpec, UnsubscribeBurst, Workload
from byway.sim.scenario.stage import Stage
from byway.sim.scenario.times import window_of
from byway.sim.scenario.value_types import microseconds
from byway.workload import CoveringDegree, Generator


class DrawnSubscription(NamedTuple):
    """One that is in force: the place of its client among the subscribers, and its filter."""

    client: int
    filter: Filter


class Drawable:
    """Numbers of which any can be drawn, all alike, and any can be taken out."""

    def __init__(self) -> None:
        self._members: list[int] = []
        self._places: dict[int, int] = {}

    def add(self, member: int) -> None:
        self._places[member] = len(self._members)
        self._members.append(member)

    def remove(self, member: int) -> None:
        place, last = self._places.pop(member), self._members.pop()
        if last != member:
            self._members[place] = last
            self._places[last] = place

    def draw(self, rng: np.random.Generator) -> int | None:
        """Any of them; None if there is none."""
        return self._members[int(rng.integers(len(self._members)))] if self._members else None


class Subscribers:
    """The clients that share the generated subscriptions, and what is in force.

    A subscription is called by its number, counted up in order of arrival. What a client does
    while it is away it says when it is back.
    """

    def __init__(self, stage: Stage, workload: Workload, generator: Generator) -> None:
        number = workload.subscriptions if workload.subscribers is None else workload.subscribers
        self._stage = stage
        self._workload = workload
        self._clients = stage.clients(
            "s", number, "workload.subscribers_at", workload.subscribers_at,
            Purpose.SUBSCRIBERS, workload.session_ttl_s,
        )  # fmt: skip
        groups = None
        if isinstance(generator, CoveringDegree):
            groups = groups_of(generator, workload.subscriptions)
        self._order = _order(stage, workload, groups)
        self._filters = _filters(workload, generator, self._order)
        self._places = self._assigned(groups)
        self._roots = [] if groups is None else self._arrivals_of_roots(groups)
        self._burst_rng = stage.rng(Purpose.BURSTS)
        self._subscribed = 0
        self._in_force: dict[int, DrawnSubscription] = {}
        self._drawable = Drawable()  # those in force
        self._present = Drawable()  # clients
        for place in range(number):
            self._present.add(place)

    def start(self) -> None:
        """Schedule the first of everything that subscribers do."""
        self._stage.follow(_arrivals_us(self._workload), self._subscribe_next)
        churn, moves = self._stage.scenario.churn, self._stage.scenario.moves
        if churn is not None:
            self._start_churn(churn)
        if moves is not None:
            self._start_moves(moves)
        for burst in self._stage.scenario.unsubscribe:
            self._stage.world.at(microseconds(burst.at_s), partial(self._start_burst, burst))

    def _assigned(self, groups: Groups | None) -> list[int] | None:
        """By row, whose it is, if that depends on its group."""
        workload, topology = self._workload, self._stage.topology
        if groups is None or (workload.clusters == "none" and workload.roots_at is None):
            return None
        homes = [client.home_name for client in self._clients]
        rng = self._stage.rng(Purpose.GROUPS)
        clusters = [list(range(len(homes)))]
        if workload.clusters != "none":
            clusters = clusters_of(workload.clusters, homes, topology)
        places = places_of(groups, clusters, workload.scattered_groups, rng)
        if workload.roots_at is not None:
            allowed = brokers_of("workload.roots_at", workload.roots_at, topology)
            near = [place for place, home in enumerate(homes) if home in allowed]
            for row in (groups.is_root & _scattered(groups, workload)).nonzero()[0].tolist():
                places[row] = near[int(rng.integers(len(near)))]
        return places

    def _arrivals_of_roots(self, groups: Groups) -> list[int]:
        """The numbers that roots have, in the generator's order."""
        if self._order is None:
            return [int(row) for row in groups.is_root.nonzero()[0]]
        numbers = {row: number for number, row in enumerate(self._order) if groups.is_root[row]}
        return [numbers[row] for row in sorted(numbers)]

    def _subscribe_next(self) -> None:
        number = self._subscribed
        if self._places is None:
            self._subscribe(number % len(self._clients))
        else:
            self._subscribe(self._places[number if self._order is None else self._order[number]])

    def _subscribe(self, client: int) -> None:
        number, filter = self._subscribed, next(self._filters)
        self._subscribed += 1
        self._hold(number, client, filter)

    def _hold(self, number: int, client: int, filter: Filter) -> None:
        self._in_force[number] = DrawnSubscription(client, filter)
        self._drawable.add(number)
        self._clients[client].subscribe(filter, str(number))

    def _unsubscribe(self, number: int) -> None:
        client = self._in_force.pop(number).client
        self._drawable.remove(number)
        self._clients[client].unsubscribe(str(number))

    # --- churn

    def _start_churn(self, churn: Churn) -> None:
        from_s, to_s = window_of(churn, self._stage.scenario)
        span = microseconds(from_s), microseconds(to_s)
        for rate_per_s, purpose, act in (
            (churn.subscribe_per_s, Purpose.CHURN_SUBSCRIBE, self._subscribe_any),
            (churn.unsubscribe_per_s, Purpose.CHURN_UNSUBSCRIBE, self._unsubscribe_any),
            (churn.vanish_per_s, Purpose.CHURN_VANISH, partial(self._vanish_any, churn)),
        ):
            rng = self._stage.rng(purpose)
            times_us = poisson_times_us(rate_per_s, *span, rng.spawn(1)[0])
            self._stage.follow(times_us, partial(act, rng))

    def _subscribe_any(self, rng: np.random.Generator) -> None:
        client = self._present.draw(rng)
        if client is not None:
            self._subscribe(client)

    def _unsubscribe_any(self, rng: np.random.Generator) -> None:
        number = self._drawable.draw(rng)
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
        back_us = min(self._stage.world.now_us + away_us, self._stage.end_us)
        self._stage.world.at(back_us, partial(self._return, client))

    def _return(self, client: int) -> None:
        self._present.add(client)
        self._clients[client].come_back()

    # --- moves

    def _start_moves(self, moves: MovesSpec) -> None:
        rng = self._stage.rng(Purpose.MOVES)
        from_s, to_s = window_of(moves, self._stage.scenario)
        span = microseconds(from_s), microseconds(to_s)
        times_us = poisson_times_us(moves.per_s, *span, rng.spawn(1)[0])
        goals = _goals([client.home_name for client in self._clients], moves, self._stage)
        self._stage.follow(times_us, partial(self._move_any, goals, rng))

    def _move_any(self, goals: list[list[int]], rng: np.random.Generator) -> None:
        """One that is in force ends, and begins at once at another client."""
        number = self._drawable.draw(rng)
        if number is None:
            return
        client, filter = self._in_force[number]
        goal = goals[client][int(rng.integers(len(goals[client])))]
        self._unsubscribe(number)
        number = self._subscribed
        self._subscribed += 1
        self._hold(number, goal, filter)

    # --- bursts

    def _start_burst(self, burst: UnsubscribeBurst) -> None:
        if burst.which == "roots":
            chosen = [number for number in self._roots if number in self._in_force]
        else:
            chosen = self._broadest() if burst.which == "broadest" else self._shuffled()
        targets = iter(chosen[: burst.count])
        gap_us, from_us = microseconds(burst.gap_s), self._stage.world.now_us
        times_us = (from_us + number * gap_us for number in range(min(burst.count, len(chosen))))
        self._stage.follow(times_us, lambda: self._unsubscribe_if_in_force(next(targets)))

    def _unsubscribe_if_in_force(self, number: int) -> None:
        if number in self._in_force:
            self._unsubscribe(number)

    def _shuffled(self) -> list[int]:
        numbers: list[int] = self._burst_rng.permutation(list(self._in_force)).tolist()
        return numbers

    def _broadest(self) -> list[int]:
        """Those in force, by how many of the others each covers; the older first."""
        index = MatchIndex(Vocabulary())
        for number, subscription in self._in_force.items():
            index.add(number, subscription.filter)
        covered = {
            number: len(index.covered_by(subscription.filter))
            for number, subscription in self._in_force.items()
        }
        return sorted(covered, key=lambda number: (-covered[number], number))


def _arrivals_us(workload: Workload) -> Iterator[int]:
    """When the first subscriptions come: evenly over their span."""
    from_us, span_us = microseconds(workload.subscribe_at_s), microseconds(workload.subscribe_for_s)
    for number in range(workload.subscriptions):
        yield from_us + number * span_us // workload.subscriptions


def _goals(homes: list[str], moves: MovesSpec, stage: Stage) -> list[list[int]]:
    """For each client those that its subscriptions may move to."""
    regions = [frozenset(stage.topology.brokers)]
    if moves.within is not None:
        regions = [
            frozenset(role.brokers)
            for role in stage.topology.roles
            if role.name.startswith(moves.within)
        ]
    near = {
        home: [place for region in regions if home in region for place in _places(homes, region)]
        for home in dict.fromkeys(homes)
    }
    return [near[home] or [place] for place, home in enumerate(homes)]


def _places(homes: list[str], region: frozenset[str]) -> list[int]:
    return [place for place, home in enumerate(homes) if home in region]


def _order(stage: Stage, workload: Workload, groups: Groups | None) -> list[int] | None:
    """The rows in the order in which they arrive; None: in their own."""
    if workload.order == "given":
        return None
    rng = stage.rng(Purpose.ORDER)
    if groups is not None and (workload.roots_after or workload.order == "groups"):
        late = _scattered(groups, workload)
        if workload.order == "groups":
            return order_by_groups(groups, late, workload.roots_after, rng)
        return order_with_late_roots(groups, late, workload.roots_after, rng)
    order: list[int] = rng.permutation(workload.subscriptions).tolist()
    return order


def _scattered(groups: Groups, workload: Workload) -> npt.NDArray[np.bool_]:
    """The rows whose group is in no cluster."""
    if workload.clusters == "none":
        return np.ones(len(groups.of), np.bool_)
    return groups.of < workload.scattered_groups


def _filters(workload: Workload, generator: Generator, order: list[int] | None) -> Iterator[Filter]:
    """The workload's subscriptions in order of arrival, and those after them without end.

    A generator that ends begins again.
    """
    first = generator.take_filters(workload.subscriptions)
    if order is not None:
        first = [first[place] for place in order]
    yield from first
    del first
    row = workload.subscriptions
    available = generator.subscription_count()
    while True:
        chunk, start = divmod(row if available is None else row % available, generator.ROWS)
        found = generator.subscriptions(chunk).filters()[start:]
        yield from found
        row += len(found)
