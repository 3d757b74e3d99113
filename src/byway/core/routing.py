"""Routing over an acyclic overlay: who is told of what, and where a publication goes.

Advertisements flood; a subscription travels towards neighbours that an intersecting advertisement
came from, also when that comes later; publications follow matching subscriptions back. Taking
something back undoes exactly what was done. A copy is confirmed to where it came from once every
copy made of it is confirmed.

Every Subscribe is answered once, when it is settled or has ended. A neighbour that comes back as
another incarnation is told all advertisements again; what it had told is forgotten first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway.core.links import LinkEnd, Window
from byway.core.tables import Entry, LinkNumbers, Origin, Table
from byway.model import Filter, conforms
from byway.model.errors import BywayError, RemoteProtocolError
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertiseRequest,
    Body,
    Delivery,
    EntryId,
    Message,
    PublicationsConfirmed,
    Publish,
    PublishRequest,
    Refused,
    Request,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.model.values import check_attributes

if TYPE_CHECKING:
    from byway.core.broker import Outgoing

HOPS_MAX: Final = 255
"""A publication that travelled further is dropped: a cycle wired by mistake stays harmless."""

_decode = msgspec.msgpack.Decoder(Body).decode


class Pending(msgspec.Struct):
    """A data message that waits for its copies to be confirmed."""

    link: str | None
    number: int
    """Of the link's lane, or the client's sequence."""
    client: str
    left: int


class Client(msgspec.Struct):
    """A client of this broker and what it holds, by the names it gave."""

    name: str
    incarnation: int
    adverts: dict[str, EntryId] = msgspec.field(default_factory=dict)
    subscriptions: dict[str, EntryId] = msgspec.field(default_factory=dict)
    sequence: int = 0
    counter: int = 0
    window: Window = msgspec.field(default_factory=Window)


class Router:
    """Tables, clients and unconfirmed copies of one broker."""

    def __init__(self, ends: Mapping[str, LinkEnd]) -> None:
        self.now_us = 0
        self.ends = ends
        self.numbers = LinkNumbers()
        self.adverts = Table(self.numbers)
        self.subscriptions = Table(self.numbers)
        self.clients: dict[str, Client] = {}
        self.unconfirmed: dict[str, deque[Pending]] = {link: deque() for link in ends}
        self._takers: dict[type, Callable[[str, Any, Outgoing], None]] = {
            Advertise: self._on_advertise,
            AdvertisementSettled: self._on_advertisement_settled,
            Subscribe: self._on_subscribe,
            SubscriptionsSettled: self._on_subscriptions_settled,
            Unsubscribe: self._on_unsubscribe,
        }
        self._requests: dict[type, Callable[[Client, Any, Outgoing], None]] = {
            AdvertiseRequest: self._advertise_for,
            UnadvertiseRequest: self._unadvertise_for,
            SubscribeRequest: self._subscribe_for,
            UnsubscribeRequest: self._unsubscribe_for,
            PublishRequest: self._publish_for,
        }

    # --- from neighbours -----------------------------------------------------------------------

    def neighbour_came(self, link: str, orphans: Sequence[Message], out: Outgoing) -> None:
        """A neighbour that holds nothing of us: forget what it said, tell it what it must know."""
        for entry in [e for e in self.subscriptions if e.origin.link == link]:
            self._end_subscriptions([entry], out)
        for entry in [e for e in self.adverts if e.origin.link == link]:
            self._end_advert(entry, Pending(None, 0, "", 0), out)
        for entry in self.subscriptions:
            entry.forwarded.discard(link)
            entry.awaiting.pop(link, None)
            self._subscription_settled(entry, out)
        for entry in self.adverts:
            entry.forwarded.add(link)
            entry.awaiting[link] = 1
            out.send(link, Advertise(entry.id, entry.filter))
        for message in orphans:  # still waited for, in the same order
            out.send(link, message)

    def take(self, link: str, number: int, message: Message, out: Outgoing) -> None:
        """A message from a neighbour; `number` is its place in the lane."""
        if isinstance(message, Publish):
            self._on_publish(link, number, message, out)
        elif isinstance(message, Unadvertise):
            self._on_unadvertise(link, number, message, out)
        else:
            self._takers[type(message)](link, message, out)

    def confirmed(self, link: str, number: int, out: Outgoing) -> None:
        """A neighbour confirms what we sent up to `number`."""
        waiting = self.unconfirmed[link]
        for _ in range(self.ends[link].confirmed(number)):
            self._copy_confirmed(waiting.popleft(), out)

    def _on_advertise(self, link: str, message: Advertise, out: Outgoing) -> None:
        if self.adverts.get(message.id) is not None:
            raise RemoteProtocolError(link, f"advertises {message.id} again")
        self._begin_advert(message.id, message.filter, Origin(link), out)

    def _on_advertisement_settled(
        self, link: str, message: AdvertisementSettled, out: Outgoing
    ) -> None:
        entry = self.adverts.get(message.id)
        if entry is not None:  # it may have ended meanwhile
            entry.awaiting.pop(link, None)
            self._advert_settled(entry, out)

    def _on_subscribe(self, link: str, message: Subscribe, out: Outgoing) -> None:
        if self.subscriptions.get(message.id) is not None:
            raise RemoteProtocolError(link, f"subscribes {message.id} again")
        self._begin_subscription(message.id, message.filter, Origin(link), out)

    def _on_subscriptions_settled(
        self, link: str, message: SubscriptionsSettled, out: Outgoing
    ) -> None:
        for id in message.ids:
            entry = self.subscriptions.get(id)
            if entry is not None:
                self._answered(entry, link)
                self._subscription_settled(entry, out)

    def _on_unsubscribe(self, link: str, message: Unsubscribe, out: Outgoing) -> None:
        entries = [self._known(self.subscriptions, link, id) for id in message.ids]
        self._end_subscriptions(entries, out)

    def _on_unadvertise(self, link: str, number: int, message: Unadvertise, out: Outgoing) -> None:
        pending = Pending(link, number, "", 1)  # one more than its copies, until all are made
        for id in message.ids:
            self._end_advert(self._known(self.adverts, link, id), pending, out)
        self._copy_confirmed(pending, out)

    def _known(self, table: Table, link: str, id: EntryId) -> Entry:
        entry = table.get(id)
        if entry is None or entry.origin.link != link:
            raise RemoteProtocolError(link, f"takes back {id}, which it did not send")
        return entry

    # --- advertisements ------------------------------------------------------------------------

    def _begin_advert(self, id: EntryId, filter: Filter, origin: Origin, out: Outgoing) -> None:
        entry = self.adverts.add(id, filter, origin)
        for link in self.ends:
            if link != origin.link:
                entry.forwarded.add(link)
                out.send(link, Advertise(id, filter))
        entry.awaiting = dict.fromkeys(entry.forwarded, 1)
        if origin.link is not None:
            wanted = self.subscriptions.index.intersecting(filter).tolist()
            for subscription in self.subscriptions.by_keys(wanted):
                if subscription.origin.link != origin.link:
                    self._forward(subscription, origin.link, out)
        self._advert_settled(entry, out)

    def _advert_settled(self, entry: Entry, out: Outgoing) -> None:
        if entry.settled or entry.awaiting:
            return
        entry.settled = True
        if entry.origin.link is not None:
            out.send(entry.origin.link, AdvertisementSettled(entry.id))
        else:
            out.tell(entry.origin.client, Settled(entry.id.name))

    def _end_advert(self, entry: Entry, pending: Pending, out: Outgoing) -> None:
        self.adverts.remove(entry)
        for link in sorted(entry.forwarded):
            pending.left += 1
            self.unconfirmed[link].append(pending)
            out.send(link, Unadvertise((entry.id,)))
        if entry.origin.link is not None:
            self._withdraw_idle(entry.origin.link, entry.filter, out)

    def _withdraw_idle(self, link: str, filter: Filter, out: Outgoing) -> None:
        """Take back subscriptions that went to `link` for an advertisement that is gone."""
        touched = self.subscriptions.index.intersecting(filter).tolist()
        idle = []
        for entry in self.subscriptions.by_keys(touched):
            if link in entry.forwarded and link not in self._leads(entry.filter):
                entry.forwarded.discard(link)  # its answer still comes
                idle.append(entry.id)
        if idle:
            out.send(link, Unsubscribe(tuple(idle)))

    # --- subscriptions -------------------------------------------------------------------------

    def _leads(self, filter: Filter) -> set[str]:
        """Neighbours that an advertisement came from which may feed the filter."""
        keys = self.adverts.index.intersecting_advertisements(filter).tolist()
        return {e.origin.link for e in self.adverts.by_keys(keys) if e.origin.link is not None}

    def _begin_subscription(
        self, id: EntryId, filter: Filter, origin: Origin, out: Outgoing
    ) -> None:
        entry = self.subscriptions.add(id, filter, origin)
        for link in sorted(self._leads(filter)):
            if link != origin.link:
                self._forward(entry, link, out)
        self._subscription_settled(entry, out)

    def _forward(self, entry: Entry, link: str, out: Outgoing) -> None:
        if link not in entry.forwarded:
            entry.forwarded.add(link)
            entry.awaiting[link] = entry.awaiting.get(link, 0) + 1
            out.send(link, Subscribe(entry.id, entry.filter))

    def _answered(self, entry: Entry, link: str) -> None:
        """A link has one answer less to give."""
        left = entry.awaiting.pop(link, 1) - 1
        if left:
            entry.awaiting[link] = left

    def _subscription_settled(self, entry: Entry, out: Outgoing) -> None:
        if entry.settled or entry.awaiting:
            return
        entry.settled = True
        if entry.origin.link is not None:
            out.send(entry.origin.link, SubscriptionsSettled((entry.id,)))
        else:
            out.tell(entry.origin.client, Settled(entry.id.name))

    def _end_subscriptions(self, entries: Sequence[Entry], out: Outgoing) -> None:
        """Forget entries; each neighbour gets one message for all that it was sent."""
        ended: dict[str, list[EntryId]] = {}
        for entry in entries:
            self.subscriptions.remove(entry)
            for link in entry.forwarded:
                ended.setdefault(link, []).append(entry.id)
            if entry.origin.link is not None and not entry.settled:
                out.send(entry.origin.link, SubscriptionsSettled((entry.id,)))
        for link in sorted(ended):
            out.send(link, Unsubscribe(tuple(ended[link])))

    # --- publications --------------------------------------------------------------------------

    def _on_publish(self, link: str, number: int, message: Publish, out: Outgoing) -> None:
        pending = Pending(link, number, "", 1)
        if message.hop < HOPS_MAX:
            attributes = _decode(message.body).attributes
            exclude = self.numbers.number(link)
            self._route(message, attributes, exclude, pending, out)
        self._copy_confirmed(pending, out)

    def _route(
        self,
        message: Publish,
        attributes: Mapping[str, Any],
        exclude: int | None,
        pending: Pending,
        out: Outgoing,
    ) -> None:
        mask, several, local = self.subscriptions.index.match_routes(attributes, exclude)
        if mask:
            distance = 1 if several else message.distance + 1
            onward = msgspec.structs.replace(message, hop=message.hop + 1, distance=distance)
            for link in self.numbers.links(mask):
                pending.left += 1
                self.unconfirmed[link].append(pending)
                out.send(link, onward)
        if len(local):
            names: dict[str, list[str]] = {}
            for entry in self.subscriptions.by_keys(sorted(local.tolist())):
                names.setdefault(entry.origin.client, []).append(entry.id.name)
            for client, matching in names.items():
                out.tell(client, Delivery(message, tuple(matching)))

    def _copy_confirmed(self, pending: Pending, out: Outgoing) -> None:
        pending.left -= 1
        if pending.left:
            return
        if pending.link is not None:
            self.ends[pending.link].window.finish(pending.number)
            return
        client = self.clients.get(pending.client)
        if client is not None and pending.number:
            client.window.finish(pending.number)
            due = client.window.due()
            if due is not None:
                out.tell(client.name, PublicationsConfirmed(due))

    # --- clients -------------------------------------------------------------------------------

    def attach(self, name: str, incarnation: int, out: Outgoing) -> None:
        """A client is here; what an earlier incarnation left is removed."""
        if name in self.clients:
            self.detach(name, out)
        self.clients[name] = Client(name, incarnation)

    def detach(self, name: str, out: Outgoing) -> None:
        """A client is gone: as if it had taken back everything."""
        client = self.clients.pop(name, None)
        if client is None:
            return
        entries = [self.subscriptions.get(id) for id in client.subscriptions.values()]
        self._end_subscriptions([e for e in entries if e is not None], out)
        for id in client.adverts.values():
            entry = self.adverts.get(id)
            if entry is not None:
                self._end_advert(entry, Pending(None, 0, "", 0), out)

    def request(self, name: str, request: Request, out: Outgoing) -> None:
        """A client asks for something."""
        client = self.clients.get(name)
        if client is None:
            out.tell(name, Refused("", "not attached"))
            return
        self._requests[type(request)](client, request, out)

    def _new_id(self, client: Client, name: str) -> EntryId:
        client.counter += 1
        return EntryId(client.name, name, (client.incarnation << 32) + client.counter)

    def _advertise_for(self, client: Client, request: AdvertiseRequest, out: Outgoing) -> None:
        if request.name in client.adverts:
            out.tell(client.name, Refused(request.name, "this name advertises already"))
            return
        id = client.adverts[request.name] = self._new_id(client, request.name)
        self._begin_advert(id, request.filter, Origin(client=client.name), out)

    def _unadvertise_for(self, client: Client, request: UnadvertiseRequest, out: Outgoing) -> None:
        id = client.adverts.pop(request.name, None)
        entry = None if id is None else self.adverts.get(id)
        if entry is None:
            out.tell(client.name, Refused(request.name, "no advertisement has this name"))
            return
        self._end_advert(entry, Pending(None, 0, "", 0), out)

    def _subscribe_for(self, client: Client, request: SubscribeRequest, out: Outgoing) -> None:
        """A name in use gets the new filter in place: the new one comes, then the old goes."""
        old = client.subscriptions.get(request.name)
        id = client.subscriptions[request.name] = self._new_id(client, request.name)
        self._begin_subscription(id, request.filter, Origin(client=client.name), out)
        entry = None if old is None else self.subscriptions.get(old)
        if entry is not None:
            self._end_subscriptions([entry], out)

    def _unsubscribe_for(self, client: Client, request: UnsubscribeRequest, out: Outgoing) -> None:
        entries = []
        for name in request.names:
            id = client.subscriptions.pop(name, None)
            entry = None if id is None else self.subscriptions.get(id)
            if entry is None:
                out.tell(client.name, Refused(name, "no subscription has this name"))
            else:
                entries.append(entry)
        self._end_subscriptions(entries, out)

    def _publish_for(self, client: Client, request: PublishRequest, out: Outgoing) -> None:
        if request.sequence != client.sequence + 1:
            expected = f"expected sequence {client.sequence + 1}"
            out.tell(client.name, Refused(str(request.sequence), expected))
            return
        client.sequence = request.sequence
        pending = Pending(None, request.sequence, client.name, 1)
        reason, attributes = self._admissible(client, request.body)
        if reason is not None:
            out.tell(client.name, Refused(str(request.sequence), reason))
        else:
            message = Publish(
                client.name, client.incarnation, request.sequence, self.now_us, 0, 0, 0,
                request.body,
            )  # fmt: skip
            self._route(message, attributes, None, pending, out)
        self._copy_confirmed(pending, out)

    def _admissible(self, client: Client, body: bytes) -> tuple[str | None, Mapping[str, Any]]:
        """Why a publication is refused, if it is, and its attributes."""
        try:
            attributes = _decode(body).attributes
            check_attributes(attributes)
        except (msgspec.DecodeError, BywayError) as error:
            return str(error), {}
        for id in client.adverts.values():
            entry = self.adverts.get(id)
            if entry is not None and conforms(attributes, entry.filter):
                return None, attributes
        return "it conforms to no advertisement of this client", attributes
