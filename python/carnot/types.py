"""Dimensions, permutations, weights, host memory, data types."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Iterator, List, Optional

import numpy as np

from ._carnot import ffi, lib
from .core import Manual, address
from .enums import DataType

_C_TYPES = {
    DataType.FLOAT: lib.CARNOT_DTYPE_F32,
    DataType.HALF: lib.CARNOT_DTYPE_F16,
    DataType.INT8: lib.CARNOT_DTYPE_I8,
    DataType.INT32: lib.CARNOT_DTYPE_I32,
    DataType.BOOL: lib.CARNOT_DTYPE_BOOL,
    DataType.UINT8: lib.CARNOT_DTYPE_U8,
    DataType.FP8: lib.CARNOT_DTYPE_F8E4M3FN,
    DataType.BF16: lib.CARNOT_DTYPE_BF16,
    DataType.INT64: lib.CARNOT_DTYPE_I64,
    DataType.INT4: lib.CARNOT_DTYPE_I4,
    DataType.FP4: lib.CARNOT_DTYPE_F4E2M1,
    DataType.E8M0: lib.CARNOT_DTYPE_F8E8M0,
    DataType.DOUBLE: lib.CARNOT_DTYPE_F64,
    DataType.INT16: lib.CARNOT_DTYPE_I16,
    DataType.UINT16: lib.CARNOT_DTYPE_U16,
    DataType.UINT32: lib.CARNOT_DTYPE_U32,
    DataType.UINT64: lib.CARNOT_DTYPE_U64,
}
_FROM_C = {c: dtype for dtype, c in _C_TYPES.items()}
_NUMPY = {
    DataType.FLOAT: np.float32,
    DataType.HALF: np.float16,
    DataType.INT8: np.int8,
    DataType.INT32: np.int32,
    DataType.BOOL: np.bool_,
    DataType.UINT8: np.uint8,
    DataType.INT64: np.int64,
    DataType.DOUBLE: np.float64,
    DataType.INT16: np.int16,
    DataType.UINT16: np.uint16,
    DataType.UINT32: np.uint32,
    DataType.UINT64: np.uint64,
}
_FROM_NUMPY = {np.dtype(n): dtype for dtype, n in _NUMPY.items()}

float32, float16, bfloat16 = DataType.FLOAT, DataType.HALF, DataType.BF16
int8, int32, int64, uint8 = DataType.INT8, DataType.INT32, DataType.INT64, DataType.UINT8
bool = DataType.BOOL  # noqa: A001 - TensorRT's name
fp8, int4, fp4, e8m0 = DataType.FP8, DataType.INT4, DataType.FP4, DataType.E8M0


def _bits(dtype: DataType) -> int:
    return lib.carnot_dtype_bits(_C_TYPES[dtype])


def _itemsize(dtype: DataType) -> Any:
    bits = _bits(dtype)
    return bits / 8 if bits % 8 else bits // 8


DataType.itemsize = property(_itemsize, doc="Bytes an element takes; a fraction for packed types.")


def to_c_dtype(dtype: Any) -> int:
    if not isinstance(dtype, DataType):
        raise TypeError(f"a data type must be a DataType, not {type(dtype).__name__}")
    return _C_TYPES[dtype]


def from_c_dtype(dtype: int) -> Optional[DataType]:
    return _FROM_C.get(dtype)


def nptype(trt_type: DataType) -> Any:
    """The NumPy type of a DataType; raises TypeError if there is none."""
    try:
        return _NUMPY[trt_type]
    except KeyError:
        raise TypeError(f"Could not resolve TensorRT datatype to an equivalent numpy datatype. {trt_type}") from None


def from_numpy_dtype(dtype: Any) -> DataType:
    if getattr(np.dtype(dtype), "name", "") == "bfloat16":
        return DataType.BF16
    try:
        return _FROM_NUMPY[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"no data type for NumPy's {np.dtype(dtype)}") from None


def volume(iterable: Any) -> int:
    """The number of elements; 1 without dimensions."""
    count = 1
    for d in iterable:
        count *= d
    return count


class Dims:
    """Dimensions: up to 8 integers; compares equal to tuples and lists."""

    MAX_DIMS = 8
    _count: Optional[int] = None

    def __init__(self, *shape: Any) -> None:
        given = list(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else list(shape)
        if len(given) > Dims.MAX_DIMS:
            raise ValueError(f"The dimensions of an array can not exceed {Dims.MAX_DIMS}, got {len(given)}")
        if self._count is not None and given and len(given) != self._count:
            raise ValueError(f"{type(self).__name__} takes {self._count} dimensions, got {len(given)}")
        self._d: Optional[List[int]] = [int(d) for d in given]
        if not given and self._count:
            self._d = [0] * self._count

    @staticmethod
    def _of_c(dims: Any) -> "Dims":
        made = Dims()
        made._d = None if dims.rank < 0 else [dims.d[i] for i in range(dims.rank)]
        return made

    def _list(self) -> List[int]:
        if self._d is None:
            raise ValueError("__len__() should return >= 0: the number of dimensions is not known")
        return self._d

    def __len__(self) -> int:
        return len(self._list())

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._list()))

    def __getitem__(self, index: Any) -> Any:
        got = self._list()[index]
        return tuple(got) if isinstance(index, slice) else got

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            value = [int(v) for v in value]
            if len(value) != len(self._list()[index]):
                raise ValueError("Left and right hand size of slice assignment have different sizes!")
            self._list()[index] = value
        else:
            self._list()[index] = int(value)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (Dims, tuple, list)):
            return self._d == (other._d if isinstance(other, Dims) else list(other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        return tuple(self) + tuple(other)

    def __radd__(self, other: Any) -> Any:
        return tuple(other) + tuple(self)

    def __repr__(self) -> str:
        return "(unknown)" if self._d is None else repr(tuple(self._d))

    __str__ = __repr__


class Dims2(Dims):
    _count = 2


class DimsHW(Dims2):
    h = property(lambda self: self[0], lambda self, value: self.__setitem__(0, value))
    w = property(lambda self: self[1], lambda self, value: self.__setitem__(1, value))


class Dims3(Dims):
    _count = 3


class Dims4(Dims):
    _count = 4


class Permutation(Dims):
    """A permutation of dimensions."""


class Weights:
    """An array of one type: Weights(array), Weights(dtype), or Weights(dtype, pointer, count)."""

    def __init__(self, a: Any = DataType.FLOAT, ptr: int = 0, count: int = 0, *, type: Any = None) -> None:  # noqa: A002
        a = a if type is None else type
        if isinstance(a, DataType):
            self._dtype, self._array, self._size = a, None, int(count)
            if ptr and count:
                size = lib.carnot_dtype_bytes(to_c_dtype(a), count)
                raw = np.frombuffer((ctypes.c_ubyte * size).from_address(int(ptr)), np.uint8)
                self._array = raw.view(_NUMPY[a]) if a in _NUMPY else raw
            return
        if hasattr(a, "detach") and hasattr(a, "data_ptr"):  # torch
            a = a.detach().cpu().contiguous()
            a = (
                a.view(__import__("torch").int16).numpy().view(np.uint16)
                if str(a.dtype) == "torch.bfloat16"
                else a.numpy()
            )
        array = a if isinstance(a, np.ndarray) else np.asarray(a)
        if not array.flags.c_contiguous:
            raise ValueError("Weights must be contiguous: call numpy.ascontiguousarray first")
        self._dtype, self._array, self._size = from_numpy_dtype(array.dtype), array, array.size

    dtype = property(lambda self: self._dtype)
    size = property(lambda self: self._size)
    nbytes = property(lambda self: lib.carnot_dtype_bytes(to_c_dtype(self._dtype), self._size))

    def __len__(self) -> int:
        return self._size

    def numpy(self) -> Any:
        """The array itself, without a copy."""
        if self._array is None:
            return np.empty(0, nptype(self._dtype))
        return self._array.reshape(-1)

    def __repr__(self) -> str:
        return f"Weights({self._dtype}, {self._size} elements)"

    @staticmethod
    def of(value: Any) -> Optional["Weights"]:
        """Converts an array to Weights; None stays None."""
        return value if value is None or isinstance(value, Weights) else Weights(value)


class IHostMemory(Manual):
    """Memory of the C library with Python's buffer protocol, without a copy."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        return len(self)

    size = nbytes

    @property
    def dtype(self) -> DataType:
        return DataType.INT8

    @staticmethod
    def _of_c(data: Any, size: int) -> "IHostMemory":
        memory = _sized(size).from_address(address(data))
        memory._owner = ffi.gc(data, lib.carnot_memory_free, size)
        return memory

    @staticmethod
    def _of_bytes(data: bytes) -> "IHostMemory":
        return _sized(len(data)).from_buffer_copy(data)


@functools.lru_cache(maxsize=16)
def _sized(size: int) -> Any:
    return type("IHostMemory", (IHostMemory, ctypes.c_ubyte * size), {})
