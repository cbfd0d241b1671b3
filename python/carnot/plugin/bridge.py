"""The bridge between the C plugin interface and Python plugins: callbacks, creators, layers of networks.

C makes plugins again from their fields where it needs them: for each shape inference and once per context. A plugin
of a Python creator gets the fields of the model or of get_fields_to_serialize. A plugin object that the user added
to a network is a prototype: a field holds its token, and copies are clones of it while the network lives.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Callable, Dict, List, Sequence

from .._carnot import ffi, lib
from ..core import address, check, keep_error, text, utf8
from ..enums import TensorRTPhase
from ..types import from_c_dtype, to_c_dtype
from .adapters import (
    _BYTES,
    _OWN,
    _PROTOTYPE,
    _SERIALIZED,
    _TACTIC,
    SHAPE_INPUTS,
    Adapter,
    _int_field,
    _refuse_code,
    adapt,
)
from .classes import (
    IPluginCreator,
    IPluginCreatorV3Quick,
)
from .native import NativePlugin
from .types import (
    DimsExprs,
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
    c_fields,
)

_live: Dict[int, Adapter] = {}  # adapters that C holds, by handle
_prototypes: "weakref.WeakValueDictionary[int, Adapter]" = weakref.WeakValueDictionary()
_tokens = itertools.count(1)


def expose(adapter: Adapter) -> Any:
    """The carnot_plugin of an adapter; it lives until C destroys it."""
    handle = ffi.new_handle(adapter)
    texts = [ffi.new("char[]", utf8(part)) for part in (adapter.name, adapter.version, adapter.name_space)]
    made = ffi.new("carnot_plugin*")
    adapter._keep = [handle, made, *texts]
    made.size, made.api_version = ffi.sizeof("carnot_plugin"), lib.CARNOT_PLUGIN_API_VERSION
    made.name, made.version, made.name_space = texts
    made.self, made.output_count = handle, int(adapter.output_count)
    for function in (
        "output_dtypes output_dims shape_input supports configure on_shape_change workspace_bytes enqueue serialize "
        "clone destroy aliased_input timing_key"
    ).split():
        setattr(made, function, getattr(lib, "carnot_py_plugin_" + function))
    _live[address(handle)] = adapter
    return made


def _guard(error: Any, failed: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the plugin's code. An exception is stored for the caller of C; C gets its text."""
    try:
        return function(*arguments)
    except BaseException as raised:  # noqa: B902 - KeyboardInterrupt too must reach the caller
        keep_error(raised)
        if error:
            message = f"{type(raised).__name__}: {raised}".encode()[: ffi.sizeof(error.message) - 1]
            ffi.memmove(error.message, message + b"\0", len(message) + 1)
        return failed


def _tell_dtypes(adapter: Adapter, inputs: Any, input_count: int, outputs: Any, output_count: int) -> bool:
    given = adapter.output_dtypes(adapter.own([from_c_dtype(inputs[i]) for i in range(input_count)]))
    if len(given) != output_count:
        raise ValueError(f"{adapter.name}: {len(given)} output types for {output_count} outputs")
    for i, dtype in enumerate(given):
        outputs[i] = to_c_dtype(dtype)
    return True


@ffi.def_extern()
def carnot_py_plugin_output_dtypes(self: Any, *arguments: Any) -> bool:
    return _guard(arguments[-1], False, _tell_dtypes, ffi.from_handle(self), *arguments[:-1])


def _tell_dims(adapter: Adapter, inputs: Any, input_count: int, outputs: Any, output_count: int, exprs: Any) -> bool:
    builder = IExprBuilder(exprs)
    shapes, values = [], []
    for i in range(input_count):
        one = inputs[i]
        if i in adapter.shape_inputs:
            values.append(DimsExprs([IDimensionExpr(builder, one.values[k]) for k in range(one.value_count)]))
        else:
            shapes.append(DimsExprs([IDimensionExpr(builder, one.dims[d]) for d in range(max(0, one.rank))]))
    try:
        given = adapter.output_shapes(shapes, values, builder)
        if len(given) != output_count:
            raise ValueError(f"{adapter.name}: {len(given)} output shapes for {output_count} outputs")
        for output, dims in zip(outputs[0:output_count], given):
            output.rank = len(dims)
            for d, expr in enumerate(dims):
                if expr is None:
                    raise ValueError(f"{adapter.name}: dimension {d} of an output was not set")
                output.dims[d] = builder._int(expr)
    finally:
        builder._c = None
    return True


