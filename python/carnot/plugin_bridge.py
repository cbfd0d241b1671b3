"""Python plugins behind the C plugin interface, and C plugins as Python objects.

C makes plugins anew from their fields where it needs them: at each inference of shapes, and once for each context.
A plugin made by a Python creator gets the fields that the model or get_fields_to_serialize gave. A plugin that the
user added as an object is a prototype: its fields say which, and copies are clones as long as the network lives.
"""

from __future__ import annotations

import ast
import itertools
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from ._carnot import ffi, lib
from .core import address, check, keep_error, text, utf8
from .enums import PluginCapabilityType, PluginFieldType, TensorRTPhase
from .plugin_classes import (
    IPluginCreator,
    IPluginCreatorV3One,
    IPluginCreatorV3Quick,
    IPluginResourceContext,
    IPluginV2DynamicExt,
    IPluginV3,
)
from .plugin_types import (
    DimsExprs,
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
    c_fields,
)
from .types import from_c_dtype, to_c_dtype, volume

# Fields of the bridge's own, next to the author's.
_SERIALIZED = "carnot.serialized"  # the others come from get_fields_to_serialize
_BYTES = "carnot.bytes"  # what serialize gave
_PROTOTYPE = "carnot.prototype"
_TACTIC = "carnot.tactic"
SHAPE_INPUTS = "tensorrt_plugin_shape_input_indices"
_OWN = (_SERIALIZED, _BYTES, _PROTOTYPE, _TACTIC, SHAPE_INPUTS)


def _int_field(name: str, values: Sequence[int]) -> PluginField:
    return PluginField(name, np.array(values, np.int32), PluginFieldType.INT32)


# ---- plugins as C sees them ----


class Adapter:
    """What C asks of a Python plugin, whatever its version. |shape_inputs|: those read for their elements."""

    name = version = name_space = ""
    output_count = 0

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        self.plugin, self.shape_inputs = plugin, tuple(shape_inputs)
        self.tactic = 0
        self.is_prototype = False
        self.token = 0
        self._keep: List[Any] = []
        self._descs: Any = None

    def own(self, items: Sequence[Any]) -> List[Any]:
        """Without the shape inputs, which the author's functions do not get."""
        return [item for i, item in enumerate(items) if i not in self.shape_inputs]

    def again(self, plugin: Any) -> "Adapter":
        """The same for a copy of the plugin."""
        made = type(self)(plugin, self.shape_inputs)
        made.set_tactic(self.tactic)
        return made

    def fields(self) -> List[PluginField]:
        fields = self.author_fields()
        if self.shape_inputs:
            fields.append(_int_field(SHAPE_INPUTS, self.shape_inputs))
        if self.is_prototype:
            fields.append(_int_field(_PROTOTYPE, [self.token]))
        if self.tactic:
            fields.append(_int_field(_TACTIC, [self.tactic]))
        return fields

    def set_tactic(self, tactic: int) -> None:
        self.tactic = tactic

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        raise NotImplementedError

    def author_fields(self) -> List[PluginField]:
        raise NotImplementedError


