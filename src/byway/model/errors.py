"""Every error byway raises on purpose, with the facts a person needs to act on it.

This file knows nothing but text and numbers: it imports no filter, frame or configuration type.
"""

from __future__ import annotations


class BywayError(Exception):
    """Base of all errors that byway raises on purpose."""


class FilterError(BywayError, ValueError):
    """A filter that cannot be accepted."""


class FilterSyntaxError(FilterError):
    """A filter text that does not follow the grammar.

    `position` counts characters from 0; `expected` says what would have been accepted there.
    """

    def __init__(self, text: str, position: int, expected: str, found: str | None = None) -> None:
        self.text = text
        self.position = position
        self.expected = expected
        self.found = found
        super().__init__(_pointing(text, position, expected, found))


class FilterLimitError(FilterError):
    """A filter that is well-formed but larger than a stated bound."""

    def __init__(self, what: str, limit: int, actual: int | None = None) -> None:
        self.what = what
        self.limit = limit
        self.actual = actual
        has = "" if actual is None else f", this one has {actual}"
        super().__init__(f"a filter may have at most {limit} {what}{has}")


class InvalidValueError(BywayError, ValueError):
    """A value that no publication or filter may carry."""


class DuplicateKeyError(BywayError, KeyError):
    """A key is added that is present already."""

    def __init__(self, key: int) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return f"key {self.key} is in the index already; remove it first or use another key"


class UnknownKeyError(BywayError, KeyError):
    """A key is removed or looked up that is not there."""

    def __init__(self, key: int) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return f"key {self.key} is not in the index"


class TopologyError(BywayError, ValueError):
    """An overlay that is no tree of brokers, or a description of one that cannot be followed."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: {reason}")


class TraceError(BywayError):
    """A trace that cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def shortened(text: str, length_max: int = 40) -> str:
    """`text` if it is short, else its start: what a message quotes must not fill the screen."""
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


_WINDOW = 60  # characters of text shown on each side of the caret


def _pointing(text: str, position: int, expected: str, found: str | None) -> str:
    """One message, the text around the place, and a caret below it."""
    start = max(0, position - _WINDOW)
    end = min(len(text), position + _WINDOW)
    before = "…" if start else ""
    after = "…" if end < len(text) else ""
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    caret = " " * (len(before) + position - start) + "^"
    got = "" if found is None else f", found {found}"
    said = f"at character {position + 1}: expected {expected}{got}"
    return f"{said}\n  {before}{shown}{after}\n  {caret}"


class RemoteProtocolError(BywayError):
    """A peer broke the protocol. It costs that link, and nothing else."""

    def __init__(self, peer: str, reason: str) -> None:
        self.peer = peer
        self.reason = reason
        super().__init__(f"{peer}: {reason}")


class SnapshotError(BywayError):
    """Stored state of a broker cannot be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the stored state cannot be used: {reason}")
        self.reason = reason


class StorageError(BywayError):
    """A directory or file where a broker keeps its state cannot be used."""

    def __init__(self, path: object, reason: str) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class BrokenError(BywayError):
    """A broker cannot go on: handling an input failed, and there is nothing to go back to, or what
    failed is an assertion about its own state."""

    def __init__(self, broker: str, reason: str) -> None:
        self.broker = broker
        self.reason = reason
        super().__init__(f"broker {broker} cannot go on: {reason}")


class FrameError(BywayError):
    """Bytes on a connection that are no frame of byway's, or one that may not be."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"bad frame: {reason}")


class ConfigError(BywayError, ValueError):
    """A setting that cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"{key}: {reason}")


# --- clients -----------------------------------------------------------------------------------


class ClientError(BywayError):
    """A client could not do what it was asked."""


class ConnectError(ClientError, ConnectionError):
    """No broker took the client in. `attempts` tells each address tried last, and why not."""

    def __init__(self, client: str, attempts: tuple[tuple[str, str], ...]) -> None:
        self.client = client
        self.attempts = attempts
        told = "; ".join(f"{url}: {reason}" for url, reason in attempts)
        super().__init__(f"client {client} reaches no broker ({told})")


class ClosedError(ClientError, ConnectionError):
    """A client or subscription is closed, and nothing comes of it any more."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject} is closed: {reason}")


class RefusedError(ClientError):
    """A broker refused a publication, a subscription or an advertisement."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject} was refused: {reason}")


class CommandFailedError(ClientError):
    """A broker did not do what an operator told it, or could not be told."""

    def __init__(self, address: object, reason: str) -> None:
        self.address = str(address)
        self.reason = reason
        super().__init__(reason)


class WindowFullError(ClientError):
    """So many publications are not confirmed that the client takes no more for now."""

    def __init__(self, client: str, publications: int, bytes: int) -> None:
        self.client = client
        self.publications = publications
        self.bytes = bytes
        super().__init__(
            f"client {client} has {publications} unconfirmed publications of {bytes} bytes: "
            "its window is full"
        )


class NotInTimeError(ClientError, TimeoutError):
    """Something has not happened in time; it still may. `state` tells how the client is."""

    expected = "done"

    def __init__(self, subject: str, waited_s: float, state: str) -> None:
        self.subject = subject
        self.waited_s = waited_s
        self.state = state
        super().__init__(f"{subject} is not {self.expected} within {waited_s:g} s ({state})")


class NotSettledError(NotInTimeError):
    """A subscription or advertisement is not known to be in force everywhere. `brokers` have not
    answered, as far as the client's broker knows; empty if that could not be asked."""

    expected = "settled"

    def __init__(
        self, subject: str, waited_s: float, state: str, brokers: tuple[str, ...] = ()
    ) -> None:
        super().__init__(subject, waited_s, state)
        self.brokers = brokers

    def __str__(self) -> str:
        waits = f": waits for {', '.join(self.brokers)}" if self.brokers else ""
        return super().__str__() + waits


class NotAcceptedError(NotInTimeError):
    """The broker is not known to have a publication."""

    expected = "accepted by the broker"


class NotToldError(NotInTimeError):
    """The broker has not answered a question."""

    expected = "told"


class NotConfirmedError(NotInTimeError):
    """Not every copy of a publication is known to have arrived."""

    expected = "confirmed"
