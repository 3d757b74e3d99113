"""Python functions around entry kernels, as LLVM code: integers in, one integer or a tuple out. A
parameter `x` of a kernel that is followed by `x_size` is given as one object, of type `bytes`.

Each becomes a function of Python's "fast call" convention and a `PyMethodDef` that describes it,
from which `byway.matching.native` makes a callable object. The interpreter lock is released while a
kernel runs. Kernels cannot raise, so what numba returns beside an answer is not looked at.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from byway.matching.native import METHOD

_FAST_CALL: Final = 0x80  # METH_FASTCALL
_INT: Final = ir.IntType(32)
_INT64: Final = ir.IntType(64)
_SIZE: Final = ir.IntType(64)
_BYTES: Final = ir.IntType(8).as_pointer()
_OBJECT: Final = ir.IntType(8).as_pointer()


def wrappers(kernels: list[Any]) -> ir.Module:
    """A module with a wrapper for each kernel; `kernels` are what numba lowered."""
    module = ir.Module("byway_wrappers")
    for kernel in kernels:
        _wrap(module, kernel)
    return module


def _wrap(module: ir.Module, kernel: Any) -> None:
    name = kernel.fndesc.qualname
    parameters = kernel.fndesc.args
    given_as_bytes = {name for name in parameters if f"{name}_size" in parameters}
    arguments = len(parameters) - len(given_as_bytes)
    native = ir.Function(
        module,
        kernel.target_context.call_conv.get_function_type(
            kernel.fndesc.restype, kernel.fndesc.argtypes
        ),
        kernel.fndesc.llvm_func_name,
    )
    function_type = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _SIZE])
    function = ir.Function(module, function_type, f"byway_call_{name}")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    api = _Python(module, builder)
    _, objects, count = function.args
    with builder.if_then(builder.icmp_signed("!=", count, _SIZE(arguments)), likely=False):
        api.call("PyErr_BadArgument", _INT)
        builder.ret(_OBJECT(None))
    numbers: list[ir.Value] = []
    position = 0
    for parameter in parameters:
        if parameter.removesuffix("_size") in given_as_bytes and parameter not in given_as_bytes:
            continue
        given = builder.load(builder.gep(objects, [_SIZE(position)]))
        position += 1
        if parameter in given_as_bytes:
            content = api.call("PyBytes_AsString", _BYTES, given)
            numbers.append(builder.ptrtoint(content, _INT64))
            numbers.append(api.call("PyBytes_Size", _SIZE, given))
        else:
            numbers.append(api.call("PyLong_AsLongLong", _INT64, given))
    failed = builder.icmp_unsigned("!=", api.call("PyErr_Occurred", _OBJECT), _OBJECT(None))
    with builder.if_then(failed, likely=False):
        builder.ret(_OBJECT(None))
    answer = builder.alloca(native.ftype.args[0].pointee)
    problem = builder.alloca(native.ftype.args[1].pointee)
    state = api.call("PyEval_SaveThread", _BYTES)
    builder.call(native, [answer, problem, *numbers])
    api.call("PyEval_RestoreThread", ir.VoidType(), state)
    builder.ret(_result(builder, api, kernel.signature.return_type, answer))
    _describe(module, name, function)


def _result(builder: ir.IRBuilder, api: _Python, kind: Any, answer: ir.Value) -> ir.Value:
    """The object that a kernel's answer becomes."""
    if kind == types.none:
        # None is not known by name here: kernels without an answer return 0
        return api.call("PyLong_FromLongLong", _OBJECT, _INT64(0))
    value = builder.load(answer)
    if not isinstance(kind, types.BaseTuple):
        return _number(builder, api, kind, value)
    result = api.call("PyTuple_New", _OBJECT, _SIZE(len(kind)))
    parts: tuple[Any, ...] = tuple(kind)  # type: ignore[arg-type]
    for position, part in enumerate(parts):
        number = _number(builder, api, part, builder.extract_value(value, position))
        api.call("PyTuple_SetItem", _INT, result, _SIZE(position), number)
    return result


def _number(builder: ir.IRBuilder, api: _Python, kind: Any, value: ir.Value) -> ir.Value:
    if kind == types.uint64:
        return api.call("PyLong_FromUnsignedLongLong", _OBJECT, value)
    assert kind == types.int64, f"an entry kernel returns {kind}"
    return api.call("PyLong_FromLongLong", _OBJECT, value)


def _describe(module: ir.Module, name: str, function: ir.Function) -> None:
    """The `PyMethodDef` of a wrapper, under a name that the loader finds."""
    text = ir.Constant(ir.ArrayType(ir.IntType(8), len(name) + 1), bytearray(name.encode() + b"\0"))
    spelled = ir.GlobalVariable(module, text.type, f"byway_name_{name}")
    spelled.linkage = "internal"
    spelled.global_constant = True
    spelled.initializer = text
    kind = ir.LiteralStructType([_BYTES, function.type, _INT, _BYTES])
    method = ir.GlobalVariable(module, kind, METHOD + name)
    zero = _INT(0)
    method.initializer = ir.Constant(
        kind, [spelled.gep([zero, zero]), function, _INT(_FAST_CALL), ir.Constant(_BYTES, None)]
    )


class _Python:
    """Calls of Python's C interface."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder) -> None:
        self._module = module
        self._builder = builder

    def call(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        """Call a function of the interface, which is declared at its first use."""
        if name not in self._module.globals:
            kind = ir.FunctionType(result, [value.type for value in arguments])
            ir.Function(self._module, kind, name)
        return self._builder.call(self._module.globals[name], arguments)