class AdapterV2(Adapter):
    """An IPluginV2DynamicExt."""

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        super().__init__(plugin, shape_inputs)
        self.name, self.version = plugin.plugin_type, plugin.plugin_version
        self.name_space, self.output_count = plugin.plugin_namespace, plugin.num_outputs
        self._is_ready = False

    def output_dtypes(self, inputs: List[Any]) -> List[Any]:
        return [self.plugin.get_output_datatype(i, inputs) for i in range(self.output_count)]

    def output_shapes(self, inputs: List[DimsExprs], values: List[DimsExprs], builder: IExprBuilder) -> List[Any]:
        return [
            self.plugin.get_output_dimensions(i, [DimsExprs(d) for d in inputs], builder)
            for i in range(self.output_count)
        ]

    def supports(self, position: int, operands: List[PluginTensorDesc], input_count: int) -> bool:
        return bool(self.plugin.supports_format_combination(position, operands, input_count))

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.plugin.configure_plugin(inputs, outputs)

    def on_shape_change(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.start()

    def workspace_bytes(self, inputs: List[Any], outputs: List[Any]) -> int:
        return self.plugin.get_workspace_size(inputs, outputs)

    def enqueue(self, *arguments: Any) -> Any:
        return self.plugin.enqueue(*arguments)

    def start(self) -> None:
        if not self._is_ready:
            _refuse_code(self.plugin.initialize(), "initialize")
        self._is_ready = True

    def author_fields(self) -> List[PluginField]:
        data = self.plugin.serialize()
        return [PluginField(_BYTES, data.encode() if isinstance(data, str) else bytes(data), PluginFieldType.CHAR)]

    def copy(self, for_context: bool) -> Adapter:
        return self.again(self.plugin.clone())

    def destroy(self) -> None:
        if self._is_ready:
            self.plugin.terminate()
        self.plugin.destroy()

    def aliased_input(self, output: int) -> int:
        return -1

    def timing_key(self) -> Optional[str]:
        return None


class AdapterV3(Adapter):
    """An IPluginV3 with its capabilities."""

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        super().__init__(plugin, shape_inputs)
        self.core = self._capability(PluginCapabilityType.CORE)
        self.build = self._capability(PluginCapabilityType.BUILD)
        self.runtime = self._capability(PluginCapabilityType.RUNTIME)
        self.name, self.version = self.core.plugin_name, self.core.plugin_version
        self.name_space, self.output_count = self.core.plugin_namespace, self.build.num_outputs

    def _capability(self, kind: PluginCapabilityType) -> Any:
        found = self.plugin.get_capability_interface(kind)
        if found is None:
            raise TypeError(f"{type(self.plugin).__name__}.get_capability_interface gave no {kind.name} capability")
        return found

    def output_dtypes(self, inputs: List[Any]) -> List[Any]:
        return list(self.build.get_output_data_types(inputs))

    def output_shapes(self, inputs: List[DimsExprs], values: List[DimsExprs], builder: IExprBuilder) -> List[Any]:
        return list(self.build.get_output_shapes(inputs, values, builder))

    def supports(self, position: int, operands: List[PluginTensorDesc], input_count: int) -> bool:
        described = [DynamicPluginTensorDesc._of_desc(operand) for operand in operands]
        return bool(self.build.supports_format_combination(position, described, input_count))

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.build.configure_plugin(inputs, outputs)
        tactics = [int(tactic) for tactic in self.build.get_valid_tactics() or ()]
        if any(tactic <= 0 for tactic in tactics):
            raise ValueError(f"{self.name}: get_valid_tactics gave {tactics}; tactics are numbers above 0")
        if tactics:
            self.set_tactic(_fastest(self, tactics, inputs, outputs))

    def on_shape_change(self, inputs: List[Any], outputs: List[Any]) -> None:
        _refuse_code(self.runtime.on_shape_change(inputs, outputs), "on_shape_change")

    def workspace_bytes(self, inputs: List[Any], outputs: List[Any]) -> int:
        described = [[DynamicPluginTensorDesc._of_desc(desc) for desc in part] for part in (inputs, outputs)]
        return self.build.get_workspace_size(*described)

    def enqueue(self, *arguments: Any) -> Any:
        return self.runtime.enqueue(*arguments)

    def set_tactic(self, tactic: int) -> None:
        self.tactic = tactic
        if tactic:
            self.runtime.set_tactic(tactic)

    def author_fields(self) -> List[PluginField]:
        return [*(self.runtime.get_fields_to_serialize() or ()), _int_field(_SERIALIZED, [1])]

    def copy(self, for_context: bool) -> Adapter:
        made = self.runtime.attach_to_context(IPluginResourceContext()) if for_context else None
        return self.again(self.plugin.clone() if made is None else made)

    def destroy(self) -> None:
        self.plugin.destroy()

    def aliased_input(self, output: int) -> int:
        ask = getattr(self.build, "get_aliased_input", None)
        return -1 if ask is None else int(ask(output))

    def timing_key(self) -> Optional[str]:
        return self.build.timing_cache_id or None


def _refuse_code(code: Any, function: str) -> None:
    """Functions of C++ give a status; Python's may too."""
    if isinstance(code, int) and code:
        raise RuntimeError(f"{function} gave status {int(code)}")


def adapt(plugin: Any, shape_inputs: Sequence[int] = ()) -> Adapter:
    if isinstance(plugin, IPluginV3):
        return AdapterV3(plugin, shape_inputs)
    if isinstance(plugin, IPluginV2DynamicExt):
        return AdapterV2(plugin, shape_inputs)
    raise TypeError(f"a plugin must be an IPluginV3 or an IPluginV2DynamicExt, not {type(plugin).__name__}")


def _fastest(adapter: AdapterV3, tactics: List[int], inputs: List[Any], outputs: List[Any]) -> int:
    """The tactic that takes the least time at the usual shapes; the first where those are not known."""
    operands = [[_at_optimum(one) for one in part] for part in (inputs, outputs)]
    if len(tactics) == 1 or any(-1 in desc.dims for part in operands for desc in part):
        return tactics[0]
    memory = [[np.zeros(max(1, _bytes_of(desc)), np.uint8) for desc in part] for part in operands]
    pointers = [[array.ctypes.data for array in part] for part in memory]
    best: Dict[int, float] = {}
    for tactic in tactics:
        trial = adapter.again(adapter.plugin.clone())
        trial.set_tactic(tactic)
        trial.on_shape_change(*operands)
        workspace = np.zeros(max(1, trial.workspace_bytes(*operands)), np.uint8)
        for _ in range(3):
            start = time.perf_counter()
            _refuse_code(trial.enqueue(*operands, *pointers, workspace.ctypes.data, 0), "enqueue")
            best[tactic] = min(best.get(tactic, float("inf")), time.perf_counter() - start)
    return min(best, key=lambda tactic: best[tactic])


def _at_optimum(operand: DynamicPluginTensorDesc) -> PluginTensorDesc:
    desc = PluginTensorDesc()
    desc.type, desc.format, desc.dims = operand.desc.type, operand.desc.format, operand.opt
    return desc


def _bytes_of(desc: PluginTensorDesc) -> int:
    return lib.carnot_dtype_bytes(to_c_dtype(desc.type), volume(desc.dims))


# ---- callbacks ----

_live: Dict[int, Adapter] = {}  # what C holds, by handle
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
    """Calls the author's code. Its exception is kept for the caller of C; C gets the text."""
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
    # Asked right after on_shape_change, at its shapes. What it cannot say is more than there is.
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


# ---- creators ----


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
    """A carnot_plugin_creator and what it borrows."""
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


# ---- C plugins as Python objects ----


class NativePlugin(IPluginV2DynamicExt, IPluginV3):
    """A plugin of the library or of a shared object: it can be added to networks."""

    def __init__(self, made: Any) -> None:
        self._c = ffi.gc(made, lib.carnot_plugin_destroy)
        self.plugin_type = self.plugin_name = text(made.name)
        self.plugin_version, self.plugin_namespace = text(made.version), text(made.name_space)
        self.num_outputs = made.output_count

    def fields(self) -> PluginFieldCollection:
        out, count, error = ffi.new("carnot_plugin_field**"), ffi.new("int32_t*"), ffi.new("carnot_plugin_error*")
        if not self._c.serialize(self._c.self, ffi.cast("carnot_plugin_field const**", out), count, error):
            raise RuntimeError(f"plugin {self.plugin_type}: serialize: {text(error.message)}")
        return PluginFieldCollection(PluginField._of_c(out[0][i]) for i in range(count[0]))

    def serialize(self) -> bytes:
        return repr([(field.name, field._plain(), field.type.value) for field in self.fields()]).encode()

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        return self.fields()

    def get_capability_interface(self, type: PluginCapabilityType) -> Any:  # noqa: A002
        return self

    def clone(self) -> Any:
        return NativeCreator(self.plugin_type, self.plugin_version, self.plugin_namespace).create_plugin(
            "", self.fields()
        )


class NativeCreator(IPluginCreator, IPluginCreatorV3One):
    """A creator of the library or of a shared object."""

    def __init__(self, name: str, version: str, name_space: str) -> None:
        self.name, self.plugin_version, self.plugin_namespace = name, version, name_space

    def _find(self) -> Any:
        found = ffi.new("carnot_plugin_creator const**")
        check(
            lib.carnot_plugin_find(*(utf8(s) for s in (self.name, self.plugin_version, self.plugin_namespace)), found)
        )
        return found[0]

    @property
    def field_names(self) -> PluginFieldCollection:  # type: ignore[override]
        found = self._find()
        return PluginFieldCollection(PluginField._of_c(found.fields[i]) for i in range(found.field_count))

    def create_plugin(self, name: str, field_collection: Any, phase: Any = TensorRTPhase.BUILD) -> Any:
        keep: List[Any] = []
        fields, made = list(field_collection or ()), ffi.new("carnot_plugin**")
        check(lib.carnot_plugin_create(self._find(), utf8(name), c_fields(fields, keep), len(fields), made))
        return NativePlugin(made[0])

    def deserialize_plugin(self, name: str, serialized_plugin: Any) -> Any:
        parts = ast.literal_eval(bytes(serialized_plugin).decode())
        return self.create_plugin(name, [PluginField(n, data, PluginFieldType(t)) for n, data, t in parts])


# ---- networks ----


def output_count(plugin: Any) -> int:
    if isinstance(plugin, NativePlugin):
        return plugin.num_outputs
    return int(adapt(plugin).output_count)


def add_to_network(
    emitter: Any, layer: Any, plugin: Any, inputs: Sequence[Any], shape_inputs: Sequence[Any]
) -> List[Any]:
    """Adds the nodes of |plugin|; gives the values of its outputs."""
    values = [emitter.value(tensor) for tensor in (*inputs, *shape_inputs)]
    out = ffi.new("carnot_value*[]", max(1, output_count(plugin)))
    c_inputs = ffi.new("carnot_value*[]", values or [ffi.NULL])
    if isinstance(plugin, NativePlugin):
        check(lib.carnot_network_add_plugin(emitter.c, plugin._c, c_inputs, len(values), out))
        return [out[i] for i in range(plugin.num_outputs)]
    adapter = adapt(plugin, range(len(inputs), len(values)))
    adapter.is_prototype, adapter.token = True, next(_tokens)
    _prototypes[adapter.token] = layer._prototype = adapter
    made = expose(adapter)
    try:
        check(lib.carnot_network_add_plugin(emitter.c, made, c_inputs, len(values), out))
    finally:
        del _live[address(made.self)]
    return [out[i] for i in range(adapter.output_count)]