@ffi.def_extern()
def carnot_py_plugin_output_dims(self: Any, *arguments: Any) -> bool:
    return _guard(arguments[-1], False, _tell_dims, ffi.from_handle(self), *arguments[:-1])


@ffi.def_extern()
def carnot_py_plugin_shape_input(self: Any, index: int) -> bool:
    return index in ffi.from_handle(self).shape_inputs


def _supports(adapter: Adapter, position: int, operands: Any, input_count: int, output_count: int) -> bool:
    if position in adapter.shape_inputs:
        return operands[position].layout == lib.CARNOT_PLUGIN_LINEAR
    described = [PluginTensorDesc._of_format(operands[i]) for i in range(input_count + output_count)]
    before = sum(i < position for i in adapter.shape_inputs)
    return adapter.supports(position - before, adapter.own(described), input_count - len(adapter.shape_inputs))


@ffi.def_extern()
def carnot_py_plugin_supports(self: Any, *arguments: Any) -> bool:
    return _guard(None, False, _supports, ffi.from_handle(self), *arguments)


def _configure(adapter: Adapter, inputs: Any, input_count: int, outputs: Any, output_count: int) -> bool:
    ranges = [DynamicPluginTensorDesc._of_range(inputs[i]) for i in range(input_count)]
    adapter.configure(adapter.own(ranges), [DynamicPluginTensorDesc._of_range(outputs[i]) for i in range(output_count)])
    return True


@ffi.def_extern()
def carnot_py_plugin_configure(self: Any, *arguments: Any) -> bool:
    return _guard(arguments[-1], False, _configure, ffi.from_handle(self), *arguments[:-1])


def _change_shape(adapter: Adapter, inputs: Any, input_count: int, outputs: Any, output_count: int) -> bool:
    adapter._descs = (
        adapter.own([PluginTensorDesc._of_tensor(inputs[i]) for i in range(input_count)]),
        [PluginTensorDesc._of_tensor(outputs[i]) for i in range(output_count)],
    )
    adapter.on_shape_change(*adapter._descs)
    return True


@ffi.def_extern()
def carnot_py_plugin_on_shape_change(self: Any, *arguments: Any) -> bool:
    return _guard(arguments[-1], False, _change_shape, ffi.from_handle(self), *arguments[:-1])


@ffi.def_extern()
def carnot_py_plugin_workspace_bytes(self: Any, *arguments: Any) -> int:
    # Called right after on_shape_change, for its shapes. On failure the size exceeds all memory.
    adapter = ffi.from_handle(self)
    return int(_guard(None, 1 << 62, adapter.workspace_bytes, *adapter._descs) or 0)


def _enqueue(adapter: Adapter, run: Any) -> bool:
    inputs, outputs = adapter._descs
    pointers = [address(run.inputs[i].data) for i in range(run.input_count)]
    code = adapter.enqueue(
        inputs,
        outputs,
        adapter.own(pointers),
        [address(run.outputs[i].data) for i in range(run.output_count)],
        address(run.workspace),
        address(run.stream),
    )
    _refuse_code(code, "enqueue")
    return True


@ffi.def_extern()
def carnot_py_plugin_enqueue(self: Any, run: Any, error: Any) -> bool:
    return _guard(error, False, _enqueue, ffi.from_handle(self), run)


def _serialize(adapter: Adapter, out_fields: Any, out_count: Any) -> bool:
    fields = adapter.fields()
    keep: List[Any] = []
    out_fields[0], out_count[0] = c_fields(fields, keep), len(fields)
    adapter._serialized = keep
    return True


@ffi.def_extern()
def carnot_py_plugin_serialize(self: Any, *arguments: Any) -> bool:
    return _guard(arguments[-1], False, _serialize, ffi.from_handle(self), *arguments[:-1])


@ffi.def_extern()
def carnot_py_plugin_clone(self: Any, error: Any) -> Any:
    return _guard(error, ffi.NULL, lambda: expose(ffi.from_handle(self).copy(for_context=True)))


@ffi.def_extern()
def carnot_py_plugin_destroy(self: Any) -> None:
    adapter = _live.pop(address(self))
    _guard(None, None, adapter.destroy)


@ffi.def_extern()
def carnot_py_plugin_aliased_input(self: Any, output: int) -> int:
    return _guard(None, -1, ffi.from_handle(self).aliased_input, output)


@ffi.def_extern()
def carnot_py_plugin_timing_key(self: Any) -> Any:
    adapter = ffi.from_handle(self)
    key = _guard(None, None, adapter.timing_key)
    if key is None:
        return ffi.NULL
    adapter._key = ffi.new("char[]", utf8(key))
    return adapter._key


