"""The emitter: adds nodes of the C graph for one layer."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from .._carnot import ffi, lib
from ..core import CarnotError, check, text, utf8
from ..enums import DataType
from ..types import Weights, from_c_dtype, to_c_dtype


def model_error(message: str, code: Any = lib.CARNOT_INVALID_ARGUMENT) -> CarnotError:
    return CarnotError(code, message)


class Emitter:
    """Adds nodes for one layer. |env| overrides the values of tensors inside loop bodies and branches."""

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
