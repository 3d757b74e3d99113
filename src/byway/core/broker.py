"""The broker: inputs in, actions out.

`Broker.handle` is the whole contract. This file dispatches, keeps the links' ends and collects what
has to be sent; the routing rules are in `routing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from byway.core.actions import Action, Send, Tell
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkDown,
    LinkUp,
)
from byway.core.links import LinkEnd
from byway.core.routing import Router
from byway.model.errors import RemoteProtocolError
from byway.model.messages import LANE_OF, Acknowledge, Batch, Confirm, Hello, Lane, Message, Reply


class Outgoing:
    """What one call of `handle` wants sent, collected per link and lane, and per client."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[list[Message], list[Message]]] = {}
        self.replies: dict[str, list[Reply]] = {}

    def send(self, link: str, message: Message) -> None:
        """Send a message over a link, on the lane that is its own."""
        lanes = self.messages.get(link)
        if lanes is None:
            lanes = self.messages[link] = ([], [])
        lanes[LANE_OF[type(message)]].append(message)

    def tell(self, client: str, reply: Reply) -> None:
        """Give a client a reply."""
        self.replies.setdefault(client, []).append(reply)


class Broker:
    """One broker, without I/O, clock or chance."""

    def __init__(self, name: str, neighbours: tuple[str, ...] = (), incarnation: int = 1) -> None:
        self.name = name
        self.ends = {peer: LinkEnd(name, peer, incarnation) for peer in sorted(neighbours)}
        self.router = Router(self.ends)
        self._handlers: dict[type, Callable[[Any, Outgoing], list[Action]]] = {
            FrameReceived: self._on_frame,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            ClientAttached: self._on_client_attached,
            ClientDetached: self._on_client_detached,
            ClientRequested: self._on_client_requested,
        }

    def __repr__(self) -> str:
        return (
            f"<Broker {self.name}: {len(self.ends)} links, {len(self.router.adverts)} "
            f"advertisements, {len(self.router.subscriptions)} subscriptions>"
        )

    def handle(self, now_us: int, event: Input) -> list[Action]:
        """Take one input; what is to be done about it."""
        self.router.now_us = now_us
        out = Outgoing()
        first = self._handlers[type(event)](event, out)
        return first + self._flush(out)

    # --- links ---------------------------------------------------------------------------------

    def _end(self, link: str) -> LinkEnd:
        end = self.ends.get(link)
        if end is None:
            raise RemoteProtocolError(link, f"is no neighbour of {self.name}")
        return end

    def _on_link_up(self, event: LinkUp, out: Outgoing) -> list[Action]:
        end = self._end(event.link)
        meeting = end.meet(event.hello)
        if not meeting.resumed:
            self.router.neighbour_came(event.link, meeting.orphans, out)
        return [Send(event.link, batch) for batch in meeting.again]

    def _on_link_down(self, event: LinkDown, out: Outgoing) -> list[Action]:
        del out
        self._end(event.link).lost()
        return []

    def _on_frame(self, event: FrameReceived, out: Outgoing) -> list[Action]:
        end, frame = self._end(event.link), event.frame
        if isinstance(frame, Batch):
            first, messages = end.take(frame)
            for number, message in enumerate(messages, first):
                if isinstance(message, Confirm):
                    self.router.confirmed(event.link, message.number, out)
                else:
                    self.router.take(event.link, number, message, out)
            return [Send(event.link, end.acknowledgement())]
        if isinstance(frame, Acknowledge):
            end.received(frame)
            return []
        assert isinstance(frame, Hello)
        raise RemoteProtocolError(event.link, "greets twice")

    def _flush(self, out: Outgoing) -> list[Action]:
        """Frames for what was collected. Neighbours and clients in the order of their names."""
        actions: list[Action] = []
        for link, end in self.ends.items():
            due = end.window.due()
            if due is not None:
                out.send(link, Confirm(due))
            for lane, messages in zip(Lane, out.messages.get(link, ((), ())), strict=True):
                batch = end.post(lane, messages) if messages else None
                if batch is not None:
                    actions.append(Send(link, batch))
        actions += [Tell(client, tuple(out.replies[client])) for client in sorted(out.replies)]
        return actions

    # --- clients -------------------------------------------------------------------------------

    def _on_client_attached(self, event: ClientAttached, out: Outgoing) -> list[Action]:
        self.router.attach(event.client, event.incarnation, out)
        return []

    def _on_client_detached(self, event: ClientDetached, out: Outgoing) -> list[Action]:
        self.router.detach(event.client, out)
        return []

    def _on_client_requested(self, event: ClientRequested, out: Outgoing) -> list[Action]:
        for request in event.requests:
            self.router.request(event.client, request, out)
        return []
