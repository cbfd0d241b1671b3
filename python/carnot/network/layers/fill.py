"""The fill layer: linear ramps and random tensors."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from ..._carnot import ffi, lib
from ...enums import (
    DataType,
    FillOperation,
    LayerType,
)
from ...types import to_c_dtype
from ..emitter import Emitter, model_error
from ..layer import ILayer, dims_prop, enum_prop


class IFillLayer(ILayer):
    _layer_type = LayerType.FILL
    _min_inputs = 0
    _defaults = {"alpha": None, "beta": None, "to_type": DataType.FLOAT}
    shape, operation, to_type = (
        dims_prop("shape"),
        enum_prop("operation", FillOperation),
        enum_prop("to_type", DataType),
    )

    def _number(name: str, absent: float) -> Any:  # type: ignore[misc]
        return property(
            lambda self: absent if self._p[name] is None else self._p[name], lambda self, value: self._set(name, value)
        )

    alpha, beta = _number("alpha", 0.0), _number("beta", 1.0)
    del _number

    def is_alpha_beta_int64(self) -> bool:
        return isinstance(self._p["alpha"], int) and isinstance(self._p["beta"], int)

    def _input(self, index: int) -> Any:
        return self._inputs[index] if len(self._inputs) > index else None

    def _emit(self, e: Emitter) -> List[Any]:
        if self.operation == FillOperation.LINSPACE:
            return [self._linspace(e)]
        if any(self._input(i) is not None for i in range(3)):
            raise model_error(f"layer {self._name}: a random fill with computed inputs", lib.CARNOT_UNSUPPORTED)
        dims = ffi.new("carnot_dims*")
        dims.rank = len(self.shape)
        dims.d[0 : dims.rank] = list(self.shape)
        normal = self.operation == FillOperation.RANDOM_NORMAL
        return [e.add("fill_random", dims, to_c_dtype(self.to_type), normal, float(self.alpha), float(self.beta), 0.0)]

    def _linspace(self, e: Emitter) -> Any:
        """alpha + sum over dimensions of index * beta."""
        if self._input(0) is not None:
            sizes = e.int64(e.value(self._input(0)))
            if len(e.shape(sizes)) > 1:
                raise model_error(
                    f"layer {self._name}: the shape tensor has {len(e.shape(sizes))} dimensions, must be 1"
                )
            if not e.shape(sizes):
                sizes = e.reshape(sizes, [1])
            rank = e.shape(sizes)[0]
            if rank < 0:
                raise model_error(f"layer {self._name}: the number of elements of the shape tensor must be known")
            counts = [e.add("gather", sizes, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) for d in range(rank)]
        else:
            rank, counts = len(self.shape), [e.int(d) for d in self.shape]
        total = self._first(e)
        dtype = lib.carnot_value_dtype(total)
        for d in range(rank):
            steps = e.cast(e.add("fill_linspace", e.int(0), counts[d], e.int(1)), dtype)
            part = e.elementwise(steps, e.cast(self._step(e, d), dtype), "PROD")
            total = e.elementwise(total, e.reshape(part, [-1] + [1] * (rank - 1 - d)), "SUM")
        return total

    def _number_value(self, e: Emitter, number: Any) -> Any:
        kind = np.float64 if isinstance(number, float) else np.int64
        return e.cast(e.array(np.asarray(number, kind)), self.to_type)

    def _first(self, e: Emitter) -> Any:
        """Alpha. A tensor's type is that of the fill."""
        if self._input(1) is not None:
            return e.scalar(e.value(self._input(1)))
        return self._number_value(e, self.alpha)

    def _step(self, e: Emitter, d: int) -> Any:
        """Beta of dimension |d|."""
        if self._input(2) is None:
            return self._number_value(e, self.beta)
        betas = e.value(self._input(2))
        return e.add("gather", betas, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) if e.shape(betas) else betas
