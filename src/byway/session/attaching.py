"""How a client gets attached: which broker is dialled and when, and under which incarnation.

It tries the brokers in turn, that of the session first, and waits longer after every round that
failed. It goes on with the same incarnation, so that the broker resumes the session it kept; if the
session was not kept, or another broker answers, it goes on with a higher one. What is sent then is
decided in `client_core`.
"""

from __future__ import annotations

from collections.abc import Callable

from byway.model.bounds import INT64_MAX
from byway.model.messages import Goodbye, Preamble
from byway.session.client_actions import (
    ClientAction,
    ClientTimer,
    CloseConnection,
    Dial,
    DropConnection,
    StartTimer,
    StopTimer,
    TellOpenFailed,
)
from byway.session.client_options import BrokerUrl, ClientOptions


class Attaching:
    """The connections of one client, one at a time."""

    __slots__ = (
        "_connection", "_delay_s", "_failures", "_give_up_us", "_highest", "_is_dismissed",
        "_is_kept", "_is_open", "_jitter", "_options", "_out", "_round", "_tried", "broker",
        "goodbye", "heard", "incarnation", "is_trying", "peer", "reason", "state", "url",
    )  # fmt: skip

    def __init__(
        self,
        options: ClientOptions,
        incarnation: int,
        jitter: Callable[[], float],
        out: list[ClientAction],
    ) -> None:
        self.state = "new"
        """`new`, `connecting`, `attached`, `away` or `closed`."""
        self.reason = ""
        """Why the client is away or closed."""
        self.broker = ""
        """Id of the broker that the session is with."""
        self.url: BrokerUrl | None = None
        """URL of the broker that the session is with."""
        self.incarnation = incarnation
        """Incarnation of the session."""
        self.peer: Preamble | None = None
        """The preamble of the broker that is dialled or connected."""
        self.goodbye: Goodbye | None = None
        """The broker's goodbye, if it closes the connection."""
        self.is_trying = False
        """Whether a connection was dialled and has not attached the client yet."""
        self._options = options
        self._jitter = jitter
        self._out = out
        self._connection = 0
        """Number of the connection that was dialled last."""
        self.heard: int | None = None
        """Number of the connection whose frames are taken. None: there is none, or its peer broke
        the protocol, so that only its loss counts."""
        self._is_open = False
        """Whether the connection that was dialled last may still bring something."""
        self._highest = incarnation
        """The highest incarnation that was tried."""
        self._tried = incarnation
        """The incarnation of this attempt."""
        self._is_kept = True
        """Whether the broker of the session may have kept it."""
        self._round: list[BrokerUrl] = []
        """Brokers still to be tried in this round; the first is being tried."""
        self._failures: list[tuple[str, str]] = []
        """Address and reason, of every broker that failed in this round."""
        self._delay_s = options.retry
        self._give_up_us = 0
        """When the first connection is no longer attempted."""
        self._is_dismissed = False
        """Whether a broker has closed the connection for good."""

    def describe(self) -> str:
        """The state in words, for messages and `repr`."""
        if self.state == "attached":
            return f"attached to {self.broker} at {self.url}"
        return f"{self.state}: {self.reason}" if self.reason else self.state

    def is_current(self, connection: int) -> bool:
        """Whether this connection was dialled last and may still bring something."""
        return self._is_open and connection == self._connection

    @property
    def is_same_incarnation(self) -> bool:
        """Whether the connection goes on with the incarnation of the session."""
        return self._tried == self.incarnation

    # --- the application --------------------------------------------------------------------------

    def open(self, now_us: int) -> None:
        """Begin to connect."""
        self.state = "connecting"
        self._give_up_us = now_us + round(min(self._options.connect_wait * 1e6, INT64_MAX))
        self._try_all(now_us)

    def close(self, reason: str) -> None:
        """Close the connection with a goodbye, and make no other."""
        if self._is_open:
            attached = self.state == "attached"
            self._out.append(
                CloseConnection(reason, for_good=True) if attached else DropConnection(reason)
            )
        self._end(reason)

    def _end(self, reason: str) -> None:
        self.state, self.reason = "closed", reason
        self._is_open = self.is_trying = False
        self.heard = None
        for timer in (ClientTimer.ATTEMPT, ClientTimer.RETRY):
            self._out.append(StopTimer(timer))

    # --- attempts ---------------------------------------------------------------------------------

    def _try_all(self, now_us: int) -> None:
        """Try every broker once, that of the session first."""
        urls = list(self._options.urls)
        if self.url is not None:
            at = urls.index(self.url)
            urls = urls[at:] + urls[:at]
        self._round, self._failures = urls, []
        self._try_next(now_us)

    def _try_next(self, now_us: int) -> None:
        resumes = self.url is None or (self._is_kept and self.url == self._round[0])
        self._dial(now_us, self.incarnation if resumes else self._new_incarnation(now_us))

    def _new_incarnation(self, now_us: int) -> int:
        self._highest = max(self._highest + 1, now_us)
        return self._highest

    def _dial(self, now_us: int, incarnation: int) -> None:
        self._connection += 1
        self._tried, self.peer, self.goodbye = incarnation, None, None
        self._is_open = self.is_trying = True
        self.heard = self._connection
        timeout_us = round(min(self._options.connect_timeout * 1e6, INT64_MAX))
        self._out.append(StartTimer(ClientTimer.ATTEMPT, now_us + timeout_us))
        self._out.append(Dial(self._connection, self._round[0], incarnation))

    def start_anew(self, now_us: int) -> None:
        """The broker has not kept the session: connect to it under a new incarnation. The broker
        may attach that and the client not learn of it, so the old one is never tried again."""
        self._is_kept = False
        self._out.append(CloseConnection("the session was not kept: a new one is started"))
        self._dial(now_us, self._new_incarnation(now_us))

    def attached(self) -> Preamble:
        """The broker has attached the client. Returns its preamble."""
        assert self.peer is not None
        self.broker, self.url, self.incarnation = self.peer.name, self._round[0], self._tried
        self.state, self.reason = "attached", ""
        self.is_trying, self._is_kept = False, True
        self._out.append(StopTimer(ClientTimer.ATTEMPT))
        return self.peer

    def refuse(self, reason: str) -> None:
        """The peer breaks the protocol: close the connection, and take no more frames of it."""
        self.heard = None
        self._out.append(CloseConnection(reason))

    # --- failures ---------------------------------------------------------------------------------

    def on_attempt_over(self, now_us: int) -> None:
        """An attempt takes too long: drop it."""
        reason = f"no answer within {self._options.connect_timeout:g} s"
        self._out.append(DropConnection(reason))
        self._failed(now_us, reason)

    def on_lost(self, now_us: int, reason: str) -> None:
        """The connection was lost: try the next broker, or reconnect after a while."""
        if self.goodbye is not None:
            reason = self.goodbye.reason or "the broker said goodbye"
            self._is_dismissed = self.goodbye.for_good
        if self.is_trying:
            self._out.append(StopTimer(ClientTimer.ATTEMPT))
            self._failed(now_us, reason)
            return
        self._is_open = False
        self.heard = None
        self.state, self.reason = "away", reason
        self._delay_s = self._options.retry
        self._reconnect(now_us)

    def _failed(self, now_us: int, reason: str) -> None:
        self._is_open = self.is_trying = False
        self.heard = None
        self._failures.append((self._round[0].text, reason))
        self._round = self._round[1:]
        if self._round and not self._is_dismissed:
            self._try_next(now_us)
        elif self.state == "connecting":
            if self._is_dismissed or now_us >= self._give_up_us:
                self._end("it could not connect")
                self._out.append(TellOpenFailed(tuple(self._failures)))
            else:
                self._back_off(now_us)
        else:
            self.reason = "; ".join(f"{url}: {reason}" for url, reason in self._failures)
            self._reconnect(now_us)

    def _reconnect(self, now_us: int) -> None:
        if self._is_dismissed or not self._options.reconnect:
            self._end(self.reason)
        else:
            self._back_off(now_us)

    def _back_off(self, now_us: int) -> None:
        """Wait for a random part of the delay; the next one is twice as long."""
        wait_us = round(min(self._delay_s * self._jitter() * 1e6, INT64_MAX))
        self._delay_s = min(2 * self._delay_s, self._options.retry_max)
        self._out.append(StartTimer(ClientTimer.RETRY, now_us + wait_us))

    def on_retry(self, now_us: int) -> None:
        """The time between two rounds is over."""
        self._try_all(now_us)
