"""ILayer, the base class of all layers, and the declaration of layer properties."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .._carnot import lib
from ..core import text, utf8
from ..enums import DataType, LayerType
from ..types import Dims, DimsHW, Weights, to_c_dtype
from .emitter import Emitter, model_error


def axes_of(mask: int) -> List[int]:
    return [d for d in range(Dims.MAX_DIMS) if mask >> d & 1]


class ILayer:
    """A layer of a network. Properties may change at any time, also after a build."""

    _layer_type: Optional[LayerType] = None
    _defaults: Dict[str, Any] = {}
    _output_count = 1
    _min_inputs = 1  # that set_input cannot remove

    def __init__(self, network: Any, inputs: Any = (), **properties: Any) -> None:
        self._network = network
        self._type = self._layer_type
        self._inputs: List[Any] = list(inputs)
        self._outputs: List[Any] = []
        self._p: Dict[str, Any] = {**self._defaults, **properties}
        self._nodes: List[Any] = []  # of the C graph, in order
        self._dirty = True
        self._imported = False  # made from a node whose operator maps to no layer class
        self._name = ""
        self._precision: Optional[DataType] = None
        self._output_types: Dict[int, DataType] = {}
        self._metadata = ""
        self.num_ranks = 1

    def __dir__(self) -> List[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.startswith("__")]

    def __repr__(self) -> str:
        return f"<carnot.{type(self).__name__} {self._name!r}>"

    def _changed(self) -> None:
        self._network._layer_changed(self)

    def _set(self, name: str, value: Any) -> None:
        if self._imported:
            self._network._fail(
                f"layer {self._name} ({text(lib.carnot_layer_operator(self._nodes[0]))}) was read "
                f"from a model; its property {name} cannot be changed"
            )
            return
        self._p[name] = value
        self._changed()

    # ---- properties of all layers ----

    type = property(lambda self: self._type)

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        utf8(name)
        self._name = name
        self._network._layer_renamed(self)

    @property
    def metadata(self) -> str:
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: str) -> None:
        utf8(metadata)
        self._metadata = metadata

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))

    def get_input(self, index: int) -> Any:
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> Any:
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index: int, tensor: Any) -> None:
        if tensor is not None and not hasattr(tensor, "is_network_input"):
            raise TypeError(f"set_input takes an ITensor, not {tensor.__class__.__name__}")
        if tensor is None and index < self._min_inputs:
            return self._network._fail(f"layer {self._name}: input {index} cannot be taken away")
        if tensor is not None and tensor._network is not self._network:
            return self._network._fail(f"layer {self._name}: tensor {tensor._name} belongs to another network")
        return self._rewire(index, tensor)

    def _rewire(self, index: int, tensor: Any) -> None:
        if self._imported:
            self._network._rewire_imported(self, index, tensor)
            return
        self._inputs += [None] * (index + 1 - len(self._inputs))
        self._inputs[index] = tensor
        self._changed()

    # ---- precision, for weakly typed networks ----

    @property
    def precision(self) -> DataType:
        return DataType.FLOAT if self._precision is None else self._precision

    @precision.setter
    def precision(self, dtype: DataType) -> None:
        to_c_dtype(dtype)
        self._precision = dtype
        self._network._precision_changed(self)

    precision_is_set = property(lambda self: self._precision is not None)

    def reset_precision(self) -> None:
        self._precision = None
        self._network._precision_changed(self)

    def _check_output(self, index: int) -> None:
        if not 0 <= index < len(self._outputs):
            raise IndexError(f"layer {self._name}: output {index} of {len(self._outputs)}")

    def get_output_type(self, index: int) -> Any:
        self._check_output(index)
        return self._output_types.get(index) or self._outputs[index].dtype

    def set_output_type(self, index: int, dtype: DataType) -> None:
        self._check_output(index)
        to_c_dtype(dtype)
        self._output_types[index] = dtype
        self._network._precision_changed(self)

    def output_type_is_set(self, index: int) -> bool:
        self._check_output(index)
        return index in self._output_types

    def reset_output_type(self, index: int) -> None:
        self._check_output(index)
        self._output_types.pop(index, None)
        self._network._precision_changed(self)

    def _emit(self, e: "Emitter") -> List[Any]:
        """Emits the nodes; returns the C values of the outputs."""
        raise model_error(f"layer {self._name} of type {self._type} has no nodes")


def prop(name: str, convert: Any = None) -> Any:
    def get(self: Any) -> Any:
        return self._p.get(name)

    def put(self: Any, value: Any) -> None:
        self._set(name, convert(value) if convert else value)

    return property(get, put)


def enum_prop(name: str, kind: Any) -> Any:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        return value

    return prop(name, convert)


def dims_prop(name: str, made: Any = Dims) -> Any:
    return prop(name, lambda value: value if isinstance(value, Dims) and made is Dims else made(tuple(value)))


def hw_prop(name: str) -> Any:
    """The two-dimensional property of TensorRT 8.6 for |name|."""

    def get(self: Any) -> Any:
        return DimsHW(tuple(self._p[name])[:2])

    return property(get, lambda self, value: setattr(self, name, tuple(value)))


def weights_prop(name: str) -> Any:
    def get(self: Any) -> Any:
        weights = self._p.get(name)
        return None if weights is None else weights.numpy()

    return property(get, lambda self, value: self._set(name, Weights.of(value)))
