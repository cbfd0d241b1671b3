"""Arguments of plugin functions: tensor descriptions, symbolic shapes, tensors."""

from __future__ import annotations

import builtins
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from ..enums import DataType, DimensionOperation, PluginArgDataType, PluginArgType, TensorFormat
from ..types import nptype
from .types import IDimensionExpr, ISymExpr, ISymExprs, PluginTensorDesc, view


class ShapeExpr:
    """A dimension: an integer, an expression, or fake where shapes do not matter."""

    is_size_tensor = False

    def __init__(self, value: Any = None) -> None:
        self._value = value._value if isinstance(value, ShapeExpr) else value

    def _op(self, op: DimensionOperation, other: Any) -> "ShapeExpr":
        a, b = self._value, ShapeExpr(other)._value
        if a is None or b is None:
            return ShapeExpr()
        for side in (a, b):
            if isinstance(side, IDimensionExpr):
                return ShapeExpr(side._builder.operation(op, a, b))
        return ShapeExpr(_FOLD[op](a, b))

    def __add__(self, other: Any) -> "ShapeExpr":
        return self._op(DimensionOperation.SUM, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "ShapeExpr":
        return self._op(DimensionOperation.SUB, other)

    def __rsub__(self, other: Any) -> "ShapeExpr":
        return ShapeExpr(other) - self

    def __mul__(self, other: Any) -> "ShapeExpr":
        return self._op(DimensionOperation.PROD, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> "ShapeExpr":
        return self._op(DimensionOperation.FLOOR_DIV, other)

    def __eq__(self, other: Any) -> Any:
        return self._op(DimensionOperation.EQUAL, other)

    def __lt__(self, other: Any) -> Any:
        return self._op(DimensionOperation.LESS, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ShapeExpr[{'fake' if self.is_fake else self.constant_value() if self.is_constant else 'dynamic'}]"

    @property
    def is_fake(self) -> bool:
        return self._value is None

    @property
    def is_constant(self) -> bool:
        if self.is_fake:
            raise RuntimeError("a fake ShapeExpr has no value; ask is_fake first")
        return isinstance(self._value, int) or self._value.is_constant()

    def constant_value(self) -> int:
        if not self.is_constant:
            raise RuntimeError("this ShapeExpr is no constant; ask is_constant first")
        return self._value if isinstance(self._value, int) else self._value.get_constant_value()


_FOLD = {
    DimensionOperation.SUM: lambda a, b: a + b,
    DimensionOperation.SUB: lambda a, b: a - b,
    DimensionOperation.PROD: lambda a, b: a * b,
    DimensionOperation.FLOOR_DIV: lambda a, b: a // b,
    DimensionOperation.CEIL_DIV: lambda a, b: -(-a // b),
    DimensionOperation.MAX: builtins.max,
    DimensionOperation.MIN: builtins.min,
    DimensionOperation.EQUAL: lambda a, b: int(a == b),
    DimensionOperation.LESS: lambda a, b: int(a < b),
}


def cdiv(first: Any, second: Any) -> ShapeExpr:
    """The quotient, rounded up."""
    return ShapeExpr(first)._op(DimensionOperation.CEIL_DIV, second)


def max(first: Any, second: Any) -> ShapeExpr:  # noqa: A001 - TensorRT's name
    return ShapeExpr(first)._op(DimensionOperation.MAX, second)


def min(first: Any, second: Any) -> ShapeExpr:  # noqa: A001 - TensorRT's name
    return ShapeExpr(first)._op(DimensionOperation.MIN, second)


class SizeTensorShapeExpr(ShapeExpr):
    """A data-dependent dimension."""

    is_size_tensor = True
    is_constant = False  # type: ignore[assignment]

    def __init__(self, size_tensor_desc: "SizeTensorDesc") -> None:
        super().__init__()
        self._desc = size_tensor_desc

    def _op(self, op: DimensionOperation, other: Any) -> ShapeExpr:
        raise ValueError("sizes that the run finds out cannot be computed with")

    def _declare(self, builder: Any) -> Any:
        return builder.declare_size_tensor(self._desc.index, self._desc.opt._value, self._desc.upper_bound._value)


class ShapeExprs:
    """Dimensions of a tensor."""

    _is_unknown = False  # the rank is unknown, all dimensions are fake

    def __init__(self, length: int) -> None:
        self._items: List[Any] = [ShapeExpr() for _ in range(length)]

    @classmethod
    def from_tuple(cls, shape_exprs: Any) -> "ShapeExprs":
        made = cls(0)
        made._items = [e if isinstance(e, ShapeExpr) else ShapeExpr(e) for e in shape_exprs]
        made._is_unknown = getattr(shape_exprs, "_is_unknown", False)
        return made

    @classmethod
    def unknown(cls) -> "ShapeExprs":
        made = cls(0)
        made._is_unknown = True
        return made

    def numel(self) -> ShapeExpr:
        count = ShapeExpr() if self._is_unknown else ShapeExpr(1)
        for one in self._items:
            count = count * one
        return count

    def __iter__(self) -> Iterator[ShapeExpr]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return ShapeExpr() if self._is_unknown else self._items[index]

    def __setitem__(self, index: int, expr: Any) -> None:
        if not self._is_unknown:
            self._items[index] = expr if isinstance(expr, ShapeExpr) else ShapeExpr(expr)

    def __repr__(self) -> str:
        return f"ShapeExprs{self._items}"


class Shape(tuple):
    """Dimensions as integers, -1 where dynamic; with their ranges during autotune."""

    min: Optional[Tuple[int, ...]] = None
    opt: Optional[Tuple[int, ...]] = None
    max: Optional[Tuple[int, ...]] = None
    is_dynamic = property(lambda self: -1 in self)

    def numel(self) -> int:
        if self.is_dynamic:
            raise ValueError(f"{self} has dimensions that vary")
        return int(np.prod(self, dtype=np.int64))


class TensorDesc:
    """A tensor without its data."""

    is_size_tensor = False

    def __init__(
        self,
        shape_expr: Any = None,
        dtype: Optional[DataType] = None,
        format: Optional[TensorFormat] = None,  # noqa: A002
        scale: Optional[float] = None,
    ) -> None:
        is_list = isinstance(shape_expr, (tuple, list))
        self.shape_expr = ShapeExprs.from_tuple(shape_expr) if is_list else shape_expr
        self.dtype, self.format, self.scale = dtype, format, scale
        self.shape: Optional[Shape] = None
        self._aliased_to: Optional[TensorDesc] = None

    ndim = property(lambda self: len(self.shape_expr))
    has_shape = property(lambda self: self.shape is not None)
    has_shape_expr = property(lambda self: self.shape_expr is not None)
    is_aliased = property(lambda self: self._aliased_to is not None)
    is_dynamic = property(lambda self: self.shape is not None and self.shape.is_dynamic)

    def like(self) -> "TensorDesc":
        """A description of the same shape and type."""
        made = TensorDesc(ShapeExprs.from_tuple(self.shape_expr), self.dtype, self.format, self.scale)
        made.shape = self.shape
        return made

    def aliased(self) -> "TensorDesc":
        """A description of an output that aliases this input."""
        made = self.like()
        made._aliased_to = self
        return made

    def get_aliased(self) -> Optional["TensorDesc"]:
        return self._aliased_to

    def numel(self) -> int:
        if self.shape is None:
            raise ValueError("the shape is not known yet; ask has_shape first")
        return self.shape.numel()


class SizeTensorDesc(TensorDesc):
    """A scalar output that holds the size of a dimension of another output."""

    is_size_tensor = True

    def __init__(self, opt: Any, upper_bound: Any) -> None:
        super().__init__(ShapeExprs(0), DataType.INT32)
        self.opt, self.upper_bound = ShapeExpr(opt), ShapeExpr(upper_bound)
        self.index: Optional[int] = None
        self._expr = SizeTensorShapeExpr(self)

    def expr(self) -> SizeTensorShapeExpr:
        return self._expr


def size_tensor(opt: Any, upper_bound: Any) -> SizeTensorDesc:
    return SizeTensorDesc(opt, upper_bound)


def from_shape_expr(shape_expr: Any, dtype: DataType) -> TensorDesc:
    return TensorDesc(ShapeExprs.from_tuple(shape_expr), dtype)


class Tensor:
    """A tensor in memory; numpy.asarray(tensor) reads and writes it in place."""

    def __init__(self, desc: PluginTensorDesc, pointer: int, stream: int = 0) -> None:
        self.data_ptr, self.dtype, self.format, self.scale = pointer, desc.type, desc.format, desc.scale
        self.shape = Shape(desc.dims)
        self._desc, self._stream = desc, stream
        self._aliased_to: Optional[Tensor] = None

    ndim = property(lambda self: len(self.shape))
    is_aliased = property(lambda self: self._aliased_to is not None)
    is_data_dependent = property(lambda self: self.shape.is_dynamic)

    @property
    def strides(self) -> Tuple[int, ...]:
        """In elements."""
        return tuple(s // np.dtype(nptype(self.dtype)).itemsize for s in np.asarray(self).strides)

    def numel(self) -> int:
        return self.shape.numel()

    def aliased(self, shape: Any = None) -> "Tensor":
        """The same memory in another shape."""
        desc = PluginTensorDesc()
        desc.type, desc.format, desc.scale = self.dtype, self.format, self.scale
        desc.dims = tuple(self.shape if shape is None else getattr(shape, "dims", shape))
        made = Tensor(desc, self.data_ptr, self._stream)
        made._aliased_to = self
        return made

    def get_aliased(self) -> Optional["Tensor"]:
        return self._aliased_to

    @property
    def __array_interface__(self) -> Any:
        return view(self._desc, self.data_ptr)


def _sym_int(dtype: PluginArgDataType) -> Any:
    class SymInt(ISymExpr):
        """An integer argument of a kernel."""

        def __init__(self, expr: Any = None) -> None:
            super().__init__(expr, dtype, PluginArgType.INT)

    SymInt.__name__ = SymInt.__qualname__ = f"Sym{dtype.name.title()}"
    return SymInt


SymInt8, SymInt16, SymInt32 = (_sym_int(dtype) for dtype in PluginArgDataType)
SymExprs = SymIntExprs = ISymExprs
