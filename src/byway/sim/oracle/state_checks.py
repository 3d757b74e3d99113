"""Checks of a broker that starts from its disk: it must have the state that storage promises.

After a crash that is the last state, byte for byte. Where a state may be older, or is lost, the
broker must say so by a new incarnation: neighbours and clients would resume with it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from byway.core.broker import Broker
from byway.sim.engine.node_storage import KeptState


def state_faults(before: Broker, after: Broker, kept: KeptState, *, exact: bool) -> Iterator[str]:
    """The faults of a broker that has started, in sentences: `before` is the one that crashed, and
    `kept` what the new one must find. `exact`: it knows nothing that `before` had not handled."""
    resumes = after.incarnation == before.incarnation
    if kept is KeptState.LAST:
        if not resumes:
            yield f"{after.name} has lost its last state"
        elif exact and after.snapshot() != _restarted(before):
            yield f"{after.name} has started with a state that is not its last one"
    elif resumes:
        yield f"{after.name} takes {kept.value} for its last one"


def _restarted(broker: Broker) -> bytes:
    """The state of a broker after a restart that loses nothing."""
    return Broker.restore(broker.snapshot(), broker.config).snapshot()
