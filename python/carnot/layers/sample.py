"""Resampling, detection, generation, quantization, checks."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from .._carnot import ffi, lib
from ..core import CarnotError, utf8
from ..enums import (
    BoundingBoxFormat,
    DataType,
    FillOperation,
    InterpolationMode,
    LayerType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from ..types import Dims, to_c_dtype
from .base import Emitter, ILayer, dims_prop, enum_prop, model_error, prop


class IResizeLayer(ILayer):
    _layer_type = LayerType.RESIZE
    _defaults = {
        "shape": None,
        "scales": None,
        "resize_mode": InterpolationMode.NEAREST,
        "coordinate_transformation": ResizeCoordinateTransformation.ASYMMETRIC,
        "selector_for_single_pixel": ResizeSelector.FORMULA,
        "nearest_rounding": ResizeRoundMode.FLOOR,
        "cubic_coeff": -0.75,
        "exclude_outside": False,
    }
    shape = property(
        lambda self: Dims() if self._p["shape"] is None else self._p["shape"],
        lambda self, value: self._set("shape", Dims(tuple(value))),
    )
    scales = property(
        lambda self: self._p["scales"] or [], lambda self, value: self._set("scales", [float(s) for s in value])
    )
    resize_mode = enum_prop("resize_mode", InterpolationMode)
    coordinate_transformation = enum_prop("coordinate_transformation", ResizeCoordinateTransformation)
    selector_for_single_pixel = enum_prop("selector_for_single_pixel", ResizeSelector)
    nearest_rounding = enum_prop("nearest_rounding", ResizeRoundMode)
    cubic_coeff, exclude_outside = prop("cubic_coeff", float), prop("exclude_outside", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        sizes, scales = ffi.NULL, ffi.NULL
        if len(self._inputs) > 1 and self._inputs[1] is not None:
            given = e.value(self._inputs[1])
            if lib.carnot_value_dtype(given) == lib.CARNOT_DTYPE_F32:
                scales = given
            else:
                sizes = e.int64(given)
        elif self._p["shape"] is not None:
            sizes = e.ints(self._p["shape"])
        elif self._p["scales"] is not None:
            scales = e.array(np.asarray(self._p["scales"], np.float32))
        else:
            raise model_error(f"layer {self._name}: resize needs shape, scales or input 1")
        coordinates = self.coordinate_transformation.name
        if self.selector_for_single_pixel == ResizeSelector.UPPER and coordinates == "HALF_PIXEL":
            coordinates = "HALF_PIXEL_SINGLE"
        config = ffi.new("carnot_resize_config*")
        config.mode = getattr(lib, "CARNOT_INTERPOLATION_" + self.resize_mode.name)
        config.coordinates = getattr(lib, "CARNOT_COORDINATES_" + coordinates)
        config.rounding = getattr(lib, "CARNOT_ROUNDING_" + self.nearest_rounding.name)
        config.cubic_coefficient = self.cubic_coeff
        config.exclude_outside = self.exclude_outside
        return [e.add("resize", x, sizes, scales, config)]


class IGridSampleLayer(ILayer):
    _layer_type = LayerType.GRID_SAMPLE
    _min_inputs = 2
    _defaults = {"interpolation_mode": InterpolationMode.LINEAR, "align_corners": False, "sample_mode": SampleMode.FILL}
    interpolation_mode = enum_prop("interpolation_mode", InterpolationMode)
    align_corners, sample_mode = prop("align_corners", bool), enum_prop("sample_mode", SampleMode)

    def _emit(self, e: Emitter) -> List[Any]:
        if self.sample_mode.name not in ("FILL", "CLAMP", "REFLECT"):
            raise model_error(
                f"layer {self._name}: sample mode {self.sample_mode.name}, must be FILL, CLAMP or REFLECT"
            )
        return [
            e.add(
                "grid_sample",
                e.value(self._inputs[0]),
                e.value(self._inputs[1]),
                getattr(lib, "CARNOT_INTERPOLATION_" + self.interpolation_mode.name),
                self.align_corners,
                getattr(lib, "CARNOT_SAMPLE_" + self.sample_mode.name),
            )
        ]


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
            rank = e.shape(sizes)[0]
            counts = [e.add("gather", sizes, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) for d in range(rank)]
        else:
            rank, counts = len(self.shape), [e.int(d) for d in self.shape]
        betas = e.value(self._input(2)) if self._input(2) is not None else None
        total = (
            e.scalar(e.value(self._input(1)))
            if self._input(1) is not None
            else e.cast(
                e.array(np.asarray(self.alpha, np.float64 if isinstance(self.alpha, float) else np.int64)), self.to_type
            )
        )
        for d in range(rank):
            steps = e.cast(e.add("fill_linspace", e.int(0), counts[d], e.int(1)), self.to_type)
            if betas is None:
                step = e.cast(
                    e.array(np.asarray(self.beta, np.float64 if isinstance(self.beta, float) else np.int64)),
                    self.to_type,
                )
            else:
                step = e.add("gather", betas, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) if e.shape(betas) else betas
            part = e.elementwise(steps, step, "PROD")
            total = e.elementwise(total, e.reshape(part, [-1] + [1] * (rank - 1 - d)), "SUM")
        return total


class IQuantizeLayer(ILayer):
    _layer_type = LayerType.QUANTIZE
    _min_inputs = 2
    _defaults = {"axis": 1, "to_type": DataType.INT8, "block_shape": None}
    axis, to_type, block_shape = prop("axis", int), enum_prop("to_type", DataType), dims_prop("block_shape")

    def _block(self, e: Emitter, x: Any, scale: Any) -> tuple:
        """Axis and block length: scales of the input's rank are blocks along the axis where they are fewer."""
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


class IAssertionLayer(ILayer):
    _layer_type = LayerType.ASSERTION
    _output_count = 0
    message = prop("message", str)

    def _emit(self, e: Emitter) -> List[Any]:
        try:
            e.call("add_assertion", e.value(self._inputs[0]), utf8(self.message))
        except CarnotError as error:
            if error.code != lib.CARNOT_UNSUPPORTED:
                raise
            e.network._warn(str(error))
        return []
