"""The compiled kernels of this process: what they are called with, and how they are loaded.

One object file holds them all. It is loaded by LLVM alone, without numba, in milliseconds, and
gives a Python function for each kernel of `kernels.entry`, which says what each does. Where the
file comes from is decided in `kernel_files` and `building`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

METHOD: Final = "byway_method_"
"""How the name of a description of a Python function begins in the object file."""
_SOURCES: Final = Path(__file__).parent

Call = Callable[[int], int]
Call2 = Callable[[int, int], int]


class Kernels:
    """The entry kernels as Python functions. Before they are loaded there is none.

    Arguments are integers, and in one case bytes; addresses are those of arrays that the caller
    keeps alive.
    """

    prepare: Call
    rebuild_table: Call
    rebuild_keys: Call
    find_slot: Call2
    open_key: Callable[[int, int, int], int]
    insert: Callable[[int, int, int, int, int], tuple[int, int, int]]
    complete: Callable[[int, int, int], tuple[int, int]]
    remove: Callable[[int, int], tuple[int, int, int, int]]
    release_words: Call
    forget_attribute: Call2
    relate_all: Callable[[int, int, int, int], tuple[int, int]]
    rechoose: Call2
    resume: Call
    match_keys: Callable[[int, int, int], tuple[int, int]]
    match_keys_batch: Callable[[int, int, int], int]
    match_counts: Call2
    match_link_mask: Callable[[int, int, int, int], tuple[int, int, int, int, int]]
    match_body: Callable[[int, bytes, int, int], tuple[int, int, int, int, int, int]]
    file_string: Call2
    drop_string: Call2
    file_name: Call2
    drop_name: Call2
    move_words: Callable[[int, int, int, int], int]
    relate_query: Callable[[int, int, int, int, int], int]

    def __init__(self) -> None:
        self.are_loaded = False
        self.are_awaited = False
        """Whether somebody has them compiled, and indexes of tables do not wait for them."""

    def load(self, code: bytes) -> None:
        """Take over the kernels of an object file that was made for this processor."""
        from llvmlite import binding

        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
        engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        describe = ctypes.pythonapi.PyCFunction_NewEx
        describe.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        describe.restype = ctypes.py_object
        for name in NAMES:
            method = engine.get_global_value_address(METHOD + name)
            setattr(self, name, describe(method, None, None))
        engine.detach()  # the code stays until the process ends
        self.are_loaded = True

    def __repr__(self) -> str:
        return f"<Kernels, {'loaded' if self.are_loaded else 'not loaded'}>"


NAMES: Final = tuple(Kernels.__annotations__)
KERNELS: Final = Kernels()
"""The kernels of this process."""


@cache
def target_machine() -> Any:
    """What LLVM makes code for: the processor of this machine."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


def digest_of_sources() -> str:
    """Tells the kernels of these sources from others."""
    digest = blake2b(digest_size=8)
    for source in sorted([*_SOURCES.glob("kernels/*.py"), _SOURCES / "layout.py"]):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def digest_of_machine() -> str:
    """Tells code for this processor, from these versions of the compiler, from other code."""
    from llvmlite import binding

    facts = (
        binding.get_default_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        version("llvmlite"),
        version("numba"),
        sys.implementation.cache_tag,
    )
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
