"""Plugins as functions: the decorators, and the plugin and creator classes behind them."""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import numpy as np

from ..enums import (
    DataType,
    PluginCapabilityType,
    PluginFieldType,
    QuickPluginCreationRequest,
    TensorFormat,
    TensorRTPhase,
)
from .classes import (
    IPluginCreatorV3Quick,
    IPluginV3,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
)
from .descs import Shape, ShapeExpr, ShapeExprs, SizeTensorShapeExpr, Tensor, TensorDesc
from .registry import get_plugin_registry
from .types import PluginField, PluginFieldCollection

_FIELDS = {
    int: PluginFieldType.INT64,
    float: PluginFieldType.FLOAT64,
    bool: PluginFieldType.INT8,
    str: PluginFieldType.CHAR,
    bytes: PluginFieldType.CHAR,
}
_ARRAY_FIELDS = {
    np.dtype(np.int8): PluginFieldType.INT8,
    np.dtype(np.int16): PluginFieldType.INT16,
    np.dtype(np.int32): PluginFieldType.INT32,
    np.dtype(np.int64): PluginFieldType.INT64,
    np.dtype(np.float16): PluginFieldType.FLOAT16,
    np.dtype(np.float32): PluginFieldType.FLOAT32,
    np.dtype(np.float64): PluginFieldType.FLOAT64,
    np.dtype(np.bool_): PluginFieldType.INT8,
}
_TYPE_NAMES = {"FP32": DataType.FLOAT, "FP16": DataType.HALF}


# ---- definitions ----


class PluginDef:
    """A plugin defined by functions. A call returns the argument of INetworkDefinition.add_plugin."""

    def __init__(self, plugin_id: str, function: Callable[..., Any]) -> None:
        self.plugin_id, self.register_func = plugin_id, function
        self.namespace, self.name = _split(plugin_id)
        self.impl_func: Optional[Callable[..., Any]] = None
        self.aot_impl_func: Optional[Callable[..., Any]] = None
        self.autotune_func: Optional[Callable[..., Any]] = None
        self.tensor_names, self.attr_types = _parameters(plugin_id, function)
        self.creator: Optional["_Creator"] = None

    def know(self) -> "_Creator":
        """The creator; registered on first use."""
        if self.creator is None:
            self.creator = _Creator(self)
            if not get_plugin_registry().register_creator(self.creator, self.namespace):
                raise ValueError(f"plugin {self.plugin_id} is registered already")
        return self.creator

    def __call__(self, *tensors: Any, **attrs: Any) -> "_Call":
        if len(tensors) != len(self.tensor_names):
            raise ValueError(f"{self.plugin_id} takes {len(self.tensor_names)} tensors, not {len(tensors)}")
        for i, tensor in enumerate(tensors):
            if not hasattr(tensor, "is_network_input"):
                raise ValueError(f"{self.plugin_id}: input {i} must be an ITensor, not {type(tensor).__name__}")
        if set(attrs) != set(self.attr_types):
            raise ValueError(f"{self.plugin_id} takes the attributes {sorted(self.attr_types)}, not {sorted(attrs)}")
        return _Call(self, tensors, PluginFieldCollection(self.field(name, value) for name, value in attrs.items()))

    def field(self, name: str, value: Any) -> PluginField:
        kind = self.attr_types[name]
        if isinstance(kind, np.dtype):
            array = np.asarray(value)
            if array.dtype != kind:
                raise ValueError(f"{self.plugin_id}: attribute {name} must be an array of {kind}, not {array.dtype}")
            return PluginField(name, array, _ARRAY_FIELDS[kind])
        if type(value) is not kind:
            raise ValueError(f"{self.plugin_id}: attribute {name} must be {kind.__name__}, not {type(value).__name__}")
        return PluginField(name, value if kind in (str, bytes) else np.array([value]), _FIELDS[kind])

    def value(self, field: PluginField) -> Any:
        if field.name not in self.attr_types:
            raise ValueError(f"{self.plugin_id} has no attribute {field.name}, only {sorted(self.attr_types)}")
        kind, data = self.attr_types[field.name], field._array()
        if isinstance(kind, np.dtype):
            return data.astype(kind)
        if kind in (str, bytes):
            raw = data.tobytes()
            return raw.decode() if kind is str else raw
        return kind(data[0])