def _make(creator: Any, name: str, given: List[PluginField]) -> Adapter:
    own = {field.name: field for field in given if field.name in _OWN}
    fields = PluginFieldCollection(field for field in given if field.name not in _OWN)
    shape_inputs = [int(i) for i in own[SHAPE_INPUTS].data] if SHAPE_INPUTS in own else ()
    prototype = _prototypes.get(int(own[_PROTOTYPE].data[0])) if _PROTOTYPE in own else None
    phase = TensorRTPhase.RUNTIME if _SERIALIZED in own else TensorRTPhase.BUILD
    if prototype is not None and (prototype.name, prototype.version) == (creator.name, creator.plugin_version):
        adapter = prototype.copy(for_context=False)
    else:
        if _BYTES in own:
            plugin = creator.deserialize_plugin(name, own[_BYTES].data.tobytes())
        elif isinstance(creator, IPluginCreator):
            plugin = creator.create_plugin(name, fields)
        elif isinstance(creator, IPluginCreatorV3Quick):
            plugin = creator.create_plugin(name or creator.name, creator.plugin_namespace, fields, phase)
        else:
            plugin = creator.create_plugin(name, fields, phase)
        if plugin is None:
            raise RuntimeError(f"the creator of {creator.name} version {creator.plugin_version} made no plugin")
        adapter = adapt(plugin, shape_inputs)
    if _TACTIC in own:
        adapter.set_tactic(int(own[_TACTIC].data[0]))
    return adapter


def _create(creator: Any, name: Any, fields: Any, count: int) -> Any:
    return expose(_make(creator, text(name), [PluginField._of_c(fields[i]) for i in range(count)]))


@ffi.def_extern()
def carnot_py_plugin_create(user: Any, name: Any, fields: Any, count: int, phase: int, error: Any) -> Any:
    return _guard(error, ffi.NULL, _create, ffi.from_handle(user), name, fields, count)


def c_creator(creator: Any, name_space: str) -> Any:
    """A carnot_plugin_creator and the objects that it borrows."""
    keep: List[Any] = [ffi.new_handle(creator)]
    fields = list(creator.field_names or ())
    if fields:
        fields.append(_int_field(SHAPE_INPUTS, []))
    texts = [ffi.new("char[]", utf8(part)) for part in (creator.name, creator.plugin_version, name_space)]
    made = ffi.new("carnot_plugin_creator*")
    made.size, made.api_version = ffi.sizeof("carnot_plugin_creator"), lib.CARNOT_PLUGIN_API_VERSION
    made.name, made.version, made.name_space = texts
    made.fields, made.field_count = c_fields(fields, keep), len(fields)
    made.user, made.create = keep[0], lib.carnot_py_plugin_create
    return made, [*keep, *texts]


def output_count(plugin: Any) -> int:
    if isinstance(plugin, NativePlugin):
        return plugin.num_outputs
    return int(adapt(plugin).output_count)


class Prototype:
    """A plugin object of the user, for a call that takes its fields. |c| is the carnot_plugin within the block.

    C makes copies of |adapter| as long as it lives; it is None for a plugin of a C library.
    """

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        self.plugin, self.adapter = plugin, None
        if isinstance(plugin, NativePlugin):
            self.c = plugin._c
            return
        self.adapter = adapt(plugin, shape_inputs)
        self.adapter.is_prototype, self.adapter.token = True, next(_tokens)
        _prototypes[self.adapter.token] = self.adapter
        self.c = expose(self.adapter)

    def __enter__(self) -> "Prototype":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.adapter is not None:
            del _live[address(self.c.self)]


def add_to_network(
    emitter: Any, layer: Any, plugin: Any, inputs: Sequence[Any], shape_inputs: Sequence[Any]
) -> List[Any]:
    """Adds the node of |plugin|; returns the values of its outputs."""
    values = [emitter.value(tensor) for tensor in (*inputs, *shape_inputs)]
    out = ffi.new("carnot_value*[]", max(1, output_count(plugin)))
    c_inputs = ffi.new("carnot_value*[]", values or [ffi.NULL])
    with Prototype(plugin, range(len(inputs), len(values))) as prototype:
        layer._prototype = prototype.adapter
        check(lib.carnot_network_add_plugin(emitter.c, prototype.c, c_inputs, len(values), out))
        return [out[i] for i in range(prototype.c.output_count)]
