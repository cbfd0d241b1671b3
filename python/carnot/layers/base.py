"""What all layers have, how they add nodes, how their properties are declared."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from .._carnot import ffi, lib
from ..core import CarnotError, check, text, utf8
from ..enums import DataType, LayerType
from ..types import Dims, DimsHW, Weights, from_c_dtype, to_c_dtype


def model_error(message: str, code: Any = lib.CARNOT_INVALID_ARGUMENT) -> CarnotError:
    return CarnotError(code, message)


def axes_of(mask: int) -> List[int]:
    return [d for d in range(Dims.MAX_DIMS) if mask >> d & 1]


class ILayer:
    """A layer of a network. Properties may be changed until the network is built, and after."""

    _layer_type: Optional[LayerType] = None
    _defaults: Dict[str, Any] = {}
    _output_count = 1
    _min_inputs = 1  # that set_input cannot take away

    def __init__(self, network: Any, inputs: Any = (), **properties: Any) -> None:
        self._network = network
        self._type = self._layer_type
        self._inputs: List[Any] = list(inputs)
        self._outputs: List[Any] = []
        self._p: Dict[str, Any] = {**self._defaults, **properties}
        self._nodes: List[Any] = []  # of the C graph, in order
        self._dirty = True
        self._imported = False  # its properties are those of its node, unless they were lifted
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

    # ---- what all layers have ----

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
        """The C values of the outputs."""
        raise model_error(f"layer {self._name} of type {self._type} has no nodes")


class Emitter:
    """Adds nodes for one layer. |env| says what some tensors are for now, in place of their own values."""

    def __init__(self, network: Any, env: Optional[Dict[int, Any]] = None) -> None:
        self.network, self.c, self.env = network, network._c, env or {}

    def add(self, kind: str, *arguments: Any) -> Any:
        out = ffi.new("carnot_value**")
        self.call("add_" + kind, *arguments, out)
        return out[0]

    def call(self, name: str, *arguments: Any) -> None:
        check(getattr(lib, "carnot_network_" + name)(self.c, *arguments))

    def value(self, tensor: Any) -> Any:
        if tensor is None:
            return ffi.NULL
        inside = self.env.get(id(tensor))
        if inside is not None:
            return inside
        value = tensor._read if tensor._read is not None else tensor._value
        if value is None:
            raise model_error(f"tensor {tensor._name} is not known yet")
        return value

    def constant(self, weights: Weights, dims: Any, name: str) -> Any:
        """A weight called |name| unless the user gave it another name."""
        array = weights._array
        c_dims = ffi.new("carnot_dims*")
        c_dims.rank = len(dims)
        c_dims.d[0 : len(dims)] = list(dims)
        count = int(np.prod(dims, dtype=np.int64))
        if count != weights._size:
            raise model_error(f"weights {name} have {weights._size} elements, {list(dims)} needs {count}")
        pointer = ffi.NULL
        if array is not None:
            self.network._keep.append(weights)
            at = array.__array_interface__["data"][0]
            name = self.network._weight_names.get(at, name)
            pointer = ffi.cast("void*", at)
        return self.add("constant", utf8(name), to_c_dtype(weights._dtype), c_dims, pointer)

    def array(self, array: Any) -> Any:
        """A constant without a name."""
        array = np.ascontiguousarray(array)
        self.network._keep.append(array)
        weights = Weights(array)
        dims = ffi.new("carnot_dims*")
        dims.rank = array.ndim
        dims.d[0 : array.ndim] = list(array.shape)
        return self.add("constant", ffi.NULL, to_c_dtype(weights._dtype), dims, ffi.cast("void*", array.ctypes.data))

    def ints(self, values: Any) -> Any:
        values = [int(v) for v in values]
        return self.add("int64s", ffi.new("int64_t[]", values or [0]), len(values))

    def int(self, value: int) -> Any:
        return self.add("int64s", ffi.new("int64_t[]", [int(value)]), -1)

    def shape(self, value: Any) -> List[int]:
        dims = lib.carnot_value_dims(value)
        if dims.rank < 0:
            raise model_error(f"the number of dimensions of {text(lib.carnot_value_name(value))} must be known")
        return [dims.d[i] for i in range(dims.rank)]

    def cast(self, value: Any, dtype: Any) -> Any:
        wanted = to_c_dtype(dtype) if isinstance(dtype, DataType) else dtype
        return value if lib.carnot_value_dtype(value) == wanted else self.add("cast", value, wanted)

    def like(self, value: Any, other: Any) -> Any:
        return self.cast(value, lib.carnot_value_dtype(other))

    def int64(self, value: Any) -> Any:
        return self.cast(value, lib.CARNOT_DTYPE_I64)

    def scalar(self, value: Any) -> Any:
        """Without dimensions; shape tensors of one element come as [1] too."""
        return self.reshape(value, []) if self.shape(value) else value

    def reshape(self, value: Any, dims: Any) -> Any:
        return self.add("shuffle", value, ffi.NULL, self.ints(dims), ffi.NULL)

    def transpose(self, value: Any, order: Any) -> Any:
        return self.add("shuffle", value, ffi.new("int64_t[]", [int(d) for d in order]), ffi.NULL, ffi.NULL)

    def elementwise(self, a: Any, b: Any, op: str) -> Any:
        return self.add("elementwise", a, b, getattr(lib, "CARNOT_ELEMENTWISE_" + op))

    def static_ints(self, tensor: Any, what: str) -> List[int]:
        """The elements of an integer tensor that must be constant."""
        value = self.value(tensor)
        data = lib.carnot_value_constant(value, ffi.NULL)
        dtype = from_c_dtype(lib.carnot_value_dtype(value))
        if not data or dtype not in (DataType.INT32, DataType.INT64):
            raise model_error(f"{what} must be a constant of integers, not {tensor._name}")
        count = int(np.prod(self.shape(value), dtype=np.int64))
        return list(ffi.cast("int64_t*" if dtype == DataType.INT64 else "int32_t*", data)[0:count])


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
    """The two-dimensional name of 8.6 for |name|."""

    def get(self: Any) -> Any:
        return DimsHW(tuple(self._p[name])[:2])

    return property(get, lambda self, value: setattr(self, name, tuple(value)))


def weights_prop(name: str) -> Any:
    def get(self: Any) -> Any:
        weights = self._p.get(name)
        return None if weights is None else weights.numpy()

    return property(get, lambda self, value: self._set(name, Weights.of(value)))
