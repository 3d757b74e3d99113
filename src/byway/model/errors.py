"""Every error byway raises on purpose, with the facts a person needs to act on it.

This file knows nothing but text and numbers: it imports no filter, frame or configuration type.
"""

from __future__ import annotations


class BywayError(Exception):
    """Base of all errors that byway raises on purpose."""


class MissingExtraError(BywayError, ModuleNotFoundError):
    """A part of byway needs packages that are not installed; `command` installs them."""

    def __init__(self, module: str, packages: list[str], extra: str, command: str) -> None:
        self.module = module
        self.packages = packages
        self.extra = extra
        self.command = command
        super().__init__(self.told(module), name=packages[0])

    def told(self, who: str) -> str:
        """The sentence, with `who` for what cannot be used."""
        are = "is" if len(self.packages) == 1 else "are"
        names = ", ".join(self.packages)
        return f"{who} needs {names}, which {are} not installed; install with: {self.command}"


class FilterError(BywayError, ValueError):
    """A filter that cannot be accepted."""


class FilterSyntaxError(FilterError):
    """A filter text that does not follow the grammar.

    `position` counts characters from 0; `expected` says what would have been accepted there;
    `hint` says what to write instead, where that can be guessed.
    """

    def __init__(self, text: str, position: int, expected: str, found: str | None = None) -> None:
        self.text = text
        self.position = position
        self.expected = expected
        self.found = found
        self.hint = ""
        super().__init__(_pointing(text, position, expected, found))

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.hint}" if self.hint else super().__str__()


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
    """A key that is added is in the index already."""

    def __init__(self, key: int) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return f"key {self.key} is in the index already; remove it first or use another key"


class UnknownKeyError(BywayError, KeyError):
    """A key that is removed or looked up is not in the index."""

    def __init__(self, key: int) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return f"key {self.key} is not in the index"


class TopologyError(BywayError, ValueError):
    """An overlay that is not a tree of brokers, or an invalid description of one."""

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
    """`text`, cut to `length_max` characters, so that a quotation does not fill the screen."""
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


_WINDOW = 60  # characters of text shown on each side of the caret


def _pointing(text: str, position: int, expected: str, found: str | None) -> str:
    """The message, the text around the position, and a caret below it."""
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
    """A peer broke the protocol. Its link is closed; nothing else is affected."""

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
    """A broker cannot continue: handling an input failed, and the broker cannot be rebuilt, or an
    assertion about its own state failed."""

    def __init__(self, broker: str, reason: str) -> None:
        self.broker = broker
        self.reason = reason
        super().__init__(f"broker {broker} cannot continue: {reason}")


class FrameError(BywayError):
    """Bytes on a connection that are not a valid frame, or a frame that is not allowed there."""

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
    """No broker attached the client. `attempts` has each address of the last round, and why it
    failed."""

    def __init__(self, client: str, attempts: tuple[tuple[str, str], ...]) -> None:
        self.client = client
        self.attempts = attempts
        failures = "; ".join(f"{url}: {reason}" for url, reason in attempts)
        super().__init__(f"client {client} reaches no broker ({failures})")


class ClosedError(ClientError, ConnectionError):
    """A client or subscription is closed, and cannot be used any more."""

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


class UnroutedError(RefusedError):
    """A mandatory publication went nowhere: no local client and no neighbour of the broker has a
    subscription that matches it."""

    def __init__(self, subject: str) -> None:
        super().__init__(subject, "it is mandatory, and no client and no link wants it")


class CommandFailedError(ClientError):
    """A broker refused an operator's command, failed at it, or could not be reached."""

    def __init__(self, address: object, reason: str) -> None:
        self.address = str(address)
        self.reason = reason
        super().__init__(reason)


class WindowFullError(ClientError):
    """The client accepts no more publications until some of the unconfirmed ones are confirmed."""

    def __init__(self, client: str, publications: int, bytes: int) -> None:
        self.client = client
        self.publications = publications
        self.bytes = bytes
        super().__init__(
            f"client {client} has {publications} unconfirmed publications of {bytes} bytes: "
            "its window is full"
        )


class NotInTimeError(ClientError, TimeoutError):
    """Something has not happened in time; it still may. `state` is the client's state in words."""

    expected = "done"

    def __init__(self, subject: str, waited_s: float, state: str) -> None:
        self.subject = subject
        self.waited_s = waited_s
        self.state = state
        super().__init__(
            f"{subject} is not {self.expected} within {round(waited_s, 2):g} s ({state})"
        )


class NotSettledError(NotInTimeError):
    """A subscription or advertisement is not settled in time. `brokers` have not answered for it,
    as far as the client's broker knows; empty if that broker could not be asked."""

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
    """The broker has not accepted a publication in time."""

    expected = "accepted by the broker"


class NotToldError(NotInTimeError):
    """The broker has not answered a request for its status in time."""

    expected = "told"


class NotConfirmedError(NotInTimeError):
    """A publication is not confirmed in time: a copy of it may not have arrived."""

    expected = "confirmed"
