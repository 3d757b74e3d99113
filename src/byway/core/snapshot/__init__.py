"""A broker's whole state as bytes, and back.

Restored from it, a broker goes on as if nothing had happened: links resume by number, sessions and
unconfirmed publications are there. `state` is the layout, `taking` and `restoring` are the two
ways, `older_layouts` converts what earlier versions wrote.
"""

from byway.core.snapshot.restoring import restore
from byway.core.snapshot.state import VERSION, BrokerState, EntryState, read
from byway.core.snapshot.taking import all_in_flight, take

__all__ = ["VERSION", "BrokerState", "EntryState", "all_in_flight", "read", "restore", "take"]
