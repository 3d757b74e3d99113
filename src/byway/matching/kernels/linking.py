"""From what numba lowered to one module: linked, optimised, with Python functions around it.

Numba would link, optimise and emit every function by itself; it is kept from that here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from llvmlite import binding
from numba.core import codegen, registry

from byway.matching.kernels import wrapping
from byway.matching.native import METHOD


class _Library(codegen.JITCodeLibrary):
    """What numba lowers a function into, kept as it is."""

    def add_llvm_module(self, module: Any) -> None:
        """Add a module, as it is."""
        self._final_module.link_in(module)

    def finalize(self) -> None:
        """Neither link nor optimise nor emit: that is done once for all."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code."""
        return 0


def lower_only() -> None:
    """Keep numba from making machine code of functions, in this process from now on."""
    generator = registry.cpu_target.target_context.codegen()
    generator._library_class = _Library
    generator.set_env = lambda name, environment: None  # no code could look at it


def linked(lowered: list[Any]) -> Any:
    """One module with everything; only descriptions of Python functions are seen from outside."""
    module = binding.parse_assembly(str(wrapping.wrappers(lowered)))
    seen: set[int] = set()
    for kernel in lowered:
        for library in _libraries(kernel.library, seen):
            module.link_in(library._final_module)
    for value in [*module.functions, *module.global_variables]:
        if not (value.is_declaration or value.name.startswith(METHOD)):
            value.linkage = "internal"
    module.verify()
    return module


def _libraries(library: Any, seen: set[int]) -> Iterator[Any]:
    """A library and all that it calls, each once."""
    if id(library) in seen:
        return
    seen.add(id(library))
    yield library
    for other in library._linking_libraries:
        yield from _libraries(other, seen)


def optimise(module: Any, machine: Any) -> None:
    """Optimise a module for speed, across all its functions. Raises `LookupError` if it still calls
    what only a process with numba has."""
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    everywhere = ctypes.CDLL(None)
    for function in module.functions:
        name = function.name
        if (
            function.is_declaration
            and not name.startswith("llvm.")
            and not hasattr(everywhere, name)
        ):
            raise LookupError(f"a kernel calls {name}, which other processes do not have")
