"""Resampling layers: resize and grid sample."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from ..._carnot import ffi, lib
from ...enums import (
    InterpolationMode,
    LayerType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from ...types import Dims
from ..emitter import Emitter, model_error
from ..layer import ILayer, enum_prop, prop


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
