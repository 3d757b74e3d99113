"""Whether nothing confirmed was lost, doubled or put out of order, from the clients' logs alone.

    python -m tests.chaos.judge DIRECTORY

The judge knows what clients wrote down (`client` tells the lines), which broker each was attached
to, and which brokers lost their state when. It knows nothing of byway's code.

A *life* of a subscription is one session of its client (without a session: one connection), from
when it was settled. What is owed in a life: every publication that was confirmed to its publisher,
was published after the subscription was settled, and matches. In a life that goes on to the end,
all of it. In a life that ended, because the client unsubscribed, was killed, had no session, or its
broker lost its state, everything up to the last that came from that publisher: a beginning without
gaps. A session that ends for another reason is a fault in itself.

Nothing may come twice in a life, nor before what its publisher published earlier. A publication
that was not confirmed when its publisher's session ended is published again in the next one, and
may then come once more; the end of that session needs the same reasons.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.interests import Interest

SECOND = 1_000_000_000
TOLD_MAX = 12
"""Faults that are told in words, at most, of each kind."""
_USED = ("C", "G", "P", "T")
"""Lines that show that something came of a session."""


@dataclass(frozen=True)
class Facts:
    """What is known of a round beside the clients' logs."""

    homes: dict[str, str]
    """By client, its broker."""
    sessions: dict[str, bool]
    """By client, whether it has a session."""
    losses: dict[str, list[int]]
    """By broker, when it lost its state: killed without `--data`, or its files damaged."""

    def write(self, directory: Path) -> None:
        """Keep them beside the logs."""
        (directory / "facts.json").write_text(json.dumps(self.__dict__, indent=1))

    @classmethod
    def read(cls, directory: Path) -> Facts:
        """What `write` wrote."""
        return cls(**json.loads((directory / "facts.json").read_text()))

    def explains(self, client: str, began: int, ended: int) -> bool:
        """Whether a session may have ended in this time: its broker lost its state."""
        losses = self.losses.get(self.homes[client], [])
        return any(began - SECOND <= loss <= ended for loss in losses)


@dataclass(frozen=True)
class Published:
    """One publication."""

    t: int
    kind: str
    a: int
    b: int


@dataclass
class Source:
    """The account of a publisher."""

    name: str
    published: dict[int, Published] = field(default_factory=dict)
    sessions: list[int] = field(default_factory=list)
    """Incarnations, in order."""
    confirmed: dict[int, int] = field(default_factory=dict)
    """By n, how many sessions had begun when it was confirmed."""
    abandoned: set[int] = field(default_factory=set)
    """Not confirmed when the process was killed."""
    refused: dict[int, str] = field(default_factory=dict)

    @property
    def unconfirmed(self) -> list[int]:
        """What its last process still waits for."""
        settled = self.confirmed.keys() | self.abandoned | self.refused.keys()
        return sorted(self.published.keys() - settled)

    def may_repeat(self, n: int, incarnation: int) -> bool:
        """Whether n may have been published again under this incarnation: then a session with it,
        or a later one, had begun before n was confirmed."""
        begun = self.confirmed.get(n, len(self.sessions))
        return bisect_left(self.sessions, incarnation) < begun


