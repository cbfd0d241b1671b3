"""Data types of the plugin interface: fields, tensor descriptions, dimension expressions."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterable, Iterator, List, Optional

import numpy as np

from .._carnot import ffi, lib
from ..core import text, utf8
from ..enums import (
    DataType,
    DimensionOperation,
    FieldType,
    PluginArgDataType,
    PluginArgType,
    PluginFieldType,
    TensorFormat,
)
from ..types import Dims, from_c_dtype, nptype

__all__ = [
    "PluginField",
    "PluginFieldCollection",
    "PluginFieldCollection_",
    "PluginTensorDesc",
    "DynamicPluginTensorDesc",
    "DimsExprs",
    "IDimensionExpr",
    "IExprBuilder",
    "ISymExpr",
    "ISymExprs",
    "KernelLaunchParams",
    "FieldMap",
    "FieldCollection",
]

# NumPy types of field elements; BF16, FP8 and packed types are stored as bits.
_NUMPY = {
    PluginFieldType.FLOAT16: np.float16,
    PluginFieldType.FLOAT32: np.float32,
    PluginFieldType.FLOAT64: np.float64,
    PluginFieldType.INT8: np.int8,
    PluginFieldType.INT16: np.int16,
    PluginFieldType.INT32: np.int32,
    PluginFieldType.CHAR: np.int8,
    PluginFieldType.UNKNOWN: np.int8,
    PluginFieldType.BF16: np.uint16,
    PluginFieldType.INT64: np.int64,
    PluginFieldType.FP8: np.uint8,
    PluginFieldType.INT4: np.uint8,
    PluginFieldType.FP4: np.uint8,
}
_PACKED = (PluginFieldType.INT4, PluginFieldType.FP4)


# ---- fields ----


class PluginField:
    """A named parameter of a plugin: an array, or text as bytes."""

    def __init__(self, name: str = "", data: Any = None, type: PluginFieldType = PluginFieldType.UNKNOWN) -> None:  # noqa: A002
        utf8(name)
        if not isinstance(type, PluginFieldType):
            raise TypeError(f"the type of field {name} must be a PluginFieldType, not {type.__class__.__name__}")
        self.name, self.data, self.type = name, data, type

    @property
    def size(self) -> int:
        return len(self._array())

    def _array(self) -> Any:
        """The elements as an array of the field's type."""
        data = self.data
        if self.type == PluginFieldType.DIMS:
            return [] if data is None else [data] if isinstance(data, Dims) else list(data)
        dtype = np.dtype(_NUMPY[self.type])
        if data is None:
            return np.empty(0, dtype)
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, (bytes, bytearray, memoryview)):
            return np.frombuffer(bytes(data), dtype)
        array = np.atleast_1d(np.asarray(data))
        if dtype == np.int8 and self.type != PluginFieldType.INT8:  # text and bytes: as they are
            return np.frombuffer(array.tobytes(), dtype)
        return np.ascontiguousarray(array.reshape(-1), dtype)

    def _plain(self) -> Any:
        """The elements as a literal of Python."""
        array = self._array()
        return [tuple(d) for d in array] if self.type == PluginFieldType.DIMS else array.tobytes()

    def _fill(self, c_field: Any, keep: List[Any]) -> None:
        """Writes this field into a carnot_plugin_field; |keep| owns what the struct borrows."""
        array = self._array()
        name = ffi.new("char[]", utf8(self.name))
        if self.type == PluginFieldType.DIMS:
            data = ffi.new("carnot_dims[]", max(1, len(array)))
            for made, dims in zip(data, array):
                made.rank = len(dims)
                made.d[0 : len(dims)] = list(dims)
        else:
            array = array if len(array) else np.zeros(1, array.dtype)
            data = ffi.cast("void*", array.__array_interface__["data"][0])
        count = 0 if self.data is None else len(self._array())
        keep += [name, array, data]
        c_field.name, c_field.data, c_field.type = name, data, self.type.value
        c_field.length = count * 2 if self.type in _PACKED else count

    @staticmethod
    def _of_c(c_field: Any) -> "PluginField":
        kind = PluginFieldType(c_field.type)
        if not c_field.data:
            return PluginField(text(c_field.name), None, kind)
        if kind == PluginFieldType.DIMS:
            dims = ffi.cast("carnot_dims*", c_field.data)
            return PluginField(text(c_field.name), [Dims._of_c(dims[i]) for i in range(c_field.length)], kind)
        dtype = np.dtype(_NUMPY[kind])
        count = (c_field.length + 1) // 2 if kind in _PACKED else c_field.length
        data = (
            np.frombuffer(ffi.buffer(c_field.data, count * dtype.itemsize), dtype).copy()
            if count
            else np.empty(0, dtype)
        )
        return PluginField(text(c_field.name), data, kind)


