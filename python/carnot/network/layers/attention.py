"""Attention, rotary position embedding and the KV cache."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi, lib
from ...enums import (
    AttentionIOForm,
    AttentionNormalizationOp,
    CausalMaskKind,
    DataType,
    KVCacheMode,
    LayerType,
)
from ..emitter import Emitter, model_error
from ..layer import ILayer, enum_prop, prop


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
