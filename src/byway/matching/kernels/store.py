"""How kernels see a `Store`: one address, from which every array is found.

Python passes the address of a directory, an int64 array of (address, rows) pairs; `store_at` turns
it into a value that costs one register to pass on, and whose attributes are the arrays of
`layout.ARRAYS` by name. The caller keeps the arrays alive and writes the directory anew whenever
one of them moves. What is made here is written down where it is used, and compiles nothing.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from byway.matching import layout as lay

_INT64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


class StoreType(types.Type):
    """The numba type of a store as kernels see it."""

    def __init__(self) -> None:
        super().__init__(name="BywayStore")


STORE = StoreType()


@register_model(StoreType)
class StoreModel(models.PrimitiveModel):
    """How numba represents a store: as the address of its directory."""

    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _INT64)


@infer_getattr
class StoreAttributes(AttributeTemplate):
    """The types of a store's attributes."""

    key = StoreType

    def generic_resolve(self, store, name):
        """The type of the array with a name, or None."""
        return _type_of(name)


def _type_of(name):
    if name in lay.ARRAYS:
        dtype, width = lay.ARRAYS[name]
        return types.Array(from_dtype(dtype), 2 if width else 1, "C")
    if name in lay.SHARED_ARRAYS:
        return types.Array(from_dtype(lay.SHARED_ARRAYS[name]), 1, "C")
    return None


_POSITIONS = {name: 2 * index for index, name in enumerate(lay.ARRAYS)}
_SHARED_POSITIONS = {name: 2 * index for index, name in enumerate(lay.SHARED_ARRAYS)}


@lower_getattr_generic(StoreType)
def _get_array(context, builder, typ, store, name):
    """The array that the directory has under a name."""
    if name in _SHARED_POSITIONS:  # the vocabulary's own directory follows the arrays
        directory = _word(builder, store, 2 * len(lay.ARRAYS))
        position = _SHARED_POSITIONS[name]
        width = 0
    else:
        directory, position = store, _POSITIONS[name]
        width = lay.ARRAYS[name][1]
    kind = _type_of(name)
    shape = [_word(builder, directory, position + 1)]
    if width:
        shape.append(_INT64(width))
    return _array(context, builder, kind, _word(builder, directory, position), shape)


def _word(builder, directory, index):
    """Entry `index` of a directory."""
    base = builder.inttoptr(directory, _INT64.as_pointer())
    return builder.load(builder.gep(base, [_INT64(index)]))


def _array(context, builder, kind, address, shape):
    """An array of a type, with rows of the given shape, that lies at an address."""
    array = context.make_array(kind)(context, builder)
    item = context.get_data_type(kind.dtype)
    itemsize = cgutils.intp_t(context.get_abi_sizeof(item))
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(address, item.as_pointer())
    populate_array(array, data, shape, strides, itemsize, meminfo=None)
    return array._getvalue()


@intrinsic
def store_at(typingctx, address):
    """The store whose directory stands at an address."""

    def codegen(context, builder, signature, args):
        return args[0]

    return STORE(types.int64), codegen


@intrinsic(prefer_literal=False)
def array_at(typingctx, address, rows, dtype):
    """An array of so many rows that lies at an address."""
    kind = types.Array(dtype.instance_type, 1, "C")

    def codegen(context, builder, signature, args):
        return _array(context, builder, kind, args[0], [args[1]])

    return kind(types.int64, types.int64, dtype), codegen


@intrinsic
def take_memory(typingctx, size):
    """The address of so many bytes of memory, which `give_memory` must give back. Kernels have no
    other way to allocate: they run where numba is not."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(_BYTES, [_INT64])
        malloc = cgutils.get_or_insert_function(builder.module, kind, "malloc")
        return builder.ptrtoint(builder.call(malloc, [args[0]]), _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def give_memory(typingctx, address):
    """Give back what `take_memory` returned."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [_BYTES])
        free = cgutils.get_or_insert_function(builder.module, kind, "free")
        builder.call(free, [builder.inttoptr(args[0], _BYTES)])
        return context.get_dummy_value()

    return types.none(types.int64), codegen
