"""The mesh: what a broker knows of the brokers near it, and which links a publication takes there.

`NeighbourhoodRecords` collects what brokers say of themselves; `OverlayMaps` computes, from the
primary tree near a broker and its links, where copies go.
"""

from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.overlay_maps import OverlayMaps
from byway.core.mesh.records import NeighbourhoodRecords, RecordsState
from byway.core.mesh.working_map import Strategy, WorkingMap

__all__ = [
    "MasterMap",
    "NeighbourhoodRecords",
    "OverlayMaps",
    "RecordsState",
    "Strategy",
    "WorkingMap",
]
