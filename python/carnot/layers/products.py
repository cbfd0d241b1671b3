"""Products, normalisation, reduction, attention."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from .._carnot import ffi, lib
from ..core import utf8
from ..enums import (
    AttentionIOForm,
    AttentionNormalizationOp,
    CausalMaskKind,
    CumulativeOperation,
    DataType,
    KVCacheMode,
    LayerType,
    MatrixOperation,
    ReduceOperation,
    TopKOperation,
)
from .base import Emitter, ILayer, axes_of, enum_prop, model_error, prop


class IMatrixMultiplyLayer(ILayer):
    _layer_type = LayerType.MATRIX_MULTIPLY
    _min_inputs = 2
    op0, op1 = enum_prop("op0", MatrixOperation), enum_prop("op1", MatrixOperation)

    def _emit(self, e: Emitter) -> List[Any]:
        return [
            e.add("matrix_multiply", e.value(self._inputs[0]), int(self.op0), e.value(self._inputs[1]), int(self.op1))
        ]


class IEinsumLayer(ILayer):
    _layer_type = LayerType.EINSUM
    equation = prop("equation", str)

    def _emit(self, e: Emitter) -> List[Any]:
        values = [e.value(t) for t in self._inputs]
        return [e.add("einsum", utf8(self.equation), values, len(values))]


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
        """Group scales [1,G,1..] of the first version, one for each channel."""
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


class IAttention(ILayer):
    """softmax(q k^T + mask) v; not scaled, as in TensorRT."""

    _layer_type = LayerType.ATTENTION_OUTPUT
    _min_inputs = 3
    _defaults = {
        "norm_op": AttentionNormalizationOp.SOFTMAX,
        "causal_kind": CausalMaskKind.NONE,
        "decomposable": False,
        "mask": None,
        "normalization_quantize_scale": None,
        "normalization_quantize_to_type": DataType.FLOAT,
        "query_form": AttentionIOForm.PADDED_BHND,
        "key_value_form": AttentionIOForm.PADDED_BHND,
        "query_lengths": None,
        "key_value_lengths": None,
    }
    norm_op = enum_prop("norm_op", AttentionNormalizationOp)
    causal_kind = enum_prop("causal_kind", CausalMaskKind)
    decomposable = prop("decomposable", bool)
    normalization_quantize_scale = prop("normalization_quantize_scale")
    normalization_quantize_to_type = prop("normalization_quantize_to_type")
    query_form = enum_prop("query_form", AttentionIOForm)
    key_value_form = enum_prop("key_value_form", AttentionIOForm)
    query_lengths, key_value_lengths = prop("query_lengths"), prop("key_value_lengths")
    causal = property(
        lambda self: self.causal_kind != CausalMaskKind.NONE,
        lambda self, value: self._set("causal_kind", CausalMaskKind(1 if value else 0)),
    )

    def _set_mask(self, tensor: Any) -> None:
        self._p["mask"] = tensor
        self._rewire(3, tensor)

    mask = property(lambda self: self._p["mask"], _set_mask)

    def _emit(self, e: Emitter) -> List[Any]:
        for name in ("normalization_quantize_scale", "query_lengths", "key_value_lengths"):
            if self._p[name] is not None:
                raise model_error(f"attention {self._name}: {name} is not supported", lib.CARNOT_UNSUPPORTED)
        if AttentionIOForm.PACKED_NHD in (self.query_form, self.key_value_form):
            raise model_error(f"attention {self._name}: the form PACKED_NHD is not supported", lib.CARNOT_UNSUPPORTED)
        q, k, v = (e.value(t) for t in self._inputs[:3])
        mask = e.value(self._inputs[3]) if len(self._inputs) > 3 else ffi.NULL
        if self.norm_op == AttentionNormalizationOp.NONE:
            scores = e.add("matrix_multiply", q, lib.CARNOT_MATRIX_NONE, k, lib.CARNOT_MATRIX_TRANSPOSE)
            if mask:
                scores = e.elementwise(scores, mask, "SUM")
            return [e.add("matrix_multiply", scores, lib.CARNOT_MATRIX_NONE, v, lib.CARNOT_MATRIX_NONE)]
        if self.causal_kind == CausalMaskKind.LOWER_RIGHT and e.shape(q)[2] != e.shape(k)[2]:
            raise model_error(
                f"attention {self._name}: LOWER_RIGHT needs as many queries as keys", lib.CARNOT_UNSUPPORTED
            )
        config = ffi.new("carnot_attention_config*", {"causal": self.causal, "scale": 1.0})
        return [e.add("attention", q, k, v, mask, config)]


class IRotaryEmbeddingLayer(ILayer):
    _layer_type = LayerType.ROTARY_EMBEDDING
    _min_inputs = 3
    interleaved, rotary_embedding_dim = prop("interleaved", bool), prop("rotary_embedding_dim", int)

    def _emit(self, e: Emitter) -> List[Any]:
        positions = e.int64(e.value(self._inputs[3])) if len(self._inputs) > 3 and self._inputs[3] else ffi.NULL
        return [
            e.add(
                "rotary_embedding",
                *[e.value(t) for t in self._inputs[:3]],
                positions,
                self.interleaved,
                self.rotary_embedding_dim,
            )
        ]


class IKVCacheUpdateLayer(ILayer):
    _layer_type = LayerType.KV_CACHE_UPDATE
    _min_inputs = 3
    _defaults = {"update_form": None, "update_lengths": None}
    cache_mode = enum_prop("cache_mode", KVCacheMode)
    update_form, update_lengths = prop("update_form"), prop("update_lengths")

    def _emit(self, e: Emitter) -> List[Any]:
        cache, update, indices = (e.value(t) for t in self._inputs[:3])
        return [e.add("kv_cache_update", cache, update, e.int64(indices))]