class PluginFieldCollection(list):
    """The fields of a plugin."""


PluginFieldCollection_ = PluginFieldCollection


def c_fields(fields: Iterable[PluginField], keep: List[Any]) -> Any:
    """An array of carnot_plugin_field; |keep| owns what it borrows."""
    fields = list(fields)
    made = ffi.new("carnot_plugin_field[]", max(1, len(fields)))
    keep.append(made)
    for i, field in enumerate(fields):
        if not isinstance(field, PluginField):
            raise TypeError(f"element {i} of a field collection must be a PluginField, not {type(field).__name__}")
        field._fill(made[i], keep)
    return made


class FieldMap:
    """A field of TensorRT 5."""

    def __init__(self, name: str, data: Any, type: FieldType, length: int = 1) -> None:  # noqa: A002
        self.name, self.data, self.type, self.length = name, data, type, int(length)


class FieldCollection:
    """The fields of TensorRT 5."""

    def __init__(self, fields: Iterable[FieldMap] = ()) -> None:
        self.fields = list(fields)

    num_fields = property(lambda self: len(self.fields))


# ---- tensors ----


def _format_of(c_format: Any) -> TensorFormat:
    if c_format.layout == lib.CARNOT_PLUGIN_LINEAR:
        return TensorFormat.LINEAR
    return TensorFormat.DHWC if c_format.rank == 5 else TensorFormat.HWC


def _dims_property(name: str) -> Any:
    def put(self: Any, dims: Any) -> None:
        setattr(self, name, dims if isinstance(dims, Dims) else Dims(tuple(dims)))

    return property(lambda self: getattr(self, name), put)


class PluginTensorDesc:
    """Type, format and dimensions of an operand."""

    def __init__(self) -> None:
        self._dims = Dims()
        self.type = DataType.FLOAT
        self.format = TensorFormat.LINEAR
        self.scale = 0.0

    dims = _dims_property("_dims")

    @staticmethod
    def _of_format(c_format: Any, dims: Optional[Dims] = None) -> "PluginTensorDesc":
        made = PluginTensorDesc()
        made.type = from_c_dtype(c_format.dtype)
        made.format = _format_of(c_format)
        made.dims = [-1] * max(0, c_format.rank) if dims is None else dims
        return made

    @staticmethod
    def _of_tensor(c_tensor: Any) -> "PluginTensorDesc":
        return PluginTensorDesc._of_format(c_tensor.format, _dims_of(c_tensor.dims))


def _dims_of(c_dims: Any) -> Dims:
    return Dims._of_c(c_dims) if c_dims.rank >= 0 else Dims()


class DynamicPluginTensorDesc:
    """An operand during a build: the description and the ranges of its dimensions."""

    def __init__(self) -> None:
        self.desc = PluginTensorDesc()
        self._min, self._opt, self._max = Dims(), Dims(), Dims()

    min, opt, max = _dims_property("_min"), _dims_property("_opt"), _dims_property("_max")

    @staticmethod
    def _of_desc(desc: PluginTensorDesc) -> "DynamicPluginTensorDesc":
        made = DynamicPluginTensorDesc()
        made.desc = desc
        made.min = made.opt = made.max = desc.dims
        return made

    @staticmethod
    def _of_range(c_range: Any) -> "DynamicPluginTensorDesc":
        made = DynamicPluginTensorDesc()
        ends = [_dims_of(c_range.min), _dims_of(c_range.opt), _dims_of(c_range.max)]
        dims = Dims([a if a == b else -1 for a, b in zip(ends[0], ends[2])])
        made.desc = PluginTensorDesc._of_format(c_range.format, dims)
        made.min, made.opt, made.max = ends
        return made


# ---- dimensions as expressions ----


