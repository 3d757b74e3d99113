"""Nothing is left to compile when a broker is ready.

A kernel that only kernels call is compiled into them, and needs nothing of its own.
"""

import subprocess
import sys

import pytest

PROGRAM = """
import re
from pathlib import Path
from byway import matching
from byway.matching.kernels import entry
from byway.runtime.warmup import warm_up
warm_up()
sources = Path(matching.__file__).parent.glob("*.py")
called = {name for source in sources for name in re.findall(r"entry\\.(\\w+)", source.read_text())}
kernels = {n: f for n, f in vars(entry).items() if n in called and hasattr(f, "signatures")}
assert len(kernels) > 10
print([name for name, kernel in kernels.items() if not kernel.signatures])
"""
EVERYTHING = """
import tempfile
from pathlib import Path
import numpy as np
from byway import MatchIndex, parse
from byway.matching.columns import Values, encode_rows
from byway.matching.kernels import entry
from byway.matching.stored import IndexBuilder, StoredIndex
from byway.model.values import Kind
from byway.runtime.warmup import warm_up

def compiled():
    found = {name: getattr(kernel, "signatures", []) for name, kernel in vars(entry).items()}
    return {(name, signature) for name, all in found.items() for signature in all}

warm_up()
before = compiled()
assert len(before) > 10
FILTERS = [parse(text) for text in (
    "TRUE", "FALSE", "a = 1", "a = 1.5", "a = 'x'", "a = TRUE", "a != 1", "a != 'x'", "a < 1",
    "a >= 'x'", "a BETWEEN 1 AND 2", "a IN (1, 2, 3)", "a IN ('x', 'y')", "a NOT IN (1, 2)",
    "a LIKE 'x%'", "a LIKE '%x'", "a LIKE '%x%'", "a NOT LIKE 'x%'", "a EXISTS", "a IS NULL",
    "a = 1 AND b = 'x' OR b LIKE '%y%' AND NOT c > 3", "a = 9223372036854775807",
)]
PUBLICATIONS = [
    {}, {"a": 1}, {"a": 1.5}, {"a": "x"}, {"a": "not known to any filter"}, {"a": True},
    {"a": 2**63 - 1}, {"b": "xyz" * 100, "c": 2}, {f"n{n}": n for n in range(200)},
]
for indexed in (FILTERS, []):
    index = MatchIndex()
    for key, filter in enumerate(indexed):
        index.add(key, filter, key % 100 or None)
    for publication in PUBLICATIONS:
        index.match(publication)
        index.match_batch([publication])
        for exclude in (None, 0, 99):
            index.match_routes(publication, exclude)
    index.match_batch(PUBLICATIONS)
    index.match_batch([])
    for filter in FILTERS:
        index.covering(filter)
        index.covered_by(filter)
        index.intersecting(filter)
        index.intersecting_advertisements(filter)
    for key in range(len(indexed)):
        index.remove(key)
builder = IndexBuilder()
builder.learn(PUBLICATIONS)
for filter in FILTERS:
    builder.add(filter)
with tempfile.TemporaryDirectory() as directory:
    path = Path(directory, "an.index")
    builder.store(path)
    stored = StoredIndex(path)
    for strings in (["x", "y"], ["", ""], []):
        offsets, names = np.array([0, 1, 2]), np.array([0, 0])
        kind = Kind.STRING if strings else Kind.NUMBER
        values = Values(kind, offsets, ["a"], names, np.array([0, 1]), strings)
        list(stored.match(encode_rows([values], stored.vocabulary)))
print(sorted(str(new) for new in compiled() - before))
"""


@pytest.mark.parametrize("program", [PROGRAM, EVERYTHING], ids=["called", "used"])
def test_every_kernel_is_warm(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
