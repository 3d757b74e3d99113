"""What one call of `handle` wants done, collected until its end.

Messages are gathered per link and lane so that each link gets one frame a lane, whatever the number
of inputs.
"""

from __future__ import annotations

from byway.core.actions import Action
from byway.model.messages import CONTROL, DATA, LANE_OF, EntryId, Message, Publish, Reply


class Outgoing:
    """Messages by link and lane, replies by client, and actions that are neither."""

    __slots__ = (
        "actions",
        "answers",
        "confirming",
        "has_other_data",
        "messages",
        "opening",
        "replies",
        "touched",
    )

    def __init__(self) -> None:
        self.messages: dict[str, tuple[list[Message], list[Message]]] = {}
        self.replies: dict[str, list[Reply]] = {}
        self.touched: dict[str, None] = {}
        """Links that may have something to acknowledge."""
        self.confirming: dict[str, None] = {}
        """Clients that published, or may have publications confirmed."""
        self.opening: dict[str, None] = {}
        """Links whose peer takes data from now on."""
        self.answers: dict[str, list[EntryId]] = {}
        """By link, subscriptions of its that are settled: one message for all."""
        self.actions: list[Action] = []
        self.has_other_data = False
        """Whether not all messages on data lanes are publications."""

    def send(self, link: str, message: Message) -> None:
        """Send a message over a link, on the lane that is its own."""
        lanes = self.messages.get(link)
        if lanes is None:
            lanes = self.messages[link] = ([], [])
        lane = LANE_OF[type(message)]
        lanes[lane].append(message)
        if lane is DATA:
            self.has_other_data = True

    def send_publication(self, link: str, message: Publish) -> None:
        """Send a publication over a link, as `send` would; it is the most frequent message."""
        lanes = self.messages.get(link)
        if lanes is None:
            lanes = self.messages[link] = ([], [])
        lanes[1].append(message)

    def answer(self, link: str, id: EntryId) -> None:
        """Tell a neighbour that a subscription of its is settled, or has ended."""
        self.answers.setdefault(link, []).append(id)

    def tell(self, client: str, reply: Reply) -> None:
        """Send a client a reply."""
        replies = self.replies.get(client)
        if replies is None:
            self.replies[client] = [reply]
        else:
            replies.append(reply)

    def do(self, action: Action) -> None:
        """Add an action that is neither a message nor a reply."""
        self.actions.append(action)

    def forget_link(self, link: str) -> None:
        """Send nothing over a link that earlier inputs of the same batch wanted sent."""
        for collected in (self.messages, self.answers, self.touched, self.opening):
            collected.pop(link, None)

    def forget_control(self, link: str) -> None:
        """Send no control messages over a link that earlier inputs of the same batch wanted sent,
        and no data yet: its tables are compared anew."""
        lanes = self.messages.get(link)
        if lanes is not None:
            lanes[CONTROL].clear()
        self.answers.pop(link, None)
        self.opening.pop(link, None)
