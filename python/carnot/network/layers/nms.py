"""Non-maximum suppression of boxes."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi, lib
from ...enums import (
    BoundingBoxFormat,
    DataType,
    LayerType,
)
from ..emitter import Emitter, model_error
from ..layer import ILayer, enum_prop, prop


class INMSLayer(ILayer):
    _layer_type = LayerType.NMS
    _min_inputs = 3
    _output_count = 2
    _defaults = {
        "bounding_box_format": BoundingBoxFormat.CORNER_PAIRS,
        "topk_box_limit": 5000,
        "indices_type": DataType.INT32,
    }
    bounding_box_format = enum_prop("bounding_box_format", BoundingBoxFormat)
    topk_box_limit, indices_type = prop("topk_box_limit", int), enum_prop("indices_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        boxes, scores, most = (e.value(t) for t in self._inputs[:3])
        if len(e.shape(boxes)) == 4:
            if e.shape(boxes)[2] != 1:
                raise model_error(f"layer {self._name}: boxes of their own for each class", lib.CARNOT_UNSUPPORTED)
            boxes = e.reshape(boxes, [0, 0, 4])
        thresholds = [e.scalar(e.value(t)) if t is not None else ffi.NULL for t in (self._inputs[3:] + [None] * 2)[:2]]
        chosen = e.add(
            "nms",
            boxes,
            e.transpose(scores, [0, 2, 1]),
            e.scalar(e.int64(most)),
            *thresholds,
            self.bounding_box_format == BoundingBoxFormat.CENTER_SIZES,
        )
        count = e.add("gather", e.add("shape", chosen), e.int(0), lib.CARNOT_GATHER_DEFAULT, 0, 0)
        return [e.cast(chosen, self.indices_type), e.cast(count, DataType.INT32)]
