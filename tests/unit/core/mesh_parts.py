"""The mesh of a broker, for tests that look at its links from outside the core."""

from byway.core.broker import Broker
from byway.core.mesh.mesh_behaviour import Mesh


def mesh_of(broker: Broker) -> Mesh:
    """The behaviour of a broker with a mesh."""
    found = broker.behaviours["mesh"]
    assert isinstance(found, Mesh)
    return found
