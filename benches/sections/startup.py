"""What stands before the first answer: importing, an empty index, compiling or loading kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benches.report import Figure, Section, below
from benches.run import Run
from byway.matching import MatchIndex, NaiveIndex, Vocabulary

TITLE = "before the first answer"
IMPORTS = 7
EMPTY = 100

IMPORT = """
from time import perf_counter
start = perf_counter()
import {}
print(perf_counter() - start)
"""

# Most kernels are used once; each line of the answer is a step and its seconds.
FIRST_CALLS = """
from time import perf_counter
spent, last = {}, perf_counter()

def lap(step):
    global last
    spent[step] = perf_counter() - last
    last = perf_counter()

from byway import MatchIndex, parse
lap("import MatchIndex")
index = MatchIndex()
lap("first MatchIndex()")
wanted = parse("a = 1 AND b BETWEEN 2 AND 3")
index.add(0, wanted)
index.add(1, parse("s LIKE 'x%' OR s IN ('p', 'q')"), 5)
lap("first add")
index.match({"a": 1, "b": 2})
lap("first match")
index.match_batch([{"a": 1, "b": 2}])
lap("first match_batch")
index.match_links({"a": 1, "b": 2})
lap("first match_links")
index.covering(wanted)
lap("first covering")
index.covered_by(wanted)
lap("first covered_by")
index.remove(0)
lap("first remove")
import msgspec
print(msgspec.json.encode(spent).decode())
"""


def measure(run: Run) -> Section:
    """Fresh processes for imports and first calls; a quick run compiles nothing."""
    run.step("importing in fresh processes")
    modules = ("byway", "byway.matching", "numba")
    importing = {name: _import_seconds(name) for name in modules}
    figures = [
        Figure("an empty index, by its own count", MatchIndex(Vocabulary()).memory_bytes / 1_000,
               "kB", below(64), {"naive": _traced_kb(NaiveIndex)}),
        Figure("an empty index, by tracemalloc", _traced_kb(MatchIndex, Vocabulary()),
               "kB", below(64), {"naive": _traced_kb(NaiveIndex)}),
        Figure("import byway", importing["byway"], "s", below(0.5),
               {"import numba": importing["numba"]}),
        Figure("import byway.matching", importing["byway.matching"], "s", None,
               {"import numba": importing["numba"]}),
    ]  # fmt: skip
    if not run.quick:
        figures += _first_calls(run)
    sizes = {"imports": IMPORTS, "empty indexes": EMPTY}
    return Section("startup", TITLE, sizes, figures, [
        "import: best of fresh processes; first calls: in one more, with compiled kernels on disk",
        "cold: the same without compiled kernels on disk, another process compiles them",
    ])  # fmt: skip


def _first_calls(run: Run) -> list[Figure]:
    with TemporaryDirectory() as directory:
        run.step("compiling the kernels")
        cold = _first_call_seconds(Path(directory))
        run.step("loading the kernels in fresh processes")
        warm = min((_first_call_seconds(Path(directory)) for _ in range(3)), key=_total)
    warm["all of these"], cold["all of these"] = _total(warm), _total(cold)
    return [Figure(step, warm[step], "s", None, {"cold": cold[step]}) for step in warm]


def _total(spent: dict[str, float]) -> float:
    return sum(spent.values())


def _import_seconds(name: str) -> float:
    return min(float(_run(IMPORT.format(name))) for _ in range(IMPORTS))


def _first_call_seconds(cache: Path) -> dict[str, float]:
    return msgspec.json.decode(_run(FIRST_CALLS, NUMBA_CACHE_DIR=str(cache)), type=dict[str, float])


def _run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _traced_kb(make: type, *arguments: object) -> float:
    """What one more object keeps allocated, Python's objects included."""
    make(*arguments)
    tracemalloc.start()
    kept = [make(*arguments) for _ in range(EMPTY)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(kept) / 1_000
