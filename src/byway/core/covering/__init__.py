"""Covering policies: which subscriptions are sent on over which link. One file each."""

from byway.core.broker_config import BrokerConfig
from byway.core.covering.active import Active
from byway.core.covering.incremental import Incremental
from byway.core.covering.lazy import Lazy
from byway.core.covering.merging import add_on_for
from byway.core.covering.none import NoCovering
from byway.core.covering.packing import Packing
from byway.core.covering.policy import Covering, ForwardingOps, Withdrawals
from byway.core.covering.selective import Selective

POLICIES: dict[str, type[Covering]] = {
    policy.name: policy for policy in (NoCovering, Active, Lazy, Packing, Incremental, Selective)
}


def make_policy(ops: ForwardingOps, config: BrokerConfig) -> Covering:
    """The policy that a configuration names; merging extends any that quenches subscriptions."""
    policy = POLICIES[config.covering](ops, config)
    if isinstance(policy, Active):
        policy.extend(add_on_for(policy))
    return policy


__all__ = ["POLICIES", "Covering", "ForwardingOps", "Withdrawals", "make_policy"]
