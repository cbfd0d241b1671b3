"""Quantize and dequantize layers."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi
from ...enums import (
    DataType,
    LayerType,
)
from ...types import to_c_dtype
from ..emitter import Emitter
from ..layer import ILayer, dims_prop, enum_prop, prop


class IQuantizeLayer(ILayer):
    _layer_type = LayerType.QUANTIZE
    _min_inputs = 2
    _defaults = {"axis": 1, "to_type": DataType.INT8, "block_shape": None}
    axis, to_type, block_shape = prop("axis", int), enum_prop("to_type", DataType), dims_prop("block_shape")

    def _block(self, e: Emitter, x: Any, scale: Any) -> tuple:
        """Axis and block length. Scales of the input's rank are blocked along the axis with fewer scales."""
        whole, parts = e.shape(x), e.shape(scale)
        if len(parts) != len(whole) or len(parts) < 2:
            return self.axis, 0
        for d, (count, part) in enumerate(zip(whole, parts)):
            if part not in (1, count) and part > 0 or (part > 1 and self._p["block_shape"] is not None):
                return d, count // part
        return self.axis, 0

    def _emit(self, e: Emitter) -> List[Any]:
        x, scale = e.value(self._inputs[0]), e.value(self._inputs[1])
        zero = e.value(self._inputs[2]) if len(self._inputs) > 2 else ffi.NULL
        return [e.add("quantize", x, scale, zero, *self._block(e, x, scale), to_c_dtype(self.to_type))]


class IDequantizeLayer(IQuantizeLayer):
    _layer_type = LayerType.DEQUANTIZE
    _defaults = {"axis": 1, "to_type": DataType.FLOAT, "block_shape": None}

    def _emit(self, e: Emitter) -> List[Any]:
        x, scale = e.value(self._inputs[0]), e.value(self._inputs[1])
        zero = e.value(self._inputs[2]) if len(self._inputs) > 2 else ffi.NULL
        return [e.cast(e.add("dequantize", x, scale, zero, *self._block(e, x, scale)), self.to_type)]
