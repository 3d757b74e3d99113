"""Discards: inputs that the broker could not handle, and that an operator gave up.

They count as received and finished, so that whoever sent them goes on; nothing else follows.
"""

from __future__ import annotations

from typing import Final

from byway.core.clients import Clients
from byway.core.context import Context
from byway.core.in_flight import InFlight
from byway.core.inputs import MessageDiscarded, RequestDiscarded
from byway.core.neighbours import Neighbours
from byway.core.publications import Publications
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    DATA,
    DeliveriesReceived,
    Publish,
    PublishRequest,
    Refused,
    RoutesRequest,
    UnsubscribeRequest,
)
from byway.model.trace_schema import DropReason

GIVEN_UP: Final = "the broker could not handle it, and an operator gave it up"


class Discards:
    """The discarded inputs of one broker."""

    def __init__(
        self,
        context: Context,
        neighbours: Neighbours,
        clients: Clients,
        publications: Publications,
    ) -> None:
        self._context = context
        self._neighbours = neighbours
        self._clients = clients
        self._publications = publications

    def on_message(self, event: MessageDiscarded) -> None:
        """Count messages of a neighbour as received, and those of the data lane as finished."""
        link, batch = event.link, event.batch
        try:
            end = self._neighbours.end(link)
            if not end.up:
                return  # of a connection that was closed
            first, messages = end.take(batch)
        except RemoteProtocolError as error:
            self._neighbours.distrust(link, error)
            return
        self._context.out.touched[link] = None
        for number, message in enumerate(messages, first):
            if batch.lane is not DATA:
                continue
            if type(message) is Publish:
                self._publications.drop(message, DropReason.DISCARDED, link)
            self._context.finish(InFlight(end.window, number, link, "", 1))

    def on_request(self, event: RequestDiscarded) -> None:
        """Refuse a client's request."""
        client, request = self._clients.sessions.get(event.client), event.request
        out = self._context.out
        if client is None:
            out.tell(event.client, Refused("", "not attached"))
        elif type(request) is PublishRequest:
            self._publications.discard(client, request, GIVEN_UP)
        elif isinstance(request, UnsubscribeRequest):
            for name in request.names:
                out.tell(client.name, Refused(name, GIVEN_UP))
        elif not isinstance(request, DeliveriesReceived | RoutesRequest):
            assert not isinstance(request, PublishRequest)
            out.tell(client.name, Refused(request.name, GIVEN_UP))
