"""Layer classes without an implementation."""

from __future__ import annotations

from ...enums import DataType, LayerType
from ..layer import ILayer, dims_prop, enum_prop, prop


class IDynamicQuantizeLayer(ILayer):
    _layer_type = LayerType.DYNAMIC_QUANTIZE
    axis, block_size, block_shape = prop("axis", int), prop("block_size", int), dims_prop("block_shape")
    to_type, scale_type = enum_prop("to_type", DataType), enum_prop("scale_type", DataType)


class IDistCollectiveLayer(ILayer):
    _layer_type = LayerType.DIST_COLLECTIVE


class IAttentionBoundaryLayer(ILayer):
    attention = property(lambda self: self._p.get("attention"))


class IAttentionInputLayer(IAttentionBoundaryLayer):
    _layer_type = LayerType.ATTENTION_INPUT


class IAttentionOutputLayer(IAttentionBoundaryLayer):
    _layer_type = LayerType.ATTENTION_OUTPUT
