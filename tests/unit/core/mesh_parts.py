"""What a broker knows of the mesh, for tests that look at it from outside the core."""

from byway.core.broker import Broker
from byway.core.covering.statistics import Row
from byway.core.mesh.mesh_behaviour import Mesh


def mesh_of(broker: Broker) -> Mesh:
    """The behaviour of a broker with a mesh."""
    found = broker.behaviours["mesh"]
    assert isinstance(found, Mesh)
    return found


def take_statistics(broker: Broker, client: str, now_us: int) -> list[Row]:
    """What a broker has recorded for the one subscription of a local client, which it forgets."""
    routing = broker.context.routing
    (entry,) = (entry for entry in routing.subscriptions if entry.id.client == client)
    statistics = routing.policy.statistics
    assert statistics is not None
    return statistics.take(entry.key, now_us)
