"""How the functions of this package become kernels: typed by numba, written as one LLVM module.

Numba alone optimises every function by itself, makes machine code of each, and wraps each for
Python, which takes most of its time and is of no use here: nobody calls an inner kernel but other
kernels. Here a function is only typed and lowered, once for all kinds of integers it is called
with; `compiling` links, optimises and emits the whole at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from numba import types
from numba.core import compiler, dispatcher, registry

ENTRIES: Final[list[Kernel]] = []
"""The kernels that Python calls, in the order of their definitions."""


_OPTIONS: Final = {
    "nopython": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a kernel that other kernels call. `options` are further ones of `numba.njit`."""
    if function is None:
        return partial(kernel, **options)
    return Kernel(function, targetoptions=_OPTIONS | options, pipeline_class=compiler.Compiler)


def entry_kernel(function: Callable[..., Any]) -> Any:
    """Decorate a kernel that Python calls: it takes 64-bit integers, and returns None, one or a
    tuple of them. See `wrapping` for parameters that Python gives as bytes."""
    made = kernel(function)
    ENTRIES.append(made)
    return made


class Kernel(dispatcher.Dispatcher):
    """A function that numba types and lowers, and does not make machine code of."""

    targetdescr = registry.cpu_target
    made: ClassVar[list[Kernel]] = []
    """All kernels."""
    on_lowered: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    """Called whenever one has been lowered."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.made.append(self)

    def add_overload(self, lowered: Any) -> None:
        """Let other kernels call what has been lowered."""
        super().add_overload(lowered)
        type(self).on_lowered()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for at a call: arguments are widened first."""
        assert not kws, "kernels are called with positions only"
        return super().get_call_template(tuple(_widened(a) for a in args), kws)

    def lowered(self) -> Any:
        """The result of lowering an entry kernel."""
        arguments = (types.int64,) * self.py_func.__code__.co_argcount
        self.compile(arguments)
        return self.overloads[arguments]


def _widened(kind: Any) -> Any:
    """The type that an argument is passed as: integers are 64 bits wide, and no literal."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and kind is not types.uint64:
        return types.int64
    return kind
