"""Nothing is left to compile when a broker is ready.

A kernel that only kernels call is compiled into them, and needs nothing of its own.
"""

import subprocess
import sys

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


def test_every_kernel_is_warm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
