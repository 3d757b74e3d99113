"""What one call of `handle` wants done, collected until its end.

Control messages are gathered per link, so that each link gets one frame of them, whatever the
number of inputs. Copies of data messages are gathered where they are kept, in `copies`.
"""

from __future__ import annotations

import msgspec

from byway.core.actions import Action
from byway.model.messages import EntryId, Message, Reply


class Outgoing(msgspec.Struct, eq=False, gc=False):
    """Control messages by link, replies by client, and actions that are neither."""

    messages: dict[str, list[Message]] = {}
    """By link, control messages."""
    replies: dict[str, list[Reply]] = {}
    touched: dict[str, None] = {}
    """Links that have new copies, or may have something to acknowledge."""
    confirming: dict[str, None] = {}
    """Clients that published, or may have publications confirmed."""
    opening: dict[str, None] = {}
    """Links whose peer takes data from now on."""
    answers: dict[str, list[EntryId]] = {}
    """By link, subscriptions of its that are settled: one message for all."""
    actions: list[Action] = []
    has_other_data: bool = False
    """Whether not all new copies are publications."""

    def send(self, link: str, message: Message) -> None:
        """Send a control message over a link."""
        messages = self.messages.get(link)
        if messages is None:
            self.messages[link] = [message]
        else:
            messages.append(message)

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
        self.messages.pop(link, None)
        self.answers.pop(link, None)
        self.opening.pop(link, None)
