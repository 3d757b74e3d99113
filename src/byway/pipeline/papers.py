"""The papers that reports name, and the covering policies that their measurements compare."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Paper(StrEnum):
    """A paper, by its title; docs/reference/papers.md lists all that byway is made after."""

    MULTIPATH = "Opportunistic Multipath Forwarding in Content-Based Publish/Subscribe Overlays"
    PLACEMENT = "Publisher Placement Algorithms in Content-Based Publish/Subscribe"
    INCREMENTAL = (
        "Congestion Avoidance with Incremental Filter Aggregation in Content-Based Routing Networks"
    )
    SELECTIVE = (
        "Congestion Avoidance with Selective Filter Aggregation in Content-Based Routing Networks"
    )

    @property
    def authors(self) -> str:
        """The authors, as the paper lists them."""
        return _AUTHORS[self]


_AUTHORS: Final = {
    Paper.MULTIPATH: "Reza Sherafat Kazemzadeh and Hans-Arno Jacobsen",
    Paper.PLACEMENT: "Alex King Yeung Cheung and Hans-Arno Jacobsen",
    Paper.INCREMENTAL: "Mingwen Chen, Songlin Hu, Vinod Muthusamy and Hans-Arno Jacobsen",
    Paper.SELECTIVE: (
        "Mingwen Chen, Songlin Hu, Vinod Muthusamy, Hans-Arno Jacobsen and Zhiyong Liu"
    ),
}

POLICIES_IN_A_LINE: Final = {
    "none": "A broker forwards every subscription, whether another one covers it or not.",
    "active": "A broker forwards only subscriptions that no other one covers; when a covering one "
    "ends, it forwards at once all that only this one covered.",
    "lazy": "As active, but a broker leaves narrow subscriptions in place when a broader one "
    "arrives, so fewer are missing when the broad one ends.",
    "packing": "As active, but the subscriptions that are released travel together, up to a "
    "thousand in one message.",
    "incremental": "As active, but an unsubscription that would release many stops at a "
    "broker where others want nearly the same publications.",
    "selective": "As active, but an unsubscription that would release many may stop at a broker "
    "where others want nearly the same publications; the subscriber's home broker decides.",
}
"""By policy, what it does, in one sentence."""
