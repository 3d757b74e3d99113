"""Why a connection cannot be made, in the words of the operating system alone."""

from __future__ import annotations

import os
import re
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno ([0-9]+)\]")


def os_reason(error: OSError) -> str:
    """The reason of an error, without its number and without the words of asyncio.

    asyncio puts its own text in the place of the system's (`Connect call failed`), and lists the
    errors of all addresses of a host in one text, where their numbers are found again.
    """
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    numbers = dict.fromkeys(int(number) for number in _NUMBER.findall(str(error)))
    if numbers:
        return ", ".join(os.strerror(number) for number in numbers)
    return error.strerror or str(error) or type(error).__name__
