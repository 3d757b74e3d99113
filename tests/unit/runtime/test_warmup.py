"""Nothing is left to compile when a broker is ready."""

import subprocess
import sys

PROGRAM = """
from byway.matching.kernels import entry
from byway.runtime.warmup import warm_up
warm_up()
kernels = {n: f for n, f in vars(entry).items() if hasattr(f, "signatures")}
assert len(kernels) > 10
print([name for name, kernel in kernels.items() if not kernel.signatures])
"""


def test_every_kernel_is_warm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
