"""Softmax and normalization layers."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from ..._carnot import ffi
from ...enums import (
    DataType,
    LayerType,
)
from ..emitter import Emitter, model_error
from ..layer import ILayer, axes_of, enum_prop, prop


class ISoftMaxLayer(ILayer):
    _layer_type = LayerType.SOFTMAX
    _defaults = {"axes": None}

    def _axes(self) -> int:
        if self._p["axes"] is None:
            return 1 << max(0, len(self._inputs[0].shape) - 3)
        return self._p["axes"]

    axes = property(_axes, lambda self, value: self._set("axes", int(value)))

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        axes = [max(0, len(e.shape(x)) - 3)] if self._p["axes"] is None else axes_of(self._p["axes"])
        if len(axes) != 1:
            raise model_error(f"layer {self._name}: softmax over {len(axes)} axes, must be one")
        return [e.add("softmax", x, axes[0])]


class IRaggedSoftMaxLayer(ILayer):
    _layer_type = LayerType.RAGGED_SOFTMAX
    _min_inputs = 2

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("ragged_softmax", e.value(self._inputs[0]), e.value(self._inputs[1]))]


class INormalizationLayer(ILayer):
    _layer_type = LayerType.NORMALIZATION
    _min_inputs = 3
    _defaults = {"epsilon": 1e-5, "num_groups": 1, "compute_precision": DataType.FLOAT, "is_v2": False, "axes": 0}
    epsilon, axes, num_groups = prop("epsilon", float), prop("axes", int), prop("num_groups", int)
    compute_precision = enum_prop("compute_precision", DataType)
    is_v2 = property(lambda self: self._p["is_v2"])

    def _per_channel(self, e: Emitter, value: Any, channels: int) -> Any:
        """Expands per-group scales [1,G,1..] of the first version to one per channel."""
        count = int(np.prod(e.shape(value)))
        if count == channels or count != self.num_groups:
            return value
        ones = e.like(e.array(np.ones((1, channels // count), np.float32)), value)
        return e.reshape(e.elementwise(e.reshape(value, [count, 1]), ones, "PROD"), [channels])

    def _emit(self, e: Emitter) -> List[Any]:
        x, scale, bias = (e.value(t) for t in self._inputs[:3])
        if self.num_groups > 1:
            channels = e.shape(x)[1]
            scale, bias = self._per_channel(e, scale, channels), self._per_channel(e, bias, channels)
        axes = axes_of(self.axes)
        return [
            e.add(
                "normalization",
                x,
                e.like(scale, x),
                e.like(bias, x),
                axes or ffi.NULL,
                len(axes),
                self.num_groups,
                self.epsilon,
            )
        ]
