"""Layers that reduce or scan along axes: reduction, top-k, cumulative sum."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi, lib
from ...enums import (
    CumulativeOperation,
    DataType,
    LayerType,
    ReduceOperation,
    TopKOperation,
)
from ..emitter import Emitter, model_error
from ..layer import ILayer, axes_of, enum_prop, prop


class IReduceLayer(ILayer):
    _layer_type = LayerType.REDUCE
    op, axes, keep_dims = enum_prop("op", ReduceOperation), prop("axes", int), prop("keep_dims", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        axes = axes_of(self.axes)
        if self.op == ReduceOperation.NONE or not axes:
            raise model_error(f"layer {self._name}: a reduction {self.op.name} over {len(axes)} axes")
        return [
            e.add(
                "reduce",
                e.value(self._inputs[0]),
                getattr(lib, "CARNOT_REDUCE_" + self.op.name),
                axes,
                len(axes),
                self.keep_dims,
            )
        ]


class ITopKLayer(ILayer):
    _layer_type = LayerType.TOPK
    _output_count = 2
    _defaults = {"indices_type": DataType.INT32}
    op, k, axes = enum_prop("op", TopKOperation), prop("k", int), prop("axes", int)
    indices_type = enum_prop("indices_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        axes = axes_of(self.axes)
        if len(axes) != 1:
            raise model_error(f"layer {self._name}: top k over {len(axes)} axes, must be one")
        k = e.ints([self.k])
        if len(self._inputs) > 1 and self._inputs[1] is not None:
            k = e.reshape(e.int64(e.value(self._inputs[1])), [1])
        values, indices = ffi.new("carnot_value**"), ffi.new("carnot_value**")
        e.call("add_topk", e.value(self._inputs[0]), k, axes[0], self.op == TopKOperation.MAX, values, indices)
        return [values[0], e.cast(indices[0], self.indices_type)]


class ICumulativeLayer(ILayer):
    _layer_type = LayerType.CUMULATIVE
    op = enum_prop("op", CumulativeOperation)
    exclusive, reverse = prop("exclusive", bool), prop("reverse", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        axis = e.static_ints(self._inputs[1], f"layer {self._name}: the axis")[0]
        return [e.add("cumulative", e.value(self._inputs[0]), axis, self.exclusive, self.reverse)]
