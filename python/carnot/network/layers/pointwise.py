"""Pointwise layers: activation, unary, element-wise, scale, select, cast, constant."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi, lib
from ...enums import ActivationType, DataType, ElementWiseOperation, LayerType, ScaleMode, UnaryOperation
from ...types import to_c_dtype
from ..emitter import Emitter
from ..layer import ILayer, dims_prop, enum_prop, prop, weights_prop


class IActivationLayer(ILayer):
    _layer_type = LayerType.ACTIVATION
    _defaults = {"alpha": 0.0, "beta": 0.0, "type": ActivationType.RELU}
    type = enum_prop("type", ActivationType)  # type: ignore[assignment]
    alpha, beta = prop("alpha", float), prop("beta", float)

    def _emit(self, e: Emitter) -> List[Any]:
        return [
            e.add(
                "activation",
                e.value(self._inputs[0]),
                getattr(lib, "CARNOT_ACTIVATION_TYPE_" + self.type.name),
                self.alpha,
                self.beta,
            )
        ]


class IElementWiseLayer(ILayer):
    _layer_type = LayerType.ELEMENTWISE
    _min_inputs = 2
    op = enum_prop("op", ElementWiseOperation)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.elementwise(e.value(self._inputs[0]), e.value(self._inputs[1]), self.op.name)]


class IUnaryLayer(ILayer):
    _layer_type = LayerType.UNARY
    op = enum_prop("op", UnaryOperation)

    def _emit(self, e: Emitter) -> List[Any]:
        name = {"ISINF": "IS_INF", "ISNAN": "IS_NAN"}.get(self.op.name, self.op.name)
        return [e.add("unary", e.value(self._inputs[0]), getattr(lib, "CARNOT_UNARY_" + name))]


class IParametricReLULayer(ILayer):
    _layer_type = LayerType.PARAMETRIC_RELU
    _min_inputs = 2

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("parametric_relu", e.value(self._inputs[0]), e.value(self._inputs[1]))]


class ISelectLayer(ILayer):
    _layer_type = LayerType.SELECT
    _min_inputs = 3

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("select", *[e.value(t) for t in self._inputs[:3]])]


class IScaleLayer(ILayer):
    _layer_type = LayerType.SCALE
    _defaults = {"channel_axis": 1, "shift": None, "scale": None, "power": None, "mode": ScaleMode.UNIFORM}
    mode = enum_prop("mode", ScaleMode)
    channel_axis = prop("channel_axis", int)
    shift, scale, power = weights_prop("shift"), weights_prop("scale"), weights_prop("power")

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        shape = e.shape(x)
        dims = {
            ScaleMode.UNIFORM: [],
            ScaleMode.CHANNEL: shape[self.channel_axis : self.channel_axis + 1],
            ScaleMode.ELEMENTWISE: shape[self.channel_axis :],
        }[self.mode]
        values = []
        for name in ("shift", "scale", "power"):
            weights = self._p[name]
            values.append(
                ffi.NULL
                if weights is None or not len(weights)
                else e.like(e.constant(weights, dims, f"{self._name} {name.upper()}"), x)
            )
        return [e.add("scale", x, self.channel_axis, *values)]


class IIdentityLayer(ILayer):
    _layer_type = LayerType.IDENTITY

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("identity", e.value(self._inputs[0]))]


class ICastLayer(ILayer):
    _layer_type = LayerType.CAST
    to_type = enum_prop("to_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("cast", e.value(self._inputs[0]), to_c_dtype(self.to_type))]


class IConstantLayer(ILayer):
    _layer_type = LayerType.CONSTANT
    _min_inputs = 0
    shape, weights = dims_prop("shape"), weights_prop("weights")

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.constant(self._p["weights"], list(self.shape), self._name + " CONSTANT")]