class _Call(tuple):
    """Tensors, shape tensors and the plugin, which is created when the network adds it."""

    def __new__(cls, definition: PluginDef, tensors: Sequence[Any], fields: PluginFieldCollection) -> "_Call":
        made = super().__new__(cls, (list(tensors), [], None))
        made.definition, made.fields = definition, fields
        return made

    def given(self, aot: Optional[bool]) -> Any:
        """The arguments of add_plugin_v3."""
        definition = self.definition
        if aot is None:
            aot = definition.aot_impl_func is not None and definition.impl_func is None
        request = QuickPluginCreationRequest.STRICT_AOT if aot else QuickPluginCreationRequest.UNKNOWN
        creator = definition.know()
        plugin = creator.create_plugin(definition.name, definition.namespace, self.fields, TensorRTPhase.BUILD, request)
        return self[0], self[1], plugin


def _split(plugin_id: str) -> List[str]:
    parts = plugin_id.split("::")
    if len(parts) != 2 or not all(part.isidentifier() for part in parts):
        raise ValueError(f"a plugin is called NAMESPACE::NAME, not {plugin_id!r}")
    return parts


def _parameters(plugin_id: str, function: Callable[..., Any]) -> Any:
    """Names of the tensors, and the types of the attributes."""
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise ValueError(f"{plugin_id}: a type hint cannot be read: {error}") from None
    tensors: List[str] = []
    attrs: Dict[str, Any] = {}
    for name in inspect.signature(function).parameters:
        hint = hints.get(name)
        if hint is TensorDesc:
            if attrs:
                raise ValueError(f"{plugin_id}: tensor {name} must stand before the attributes")
            tensors.append(name)
        elif hint in _FIELDS:
            attrs[name] = hint
        elif typing.get_origin(hint) is np.ndarray:
            attrs[name] = np.dtype(typing.get_args(typing.get_args(hint)[1])[0])
        else:
            raise ValueError(
                f"{plugin_id}: parameter {name} must be a TensorDesc, int, float, bool, str, bytes or "
                f"numpy.typing.NDArray, not {hint}"
            )
    return tensors, attrs


class _Names(types.ModuleType):
    """Namespaces and plugins as attributes, added by register."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__name__} has no {name}")


op = _Names("carnot.plugin.op")
_definitions: Dict[str, PluginDef] = {}


def _definition(plugin_id: str) -> PluginDef:
    if plugin_id not in _definitions:
        raise ValueError(f"plugin {plugin_id} is not registered: use carnot.plugin.register first")
    return _definitions[plugin_id]


# ---- decorators ----


def register(plugin_id: str, lazy_register: bool = False) -> Callable[[Any], Any]:
    """Decorates the function that describes the outputs: (TensorDesc …, attributes …) -> TensorDesc or a tuple."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made = PluginDef(plugin_id, function)
        if plugin_id in _definitions:
            raise ValueError(f"plugin {plugin_id} is registered already")
        if not lazy_register:
            made.know()
        _definitions[plugin_id] = made
        if made.namespace not in vars(op):
            setattr(op, made.namespace, _Names(f"carnot.plugin.op.{made.namespace}"))
        setattr(getattr(op, made.namespace), made.name, made)
        return function

    return decorate


def _attach(attribute: str, extra: Sequence[str]) -> Callable[[str], Callable[[Any], Any]]:
    def named(plugin_id: str) -> Callable[[Any], Any]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            definition = _definition(plugin_id)
            given = list(inspect.signature(function).parameters)
            known = [*definition.tensor_names, *definition.attr_types, *extra]
            wrong = [name for name in given if name not in known]
            lacking = [name for name in (*definition.tensor_names, "outputs") if name not in given]
            if wrong or lacking:
                raise ValueError(f"{plugin_id}: the parameters {given} must be tensors, attributes and {list(extra)}")
            setattr(definition, attribute, function)
            return function

        return decorate

    return named


impl = _attach("impl_func", ("outputs", "stream", "tactic"))
impl.__doc__ = "The function computes: (Tensor …, attributes …, outputs, stream[, tactic])."
aot_impl = _attach("aot_impl_func", ("outputs", "tactic"))
aot_impl.__doc__ = "The function gives a compiled kernel; for GPUs."
autotune = _attach("autotune_func", ("outputs",))
autotune.__doc__ = "The function says the types, formats and tactics: (TensorDesc …, attributes …, outputs) -> list."


