"""Counts the work of a call in steps of the interpreter, so that a test can show that it does not
grow with something, whatever the machine and its load."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """The instructions of Python code that a call executes; what is compiled does not count."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        del argument
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for it only once
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