@dataclass
class Life:
    """One life of one subscription."""

    client: str
    name: str
    interest: Interest
    settled: int | None = None
    ended: bool = False
    got: dict[str, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By publisher: incarnation, sequence and n of what came, in order."""

    def __str__(self) -> str:
        return f"{self.client}.{self.name}"


@dataclass
class Verdict:
    """What the judge found. Every number but the first three must be 0."""

    confirmed: int = 0
    owed: int = 0
    """Deliveries that had to come."""
    delivered: int = 0
    lost: int = 0
    lost_publications: int = 0
    """Publications of which a delivery was lost."""
    doubled: int = 0
    disordered: int = 0
    unconfirmed: int = 0
    strange: int = 0
    """Events that nobody published or wanted, and publications that were refused."""
    unsettled: int = 0
    """Subscriptions that never were, to the end."""
    sessions_lost: int = 0
    """Sessions that ended without reason."""
    reached: dict[str, int] = field(default_factory=dict)
    """By publisher, when the last publication that is confirmed was published."""
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def flows_since(self, t: int) -> bool:
        """Whether everything is settled, and every publisher has a confirmation of something that
        it published since."""
        return not self.unsettled and all(last > t for last in self.reached.values())

    @property
    def is_exact(self) -> bool:
        """Whether all is well."""
        return not any(
            (self.lost, self.doubled, self.disordered, self.unconfirmed, self.strange,
             self.unsettled, self.sessions_lost)
        )  # fmt: skip

    def tell(self, what: str, words: str) -> None:
        """Keep some words about a fault."""
        if len(self.told[what]) < TOLD_MAX:
            self.told[what].append(words)

    def __str__(self) -> str:
        lines = [
            f"{self.confirmed} confirmed, {self.delivered} delivered ({self.owed} owed): "
            f"{self.lost} lost (of {self.lost_publications} publications), {self.doubled} doubled, "
            f"{self.disordered} out of order, {self.unconfirmed} unconfirmed, {self.unsettled} "
            f"unsettled, {self.strange} strange, {self.sessions_lost} sessions lost without reason"
        ]
        for what, words in self.told.items():
            lines += [f"  {what}: {word}" for word in words]
        return "\n".join(lines)


def judge(directory: Path, facts: Facts | None = None) -> Verdict:
    """Judge what is written so far."""
    facts = Facts.read(directory) if facts is None else facts
    verdict = Verdict()
    sources: dict[str, Source] = {}
    lives: list[Life] = []
    for client, text in _texts(directory, facts).items():
        account = _Account(client, facts, verdict)
        for line in text[: text.rfind("\n") + 1].splitlines():
            account.read(line)
        if account.source.sessions and account.is_publisher:
            sources[client] = account.source
        lives += [life for life in account.lives if not (life.ended and not life.got)]
    for source in sources.values():
        verdict.confirmed += len(source.confirmed)
        verdict.unconfirmed += len(source.unconfirmed)
        verdict.strange += len(source.refused)
        last = max(source.confirmed, default=None)
        verdict.reached[source.name] = 0 if last is None else source.published[last].t
        if waits := source.unconfirmed:
            verdict.tell("unconfirmed", f"{source.name}: {len(waits)}, from n = {waits[0]}")
        for n, reason in source.refused.items():
            verdict.tell("refused", f"{source.name} n = {n}: {reason}")
    missed: set[tuple[str, int]] = set()
    for life in lives:
        if life.settled is None and not life.ended:
            verdict.unsettled += 1
            verdict.tell("unsettled", f"{life}: {life.interest.text}")
        for source in sources.values():
            _judge_order(life, source, verdict)
            _judge_losses(life, source, verdict, missed)
        for publisher in life.got.keys() - sources.keys():
            verdict.strange += 1
            verdict.tell("strange", f"{life} got something from {publisher}, who published nothing")
    verdict.lost_publications = len(missed)
    return verdict


def _texts(directory: Path, facts: Facts) -> dict[str, str]:
    """The logs as they are now; publishers' later than subscribers', who cannot be ahead then."""
    paths = {client: directory / f"{client}.log" for client in sorted(facts.homes)}
    texts = {client: path.read_text() for client, path in paths.items() if path.exists()}
    later = {client: paths[client].read_text() for client, t in texts.items() if "\nP " in t}
    return texts | later


class _Account:
    """Reads the log of one client."""

    def __init__(self, client: str, facts: Facts, verdict: Verdict) -> None:
        self.client = client
        self.source = Source(client)
        self.lives: list[Life] = []
        self.is_publisher = False
        self._facts = facts
        self._verdict = verdict
        self._open: dict[str, Life] = {}
        self._began: int | None = None
        """When the session began that goes on."""
        self._is_blank = True
        """Whether nothing is known to have come of that session: its broker may have ended before
        it had a request, and does not resume a session of which nothing came."""

    def read(self, line: str) -> None:
        """One line."""
        word, time, rest = (*line.split(" ", 2), "")[:3]
        t, words = int(time), rest.split(" ")
        self._is_blank &= word not in _USED
        if word == "G":
            name, publisher, *numbers = words
            incarnation, sequence, n = map(int, numbers)
            self._open[name].got[publisher].append((incarnation, sequence, n))
        elif word == "P":
            n, kind, a, b = words
            self.is_publisher = True
            self.source.published[int(n)] = Published(t, kind, int(a), int(b))
        elif word == "C":
            begun = len(self.source.sessions)
            for number in range(int(words[0]), int(words[1]) + 1):
                if number not in self.source.refused:
                    self.source.confirmed[number] = begun
        elif word == "R":
            self.source.refused[int(words[0])] = rest
        elif word == "S":
            self._on_process()
        elif word == "L":
            self._on_session(t, int(words[1]))
        elif word == "Q":
            self._begin(words[0], Interest.read(words[1]))
        elif word == "T":
            self._open[words[0]].settled = t
        elif word == "U":
            self._open.pop(words[0]).ended = True
        elif word == "X" and self._facts.sessions[self.client]:
            self._verdict.tell("told lost", f"{self.client} was told that {rest} events are lost")

    def _on_process(self) -> None:
        """What an earlier process had not heard of is nobody's any more."""
        self.source.abandoned |= set(self.source.unconfirmed)
        for life in self._open.values():
            life.ended = True
        self._open.clear()
        self._began = None

    def _on_session(self, t: int, incarnation: int) -> None:
        began, self._began = self._began, t
        has_session = self._facts.sessions[self.client]
        was_blank, self._is_blank = self._is_blank, True
        is_owed = began is not None and has_session and not was_blank
        if is_owed and not self._facts.explains(self.client, began, t):
            self._verdict.sessions_lost += 1
            self._verdict.tell("session lost", f"{self.client}, which began anew at {t}")
        self.source.sessions.append(incarnation)
        for name, old in list(self._open.items()):
            old.ended = True
            self._begin(name, old.interest)

    def _begin(self, name: str, interest: Interest) -> None:
        self._open[name] = Life(self.client, name, interest)
        self.lives.append(self._open[name])


def _judge_order(life: Life, source: Source, verdict: Verdict) -> None:
    """Nothing twice, nothing late, nothing strange."""
    seen: dict[int, int] = {}
    last = (0, 0, 0)
    for event in life.got.get(source.name, ()):
        incarnation, _, n = event
        published = source.published.get(n)
        if published is None or not life.interest.matches(published.kind, published.a, published.b):
            verdict.strange += 1
            verdict.tell("strange", f"{life} got n = {n} of {source.name}: {published}")
            continue
        verdict.delivered += 1
        if n in seen and (incarnation == seen[n] or not source.may_repeat(n, incarnation)):
            verdict.doubled += 1
            where = f"incarnations {seen[n]} and {incarnation}"
            verdict.tell("doubled", f"{life} got n = {n} of {source.name} twice, {where}")
        elif event[:2] <= last[:2] or (incarnation == last[0] and n <= last[2]):
            verdict.disordered += 1
            verdict.tell("out of order", f"{life} got {event} of {source.name} after {last}")
        seen[n] = max(seen.get(n, 0), incarnation)
        last = max(last, event)


def _judge_losses(
    life: Life, source: Source, verdict: Verdict, missed: set[tuple[str, int]]
) -> None:
    """Everything that is owed came."""
    if life.settled is None:
        return
    got = {n for _, _, n in life.got.get(source.name, ())}
    until = max(got, default=0) if life.ended else None
    lost = []
    for n in source.confirmed:
        publication = source.published[n]
        if (
            publication.t > life.settled
            and (until is None or n <= until)
            and life.interest.matches(publication.kind, publication.a, publication.b)
        ):
            verdict.owed += 1
            if n not in got:
                lost.append(n)
    if lost:
        missed |= {(source.name, n) for n in lost}
        verdict.lost += len(lost)
        lost.sort()
        words = f"{life} lacks {len(lost)} of {source.name}, n from {lost[0]} to {lost[-1]}"
        verdict.tell("lost", f"{words}{', in a life that ended' if life.ended else ''}")


if __name__ == "__main__":
    print(judge(Path(sys.argv[1])))