# ---- types, formats and tactics ----


def _variants(operands: Sequence[str]) -> List[List[str]]:
    """All combinations: operands with '|' vary together, those with '*' alone."""
    together = {len(text.split("|")) for text in operands if "|" in text}
    if len(together) > 1 or any("|" in text and "*" in text for text in operands):
        raise ValueError(f"{list(operands)}: lists with '|' must be of one length, and '|' and '*' apart")
    found = []
    for k in range(together.pop() if together else 1):
        choices = [[text.split("|")[k]] if "|" in text else text.split("*") for text in operands]
        found += [list(one) for one in itertools.product(*choices)]
    return found


class AutoTuneCombination:
    """Supported types and formats of inputs and outputs, and the tactics for them."""

    def __init__(
        self,
        io_types: Optional[str] = None,
        layouts: Optional[str] = None,
        tactics: Optional[Iterable[int]] = None,
    ) -> None:
        self.io_types: List[Any] = [text.strip() for text in io_types.split(",")] if io_types else []
        given = [text.strip() for text in (layouts or "LINEAR").split(",")]
        self.layouts: List[Any] = given * len(self.io_types) if len(given) == 1 else given
        if len(self.layouts) != len(self.io_types):
            raise ValueError(f"{len(self.layouts)} layouts for {len(self.io_types)} types")
        self._tactics = list(tactics or ())

    def pos(self, pos: Any, io_types: str, layouts: str = "LINEAR") -> None:
        for at in [pos] if isinstance(pos, int) else pos:
            for items in (self.io_types, self.layouts):
                items.extend([None] * (at + 1 - len(items)))
            if self.io_types[at] is not None:
                raise ValueError(f"position {at} has a type already")
            self.io_types[at], self.layouts[at] = io_types, layouts

    def tactics(self, tactics: Iterable[int]) -> None:
        self._tactics = list(tactics)

    def _all(self) -> List[Any]:
        """Pairs of types and formats."""
        types_ = [
            [_TYPE_NAMES.get(name.strip()) or DataType[name.strip()] for name in one]
            for one in _variants(self.io_types)
        ]
        formats = [[TensorFormat[name.strip()] for name in one] for one in _variants(self.layouts)]
        return [list(zip(t, f)) for t in types_ for f in formats]


# ---- the plugin ----


