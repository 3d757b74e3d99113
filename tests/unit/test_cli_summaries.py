"""Summaries of runs: a few beside one another, many a line each, whatever the width."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from byway.cli.summaries import LINES_MAX, figure, shown

NAMES = ["run", "brokers", "deliveries", "yield", "messages", "messages_by_kind", "rows_lost"]


def summary(run: str, **values: Any) -> dict[str, Any]:
    same = {"brokers": 3, "deliveries": 7, "yield": 0.5, "messages": 9, "rows_lost": 0}
    return {"run": run, "messages_by_kind": {"pub": 9}} | same | values


def test_few_runs_are_columns() -> None:
    lines = shown([summary("one"), summary("two", deliveries=1_234)], NAMES, 80)
    assert lines == [
        "run             one    two",
        "brokers           3      3",
        "deliveries        7  1,234",
        "yield         0.500  0.500",
        "messages          9      9",
        "pub messages      9      9",
        "rows lost         0      0",
    ]


def test_many_runs_are_lines_with_what_differs() -> None:
    runs = [summary(f"run {n}", messages=n, **{"yield": None if n else 0.25}) for n in range(5)]
    assert shown(runs, NAMES, 60) == [
        "5 runs",
        "",
        "the same in all of them:",
        "  brokers 3, deliveries 7, pub messages 9, rows lost 0",
        "",
        "run    yield  messages",
        "run 0  0.250         0",
        "run 1      -         1",
        "run 2      -         2",
        "run 3      -         3",
        "run 4      -         4",
    ]


def test_runs_that_do_not_fit_beside_one_another_are_lines() -> None:
    runs = [summary(f"simulated selective, seed {n}", deliveries=n) for n in range(3)]
    lines = shown(runs, NAMES, 60)
    assert lines[0] == "3 runs"
    assert lines[-1] == "simulated selective, seed 2           2"


def test_a_kind_of_message_that_some_runs_have_differs() -> None:
    runs = [summary(f"r{n}") for n in range(5)]
    runs[3]["messages_by_kind"] = {"pub": 9, "adv": 2}
    assert shown(runs, NAMES, 80)[-7:] == [
        "          adv", "run  messages", "r0          0", "r1          0", "r2          0",
        "r3          2", "r4          0",
    ]  # fmt: skip


def test_runs_that_are_all_alike() -> None:
    lines = shown([summary(f"r{n}") for n in range(9)], NAMES, 80)
    assert lines[0] == "9 runs"
    assert lines[-1].startswith("  brokers 3, deliveries 7")


def test_columns_that_do_not_fit_are_named() -> None:
    runs = [summary(f"{'r' * 20} {n}", deliveries=n, messages=n, brokers=n) for n in range(5)]
    lines = shown(runs, NAMES, 40)
    assert lines[-2:] == ["these differ, too; --json and --out have all:", "  messages, brokers"]


def test_more_runs_than_lines_are_told_by_how_far_they_are_apart() -> None:
    runs = [summary(f"r{n:03}", deliveries=n) for n in range(300)]
    lines = shown(runs, NAMES, 80)
    assert sum(bool(re.match(r"r\d", line)) for line in lines) == LINES_MAX
    assert f"… and {300 - LINES_MAX} more runs" in lines
    assert lines[-2:] == [
        "over all runs  lowest  median  highest",
        "deliveries          0     149      299",
    ]


def test_nothing_is_shown_of_no_run() -> None:
    assert shown([], NAMES, 80) == ["run"]


TEXT = st.text("ab9é漢", min_size=1, max_size=12)
VALUE = st.none() | st.integers(0, 10**12) | st.floats(0, 1e6)


@given(
    st.lists(st.tuples(TEXT, VALUE, VALUE), min_size=1, max_size=60, unique_by=lambda t: t[0]),
    st.integers(48, 200),
)
def test_no_line_is_wider_than_the_terminal(found: list[tuple[str, Any, Any]], width: int) -> None:
    runs = [summary(run, deliveries=one, **{"yield": other}) for run, one, other in found]
    lines = shown(runs, NAMES, width)
    assert all(cell_len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert all(run in text for run, _, _ in found[:LINES_MAX])
    assert all(figure(one) in text for _, one, _ in found[:LINES_MAX])
