"""The options of the mesh: how much of the tree a broker knows, and which links it opens itself."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from byway.model.bounds import DELTA_MAX
from byway.model.options import Microseconds, Quantity, Share, option, within

WINDOW_MAX: Final = 256
"""Intervals over which gains may be added up."""
LINKS_MAX: Final = 1_024
"""Links that a broker may have in its profile."""


class MeshConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the mesh of one broker; those of one network may differ in all but `order`."""

    delta: Annotated[
        int,
        within(1, DELTA_MAX, unit="hops"),
        option(
            "How many hops of the tree around a broker it knows, and may pass by with soft links. "
            "With 1 it knows its neighbours alone, and there is no mesh."
        ),
    ] = 1
    strategy: Annotated[
        Literal["S0", "S1", "S2", "SH"],
        option(
            "Over which links copies travel: S0 sends them to the next broker, S1 one copy to the "
            "last broker before all that want it, S2 copies straight to each; SH is S2, or S1 "
            "while more than 80 % of the uplink is in use, if it is known what that carries (live: "
            "`limits.uplink_bytes`)."
        ),
    ] = "SH"
    order: Annotated[
        Literal["publisher", "none"],
        option(
            "With `publisher`, publications of one publisher arrive in order: those that could "
            "overtake earlier ones are held. With `none`, nothing is held. It must be equal in the "
            "whole network: brokers that greet each other with different values do not connect."
        ),
    ] = "publisher"
    detour_us_max: Annotated[
        Microseconds,
        option(
            'With `order = "publisher"`, how long a publisher whose earlier publications are on '
            "a link before all that want the next ones goes on over that link. Then it is held "
            "until they are confirmed, so that it can take soft links; with 0 it never is."
        ),
    ] = 1_000_000
    bypass_after_us: Annotated[
        Microseconds,
        option(
            "How long the link to a neighbour has to be down before publications for brokers "
            "behind it go round it; with 0 they never do. A broker that takes nothing over a link "
            "round it after as long again counts as dead too. It needs a `delta` above 1."
        ),
    ] = 2_000_000
    fanout: Annotated[
        int,
        within(1, LINKS_MAX),
        option(
            "To how many brokers a broker sends, its neighbours in the tree included. With no more "
            "than it has neighbours, it opens no soft links. Those that others open to it are not "
            "counted."
        ),
    ] = 35
    links_max: Annotated[
        int,
        within(1, LINKS_MAX),
        option(
            "How many links a broker counts publications for: those that it has, and candidates "
            "for soft links, which fill what is left."
        ),
    ] = 70
    interval_us: Annotated[
        Microseconds,
        option(
            "How often a broker decides which soft links to open and to drop; with 0 never: it "
            "opens none by itself."
        ),
    ] = 20_000_000
    window: Annotated[
        int,
        within(1, WINDOW_MAX),
        option("Over how many of the last intervals publications are counted."),
    ] = 6
    gain_min: Annotated[
        Quantity,
        option(
            "A soft link is opened if it would gain at least this much in an interval: "
            "publications times the brokers that each of them passes by."
        ),
    ] = 20
    hysteresis: Annotated[
        float,
        within(1, 100),
        option(
            "With `fanout` reached, a candidate takes the place of a soft link if its gain is "
            "larger by this factor; a soft link is dropped for lack of traffic if its gain is "
            "smaller than `gain_min` by this factor."
        ),
    ] = 1.5
    load_threshold: Annotated[
        Share,
        option(
            "Brokers with a larger load than this, as a share of the largest, count for more when "
            "they are passed by. Loads are known where brokers exchange them."
        ),
    ] = 0.8
    stay_us: Annotated[
        Microseconds,
        option(
            "A soft link is not dropped earlier than this, unless `fanout` is exceeded, and one "
            "that was dropped is not opened again earlier."
        ),
    ] = 60_000_000
    opening_us: Annotated[
        Microseconds,
        option("A soft link over which the other broker takes nothing after this is given up."),
    ] = 10_000_000
    backoff_us: Annotated[
        Microseconds,
        option(
            "A broker whose soft link was given up, refused or lost is left alone for this long; "
            "it doubles with every further time, with random jitter."
        ),
    ] = 30_000_000
    backoff_us_max: Annotated[
        Microseconds, option("The longest time that such a broker is left alone.")
    ] = 1_800_000_000