class _Plugin(IPluginV3, IPluginV3QuickCore, IPluginV3QuickBuild, IPluginV3QuickRuntime):
    """The plugin object of a plugin defined by functions."""

    def __init__(self, definition: PluginDef, attrs: Dict[str, Any]) -> None:
        self._def, self._attrs, self._tactic, self._tactics = definition, attrs, 0, []
        self.plugin_name, self.plugin_namespace = definition.name, definition.namespace
        self.num_outputs = len(self._outputs(self._unknown([DataType.FLOAT] * len(definition.tensor_names))))

    @staticmethod
    def _unknown(dtypes: Sequence[DataType]) -> List[TensorDesc]:
        """Input descriptions with known types and unknown shapes."""
        return [TensorDesc(ShapeExprs.unknown(), dtype) for dtype in dtypes]

    def _call(self, function: Callable[..., Any], tensors: Sequence[Any], **more: Any) -> Any:
        """Calls the function with its parameters from the attributes and |more|."""
        names = inspect.signature(function).parameters
        given = {**dict(zip(self._def.tensor_names, tensors)), **self._attrs, **more}
        return function(**{name: value for name, value in given.items() if name in names})

    def _outputs(self, inputs: Sequence[TensorDesc]) -> List[TensorDesc]:
        given = self._call(self._def.register_func, inputs)
        found = [given] if isinstance(given, TensorDesc) else list(given)
        for i, desc in enumerate(found):
            if not isinstance(desc, TensorDesc):
                raise TypeError(f"{self._def.plugin_id}: output {i} is a {type(desc).__name__}, not a TensorDesc")
            if desc.is_size_tensor:
                desc.index = i
        return found

    def get_capability_interface(self, type: PluginCapabilityType) -> Any:  # noqa: A002
        return self

    def clone(self) -> "_Plugin":
        return _Plugin(self._def, self._attrs)

    def get_output_data_types(self, input_types: List[DataType]) -> List[DataType]:
        return [desc.dtype for desc in self._outputs(self._unknown(input_types))]

    def get_output_shapes(self, inputs: Any, shape_inputs: Any, expr_builder: Any) -> List[Any]:
        descs = [TensorDesc(ShapeExprs.from_tuple([ShapeExpr(e) for e in dims]), DataType.FLOAT) for dims in inputs]
        return [[self._dim(e, expr_builder) for e in desc.shape_expr] for desc in self._outputs(descs)]

    @staticmethod
    def _dim(expr: ShapeExpr, builder: Any) -> Any:
        return expr._declare(builder) if isinstance(expr, SizeTensorShapeExpr) else expr._value

    def _tune(self, operands: Sequence[Any], input_count: int) -> List[AutoTuneCombination]:
        descs = []
        for operand in operands:
            desc = TensorDesc(ShapeExprs(len(operand.desc.dims)), operand.desc.type, operand.desc.format)
            desc.shape = Shape(operand.desc.dims)
            desc.shape.min, desc.shape.opt, desc.shape.max = (tuple(e) for e in (operand.min, operand.opt, operand.max))
            descs.append(desc)
        return self._call(self._def.autotune_func, descs[:input_count], outputs=tuple(descs[input_count:]))

    def supports_format_combination(self, pos: int, in_out: List[Any], num_inputs: int) -> bool:
        if self._def.autotune_func is None:
            return in_out[pos].desc.format == TensorFormat.LINEAR
        asked = [(one.desc.type, one.desc.format) for one in in_out[: pos + 1]]
        combinations = self._tune(in_out, num_inputs)
        return any(one[: pos + 1] == asked for made in combinations for one in made._all())

    def configure_plugin(self, inputs: List[Any], outputs: List[Any]) -> None:
        if self._def.impl_func is None:
            raise RuntimeError(f"plugin {self._def.plugin_id} has no impl: a compiled kernel needs a GPU")
        if self._def.autotune_func is None:
            return
        asked = [(one.desc.type, one.desc.format) for one in (*inputs, *outputs)]
        for made in self._tune([*inputs, *outputs], len(inputs)):
            if asked in made._all():
                self._tactics = made._tactics
                return

    def get_valid_tactics(self) -> List[int]:
        return list(self._tactics)

    def set_tactic(self, tactic: int) -> None:
        self._tactic = tactic

    def get_aliased_input(self, output_index: int) -> int:
        inputs = self._unknown([DataType.FLOAT] * len(self._def.tensor_names))
        aliased = self._outputs(inputs)[output_index].get_aliased()
        return next((i for i, desc in enumerate(inputs) if desc is aliased), -1)

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        return PluginFieldCollection(self._def.field(name, value) for name, value in self._attrs.items())

    def enqueue(
        self, input_desc: Any, output_desc: Any, inputs: Any, outputs: Any, workspace: int, stream: int
    ) -> None:
        if self._def.impl_func is None:
            raise RuntimeError(f"plugin {self._def.plugin_id} has no impl: a compiled kernel needs a GPU")
        given = [Tensor(desc, pointer, stream) for desc, pointer in zip(input_desc, inputs)]
        made = tuple(Tensor(desc, pointer, stream) for desc, pointer in zip(output_desc, outputs))
        self._call(self._def.impl_func, given, outputs=made, stream=stream, tactic=self._tactic)


class _Creator(IPluginCreatorV3Quick):
    """The creator of a plugin defined by functions."""

    def __init__(self, definition: PluginDef) -> None:
        self._def = definition
        self.name, self.plugin_namespace = definition.name, definition.namespace
        self.field_names = PluginFieldCollection(
            PluginField(name, None, _ARRAY_FIELDS[kind] if isinstance(kind, np.dtype) else _FIELDS[kind])
            for name, kind in definition.attr_types.items()
        )

    def create_plugin(
        self,
        name: str,
        namespace: str,
        field_collection: Any,
        phase: Any,
        quickPluginType: Any = None,  # noqa: N803
    ) -> _Plugin:
        if quickPluginType == QuickPluginCreationRequest.STRICT_AOT:
            raise ValueError(f"plugin {self._def.plugin_id}: a compiled kernel (aot_impl) needs a GPU; give an impl")
        return _Plugin(self._def, {field.name: self._def.value(field) for field in field_collection})
