"""Snapshots of older layouts, made into the present one step by step.

A layout is what `state.VERSION` counts. Structs travel as arrays, so a converter sees lists in
the order of the fields of the structs of its time: it changes them in place, or returns others. A
field that was added at the end of a struct, with a default, needs none of that, only its layout's
number and an empty converter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from byway.model.bounds import DELIVERED_NAMES_MAX

Plain = list[Any]
"""A `BrokerState` as lists, dicts, texts, bytes and numbers."""
Converter = Callable[[Plain], Plain]

OLDEST: Final = 4
"""Layouts before this one are refused."""


def _from_4(state: Plain) -> Plain:
    """Layout 5 knows what a broker that lost its state waits for, which deliveries are unconfirmed
    for want of room, which brokers are out of reach, and the last probes for cycles."""
    *most, missing, behaviours = state
    links, clients = most[3], most[8]
    for link in links:
        sync = link[-1]
        sync["peer_told"] = sync.get("invited", False)
    for client in clients:
        for delivery in client[10]:
            delivery[3] = delivery[3][:DELIVERED_NAMES_MAX]  # a client of so many was rare
        client.append([])
    missing.pop("", None)  # neighbours that might have come without being listed
    peers = [link[0] for link in links]
    sync = [missing, bool(missing), False, [], peers, {}, {}]
    return [*most, sync, behaviours, False, [[], {}, {}, {}], [0, {}]]


def _from_5(state: Plain) -> Plain:
    """Layout 6 knows which publications of a client were refused last; none, if nobody says so."""
    return state


def _from_6(state: Plain) -> Plain:
    """Layout 7 knows what each link is for, where its other end can be dialled, former neighbours,
    and which ones are listed. All links were those of the tree. Messages that finished early are
    runs. The last load sample is the broker's, not the load exchange's."""
    exchange = state[12].get("load")
    if exchange is not None:
        del exchange[4]
    windows = [*(link[10] for link in state[3]), *(client[8] for client in state[8])]
    for window in windows:
        window[2] = _runs(window[2])
    return state


def _runs(numbers: list[int]) -> list[list[int]]:
    """Sorted numbers as runs, each of its first and last one."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


CONVERTERS: Final[dict[int, Converter]] = {4: _from_4, 5: _from_5, 6: _from_6}
"""By layout, what makes a state of it one of the next."""


def converted(state: Plain, layout: int, present: int) -> Plain:
    """A state of an older layout in the present one. Whatever a converter trips over is raised."""
    for step in range(layout, present):
        state = CONVERTERS[step](state)
    return state
