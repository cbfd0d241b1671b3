"""Convolution, deconvolution, pooling, LRN, padding and fully connected layers."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from ..._carnot import ffi, lib
from ...enums import LayerType, PaddingMode, PoolingType
from ...types import Dims, DimsHW
from ..emitter import Emitter, model_error
from ..layer import ILayer, dims_prop, enum_prop, hw_prop, prop, weights_prop


class _Window(ILayer):
    """Strides, paddings and dilations, also by TensorRT 8.6's two-dimensional names."""

    stride_nd, stride = dims_prop("stride_nd"), hw_prop("stride_nd")
    padding_mode = enum_prop("padding_mode", PaddingMode)
    pre_padding, post_padding = dims_prop("pre_padding"), dims_prop("post_padding")

    def _padding(self) -> Dims:
        return Dims(tuple(self._p["pre_padding"]))

    def _set_padding(self, value: Any) -> None:
        self._set("pre_padding", Dims(tuple(value)))
        self._set("post_padding", Dims(tuple(value)))

    padding_nd = property(_padding, _set_padding)
    padding = property(lambda self: DimsHW(tuple(self._padding())), _set_padding)

    def _c_window(self, kernel: Any) -> Any:
        window = ffi.new("carnot_window*")
        rank = len(kernel)
        if not 1 <= rank <= 3:
            raise model_error(f"layer {self._name}: a window of {rank} dimensions, must be 1 to 3")
        window.rank = rank
        for name, values in (
            ("kernel", kernel),
            ("stride", self._p["stride_nd"]),
            ("dilation", self._p.get("dilation_nd") or [1] * rank),
            ("pre_padding", self._p["pre_padding"]),
            ("post_padding", self._p["post_padding"]),
        ):
            if len(values) != rank:
                raise model_error(f"layer {self._name}: {name} has {len(values)} dimensions, the window has {rank}")
            if name in ("kernel", "stride", "dilation") and min(values) < 1:
                raise model_error(f"layer {self._name}: {name} {tuple(values)} must be at least 1")
            for i in range(rank):
                getattr(window, name)[i] = values[i]
        mode = {"CAFFE_ROUND_DOWN": "EXPLICIT_ROUND_DOWN", "CAFFE_ROUND_UP": "EXPLICIT_ROUND_UP"}.get(
            self.padding_mode.name, self.padding_mode.name
        )
        window.mode = getattr(lib, "CARNOT_PADDING_" + mode)
        return window


def window_defaults(rank: int) -> Dict[str, Any]:
    return {
        "stride_nd": Dims([1] * rank),
        "pre_padding": Dims([0] * rank),
        "post_padding": Dims([0] * rank),
        "dilation_nd": Dims([1] * rank),
        "padding_mode": PaddingMode.EXPLICIT_ROUND_DOWN,
    }


class IConvolutionLayer(_Window):
    _layer_type = LayerType.CONVOLUTION
    _defaults = {"num_groups": 1, "kernel": None, "bias": None, **window_defaults(2)}
    num_output_maps = prop("num_output_maps", int)
    num_groups = prop("num_groups", int)
    kernel_size_nd, kernel_size = dims_prop("kernel_size_nd"), hw_prop("kernel_size_nd")
    dilation_nd, dilation = dims_prop("dilation_nd"), hw_prop("dilation_nd")
    kernel, bias = weights_prop("kernel"), weights_prop("bias")
    _kind = "convolution"

    def _kernel_dims(self, channels: int) -> List[int]:
        return [self.num_output_maps, channels // max(self.num_groups, 1), *self.kernel_size_nd]

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        shape = e.shape(x)
        kernel, bias = self._p["kernel"], self._p["bias"]
        if len(self._inputs) > 1 and self._inputs[1] is not None:
            k = e.value(self._inputs[1])
        elif kernel is None or not len(kernel):
            raise model_error(f"layer {self._name} has no kernel: neither weights nor input 1")
        else:
            channels = shape[1] if len(shape) > 1 else 0
            if channels < 0:  # dynamic; derived from the weights
                channels = kernel.size // max(1, self.num_output_maps * int(np.prod(list(self.kernel_size_nd))))
                channels *= self.num_groups
            k = e.like(e.constant(kernel, self._kernel_dims(channels), self._name + " KERNEL"), x)
        b = ffi.NULL
        if len(self._inputs) > 2 and self._inputs[2] is not None:
            b = e.value(self._inputs[2])
        elif bias is not None and len(bias):
            b = e.like(e.constant(bias, [self.num_output_maps], self._name + " BIAS"), x)
        return [e.add(self._kind, x, k, b, self.num_groups, self._c_window(self.kernel_size_nd))]


class IDeconvolutionLayer(IConvolutionLayer):
    _layer_type = LayerType.DECONVOLUTION
    _kind = "deconvolution"

    def _kernel_dims(self, channels: int) -> List[int]:
        return [channels, self.num_output_maps // max(self.num_groups, 1), *self.kernel_size_nd]


class IPoolingLayer(_Window):
    _layer_type = LayerType.POOLING
    _defaults = {
        "blend_factor": 0.0,
        "average_count_excludes_padding": True,
        "type": PoolingType.MAX,
        "window_size_nd": Dims([1, 1]),
        **window_defaults(2),
    }
    type = enum_prop("type", PoolingType)  # type: ignore[assignment]
    window_size_nd, window_size = dims_prop("window_size_nd"), hw_prop("window_size_nd")
    blend_factor = prop("blend_factor", float)
    average_count_excludes_padding = prop("average_count_excludes_padding", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        return [
            e.add(
                "pooling",
                e.value(self._inputs[0]),
                getattr(lib, "CARNOT_POOLING_" + self.type.name),
                self._c_window(self.window_size_nd),
                self.average_count_excludes_padding,
                self.blend_factor,
            )
        ]


class IFullyConnectedLayer(ILayer):
    _layer_type = LayerType.FULLY_CONNECTED
    _defaults = {"num_output_channels": 0, "kernel": None, "bias": None}
    num_output_channels = prop("num_output_channels", int)
    kernel, bias = weights_prop("kernel"), weights_prop("bias")

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        inner = int(np.prod(e.shape(x)[1:]))
        k = e.constant(self._p["kernel"], [self.num_output_channels, inner], self._name + " KERNEL")
        bias = self._p["bias"]
        b = (
            ffi.NULL
            if bias is None or not len(bias)
            else e.constant(bias, [self.num_output_channels], self._name + " BIAS")
        )
        return [e.add("fully_connected", x, k, b)]


class IPaddingLayer(ILayer):
    _layer_type = LayerType.PADDING
    _defaults = {"pre_padding_nd": Dims([0, 0]), "post_padding_nd": Dims([0, 0])}
    pre_padding_nd, pre_padding = dims_prop("pre_padding_nd"), hw_prop("pre_padding_nd")
    post_padding_nd, post_padding = dims_prop("post_padding_nd"), hw_prop("post_padding_nd")

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        before = [0] * (len(e.shape(x)) - len(self.pre_padding_nd))
        return [
            e.add(
                "padding",
                x,
                before + list(self.pre_padding_nd),
                before + list(self.post_padding_nd),
                lib.CARNOT_PAD_CONSTANT,
                0.0,
            )
        ]


class ILRNLayer(ILayer):
    _layer_type = LayerType.LRN
    window_size = prop("window_size", int)
    alpha, beta, k = prop("alpha", float), prop("beta", float), prop("k", float)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("lrn", e.value(self._inputs[0]), self.window_size, self.alpha, self.beta, self.k)]
