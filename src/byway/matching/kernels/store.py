"""How kernels see a `Store`: one address, from which every array is found.

Python passes a directory, an int64 array of (address, rows) pairs; `as_store` turns it into a value
that costs one register to pass on, and whose attributes are the arrays of `layout.Store` by name.
The caller keeps the arrays alive and writes the directory anew whenever one of them moves.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload_attribute, register_model

from byway.matching import layout as lay


class StoreType(types.Type):
    """The numba type of a store as kernels see it."""

    def __init__(self) -> None:
        super().__init__(name="BywayStore")


STORE = StoreType()


@register_model(StoreType)
class StoreModel(models.PrimitiveModel):
    """How numba represents a store: as the address of its directory."""

    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, ir.IntType(64))


@intrinsic
def as_store(typingctx, directory):
    """The store whose directory this array is."""

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return STORE(directory), codegen


@intrinsic
def store_at(typingctx, address):
    """The store whose directory stands at an address."""

    def codegen(context, builder, signature, args):
        return args[0]

    return STORE(types.int64), codegen


@intrinsic
def directory_word(typingctx, store, index):
    """Entry `index` of the directory."""

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(base, [args[1]]))

    return types.int64(STORE, types.int64), codegen


@intrinsic
def directory_word_at(typingctx, address, index):
    """Entry `index` of a directory at an address (the vocabulary's)."""

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(base, [args[1]]))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def pointer(typingctx, address):
    """An address as a pointer that `carray` takes."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


def _define(name: str, index: int, dtype: np.dtype, width: int) -> None:
    if width:

        @overload_attribute(StoreType, name, inline="never")
        def get(store):
            def implementation(store):
                return nb.carray(
                    pointer(directory_word(store, 2 * index)),
                    (directory_word(store, 2 * index + 1), width),
                    dtype,
                )

            return implementation

    else:

        @overload_attribute(StoreType, name, inline="never")
        def get(store):
            def implementation(store):
                return nb.carray(
                    pointer(directory_word(store, 2 * index)),
                    (directory_word(store, 2 * index + 1),),
                    dtype,
                )

            return implementation


def _define_shared(name: str, index: int, dtype: np.dtype, entry: int) -> None:
    @overload_attribute(StoreType, name, inline="never")
    def get(store):
        def implementation(store):
            shared = directory_word(store, 2 * index)
            return nb.carray(
                pointer(directory_word_at(shared, 2 * entry)),
                (directory_word_at(shared, 2 * entry + 1),),
                dtype,
            )

        return implementation


for _index, (_name, (_dtype, _width)) in enumerate(lay.ARRAYS.items()):
    _define(_name, _index, _dtype, _width)
for _entry, (_name, _dtype) in enumerate(lay.SHARED_ARRAYS.items()):
    _define_shared(_name, len(lay.ARRAYS), _dtype, _entry)
