"""Numbers of rounds, and the table that sums them up by kind of fault."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.plan import Fault, Plan
from tests.chaos.round import Outcome

COLUMNS = "rounds kills confirmed delivered lost doubled disordered unconfirmed failed".split()
LONG_S = 30.0


@dataclass
class Row:
    """One round in numbers."""

    kinds: list[str]
    kills: int
    confirmed: int
    delivered: int
    lost: int
    doubled: int
    disordered: int
    unconfirmed: int
    passed: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Row:
        """The numbers of a round."""
        verdict = outcome.verdict
        return cls(
            kinds_of(outcome.plan), outcome.kills, verdict.confirmed, verdict.delivered,
            verdict.lost, verdict.doubled, verdict.disordered, verdict.unconfirmed, outcome.passed,
        )  # fmt: skip

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Row:
        """What `write` wrote."""
        return cls(**json.loads(path.read_text()))


def kinds_of(plan: Plan) -> list[str]:
    """Kinds of faults in a plan; a round may have many."""
    kinds = {_kind(plan, fault) for fault in plan.faults}
    forgotten = [f for f in plan.faults if f.kind == "kill" and not plan.broker(f.target).keeps]
    for fault in plan.faults:
        at_once = [f for f in plan.faults if f.kind == "kill" and f.at == fault.at]
        if fault.kind == "kill" and len(at_once) > 1:
            kinds.add("several killed at once")
        if fault.kind in ("kill", "torn", "full") and fault.lasts > LONG_S:
            kinds.add("away for more than 30 s")
    for one in forgotten:
        near = set(plan.neighbours(one.target))
        if any(other.target in near and other.at == one.at for other in forgotten):
            kinds.add("neighbours without state at once")
    if "heavy" in plan.tags:
        kinds.add("heavy traffic")
    if plan.has_mesh:
        kinds.add("mesh")
    return sorted(kinds)


def _kind(plan: Plan, fault: Fault) -> str:
    if fault.kind == "kill":
        kept = "with" if plan.broker(fault.target).keeps else "without"
        return f"kill -9, {kept} state"
    return {
        "torn": f"torn file, {fault.how}",
        "full": f"full disk, {fault.how}",
        "stop": "SIGSTOP, broker",
        "stop-client": "SIGSTOP, clients",
        "kill-client": "kill -9, clients",
        "cut": "cut, link",
        "cut-client": "cut, client",
    }[fault.kind]


def table(rows: list[Row]) -> str:
    """By kind of fault, the sums over all rounds that had it; then over all."""
    kinds = sorted({kind for row in rows for kind in row.kinds})
    lines = [("with", *COLUMNS)]
    lines += ((kind, *_sums([row for row in rows if kind in row.kinds])) for kind in kinds)
    lines.append(("all rounds", *_sums(rows)))
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            word.rjust(width) if at else word.ljust(width)
            for at, (word, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _sums(rows: list[Row]) -> list[str]:
    numbers = [len(rows)]
    numbers += [sum(getattr(row, column) for row in rows) for column in COLUMNS[1:-1]]
    numbers.append(sum(not row.passed for row in rows))
    return [f"{number:,}" for number in numbers]