class IDimensionExpr:
    """A dimension as an expression of input dimensions; valid during the call that passed it."""

    def __init__(self, builder: "IExprBuilder", expr: int, is_size: bool = False) -> None:
        self._builder, self._expr, self._is_size = builder, expr, is_size

    def _known(self) -> Optional[int]:
        exprs, out = self._builder._live(), ffi.new("int64_t*")
        return out[0] if exprs.value(exprs.host, self._expr, out) else None

    def is_constant(self) -> bool:
        return self._known() is not None

    def get_constant_value(self) -> int:
        """The value; -1 if it is not known."""
        value = self._known()
        return -1 if value is None else value

    def is_size_tensor(self) -> bool:
        return self._is_size


class IExprBuilder:
    """Builds expressions; passed to a plugin for shape inference."""

    def __init__(self, exprs: Any = None) -> None:
        self._c = exprs

    def _live(self) -> Any:
        if not self._c:
            raise RuntimeError("expressions of dimensions live only while a plugin is asked for its shapes")
        return self._c

    def _int(self, value: Any) -> int:
        if isinstance(value, IDimensionExpr):
            return value._expr
        return self.constant(value)._expr

    def constant(self, value: int) -> IDimensionExpr:
        exprs = self._live()
        return IDimensionExpr(self, exprs.constant(exprs.host, int(value)))

    def operation(self, op: DimensionOperation, first: Any, second: Any) -> IDimensionExpr:
        if not isinstance(op, DimensionOperation):
            raise TypeError(f"operation takes a DimensionOperation, not {type(op).__name__}")
        exprs = self._live()
        return IDimensionExpr(self, exprs.operation(exprs.host, op.value, self._int(first), self._int(second)))

    def declare_size_tensor(self, output_index: int, opt: Any, upper: Any) -> IDimensionExpr:
        """A data-dependent dimension: the scalar output |output_index| holds it after the run."""
        exprs = self._live()
        made = exprs.size_of_output(exprs.host, int(output_index), self._int(opt), self._int(upper))
        return IDimensionExpr(self, made, is_size=True)


class DimsExprs:
    """Dimensions as expressions: DimsExprs(rank), or a list of expressions and integers."""

    def __init__(self, given: Any = 0) -> None:
        self._items: List[Any] = [None] * given if isinstance(given, int) else list(given)
        if len(self._items) > Dims.MAX_DIMS:
            raise ValueError(f"{len(self._items)} dimensions, at most {Dims.MAX_DIMS}")

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._items))

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __setitem__(self, index: int, expr: Any) -> None:
        if not isinstance(expr, (IDimensionExpr, int)):
            raise TypeError(f"a dimension must be an IDimensionExpr, not {type(expr).__name__}")
        self._items[index] = expr


# ---- kernels that a plugin hands over compiled ----


class ISymExpr:
    """A scalar argument of a kernel."""

    def __init__(
        self,
        expr: Any = None,
        dtype: PluginArgDataType = PluginArgDataType.INT32,
        type: PluginArgType = PluginArgType.INT,  # noqa: A002
    ) -> None:
        self.expr, self.dtype, self.type = expr, dtype, type


class ISymExprs:
    """The scalar arguments of a kernel."""

    def __init__(self, length: int = 0) -> None:
        self._items: List[Optional[ISymExpr]] = [None] * int(length)

    nbSymExprs = property(lambda self: len(self._items))  # noqa: N815 - TensorRT's name

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        return self._items[index]

    def __setitem__(self, index: int, expr: ISymExpr) -> None:
        self._items[index] = expr


class KernelLaunchParams:
    """The launch parameters of a kernel."""

    def __init__(self) -> None:
        self.grid_x: Any = 1
        self.grid_y: Any = 1
        self.grid_z: Any = 1
        self.block_x: Any = 1
        self.block_y: Any = 1
        self.block_z: Any = 1
        self.shared_mem: Any = 0


def view(desc: PluginTensorDesc, pointer: int) -> Dict[str, Any]:
    """NumPy's __array_interface__ of an operand in memory."""
    dtype = np.dtype(nptype(desc.type))
    dims = tuple(desc.dims)
    interface: Dict[str, Any] = {"version": 3, "typestr": dtype.str, "shape": dims, "data": (int(pointer), False)}
    if desc.format != TensorFormat.LINEAR and len(dims) > 2:
        order = [0, *range(2, len(dims)), 1]
        strides, step = [0] * len(dims), dtype.itemsize
        for axis in reversed(order):
            strides[axis] = step
            step *= dims[axis]
        interface["strides"] = tuple(strides)
    if 0 in dims:
        interface["data"] = (ctypes.addressof(_NOTHING), False)
    return interface


_NOTHING = ctypes.c_int64()
