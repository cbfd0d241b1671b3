"""The add_* methods of a network, as a mixin of INetworkDefinition."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ..enums import CausalMaskKind, DataType
from ..plugin.bridge import output_count
from ..types import Dims, Weights, to_c_dtype
from . import layers as L
from .tensor import ITensor


def _tensor(value: Any, name: str) -> Any:
    if value is not None and not hasattr(value, "is_network_input"):
        raise TypeError(f"{name} must be an ITensor, not {type(value).__name__}")
    return value


class NetworkLayers:
    """The add_* methods of a network. A rejected argument is logged as an error and the method returns None."""

    def _add_layer(self, layer: Any) -> Any:
        number = len(self._layers)
        kind = "".join(word.capitalize() for word in layer._type.name.split("_"))
        layer._name = f"(Unnamed Layer* {number}) [{kind}]"
        for tensor in layer._inputs:
            if tensor is not None and tensor._network is not self:
                return self._fail(f"{layer._name}: tensor {tensor._name} belongs to another network")
        layer._outputs = [
            ITensor(self, f"{layer._name}_output" + (f"_{i}" if i else ""), layer) for i in range(layer._output_count)
        ]
        self._layers.append(layer)
        return layer

    def _new(self, kind: Any, inputs: Any, needed: Any = None, **properties: Any) -> Any:
        tensors = [_tensor(t, f"input {i} of {kind.__name__}") for i, t in enumerate(inputs)]
        for i, tensor in enumerate(tensors[: kind._min_inputs if needed is None else needed]):
            if tensor is None:
                return self._fail(f"{kind.__name__}: input {i} is None")
        return self._add_layer(kind(self, tensors, **properties))

    @staticmethod
    def _window(kind: Any, rank: int) -> Dict[str, Any]:
        return {**kind._defaults, **L.window_defaults(rank)}

    def _add_conv(self, kind: Any, input: Any, maps: int, kernel_shape: Any, kernel: Any, bias: Any) -> Any:
        dims = Dims(tuple(kernel_shape))
        return self._new(
            kind,
            [input],
            **{
                **self._window(kind, len(dims)),
                "num_output_maps": int(maps),
                "kernel_size_nd": dims,
                "kernel": Weights.of(kernel),
                "bias": Weights.of(bias),
            },
        )

    def add_convolution_nd(
        self, input: Any, num_output_maps: Any, kernel_shape: Any, kernel: Any = None, bias: Any = None
    ) -> Any:
        return self._add_conv(L.IConvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    def add_convolution(
        self, input: Any, num_output_maps: Any, kernel_shape: Any, kernel: Any = None, bias: Any = None
    ) -> Any:
        return self.add_convolution_nd(input, num_output_maps, kernel_shape, kernel, bias)

    def add_deconvolution_nd(
        self, input: Any, num_output_maps: Any, kernel_shape: Any, kernel: Any = None, bias: Any = None
    ) -> Any:
        return self._add_conv(L.IDeconvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    def add_deconvolution(
        self, input: Any, num_output_maps: Any, kernel_shape: Any, kernel: Any = None, bias: Any = None
    ) -> Any:
        return self.add_deconvolution_nd(input, num_output_maps, kernel_shape, kernel, bias)

    def add_pooling_nd(self, input: Any, type: Any, window_size: Any) -> Any:
        dims = Dims(tuple(window_size))
        return self._new(
            L.IPoolingLayer,
            [input],
            **{**self._window(L.IPoolingLayer, len(dims)), "type": type, "window_size_nd": dims},
        )

    def add_pooling(self, input: Any, type: Any, window_size: Any) -> Any:
        return self.add_pooling_nd(input, type, window_size)

    def add_fully_connected(self, input: Any, num_outputs: Any, kernel: Any, bias: Any = None) -> Any:
        return self._new(
            L.IFullyConnectedLayer,
            [input],
            num_output_channels=int(num_outputs),
            kernel=Weights.of(kernel),
            bias=Weights.of(bias),
        )

    def add_padding_nd(self, input: Any, pre_padding: Any, post_padding: Any) -> Any:
        return self._new(
            L.IPaddingLayer, [input], pre_padding_nd=Dims(tuple(pre_padding)), post_padding_nd=Dims(tuple(post_padding))
        )

    def add_padding(self, input: Any, pre_padding: Any, post_padding: Any) -> Any:
        return self.add_padding_nd(input, pre_padding, post_padding)

    def add_lrn(self, input: Any, window: Any, alpha: Any, beta: Any, k: Any) -> Any:
        return self._new(
            L.ILRNLayer, [input], window_size=int(window), alpha=float(alpha), beta=float(beta), k=float(k)
        )

    def add_activation(self, input: Any, type: Any) -> Any:
        return self._new(L.IActivationLayer, [input], type=type)

    def add_elementwise(self, input1: Any, input2: Any, op: Any) -> Any:
        return self._new(L.IElementWiseLayer, [input1, input2], op=op)

    def add_unary(self, input: Any, op: Any) -> Any:
        return self._new(L.IUnaryLayer, [input], op=op)

    def add_parametric_relu(self, input: Any, slopes: Any) -> Any:
        return self._new(L.IParametricReLULayer, [input, slopes])

    def add_select(self, condition: Any, then_input: Any, else_input: Any) -> Any:
        return self._new(L.ISelectLayer, [condition, then_input, else_input])

    def add_scale(self, input: Any, mode: Any, shift: Any = None, scale: Any = None, power: Any = None) -> Any:
        return self.add_scale_nd(input, mode, shift, scale, power, 1)

    def add_scale_nd(
        self, input: Any, mode: Any, shift: Any = None, scale: Any = None, power: Any = None, channel_axis: Any = 1
    ) -> Any:
        return self._new(
            L.IScaleLayer,
            [input],
            mode=mode,
            shift=Weights.of(shift),
            scale=Weights.of(scale),
            power=Weights.of(power),
            channel_axis=int(channel_axis),
        )

    def add_identity(self, input: Any) -> Any:
        return self._new(L.IIdentityLayer, [input])

    def add_cast(self, input: Any, to_type: Any) -> Any:
        to_c_dtype(to_type)
        return self._new(L.ICastLayer, [input], to_type=to_type)

    def add_constant(self, shape: Any, weights: Any) -> Any:
        dims, weights = Dims(tuple(shape)), Weights.of(weights)
        if weights is not None and int(np.prod(list(dims), dtype=np.int64)) != weights.size:
            return self._fail(f"add_constant: {weights.size} weights for the shape {dims}")
        return self._new(L.IConstantLayer, [], shape=dims, weights=weights)

    def add_matrix_multiply(self, input0: Any, op0: Any, input1: Any, op1: Any) -> Any:
        return self._new(L.IMatrixMultiplyLayer, [input0, input1], op0=op0, op1=op1)

    def add_einsum(self, inputs: Any, equation: Any) -> Any:
        return self._new(L.IEinsumLayer, list(inputs), equation=equation)

    def add_softmax(self, input: Any) -> Any:
        return self._new(L.ISoftMaxLayer, [input])

    def add_ragged_softmax(self, input: Any, bounds: Any) -> Any:
        return self._new(L.IRaggedSoftMaxLayer, [input, bounds])

    def add_normalization(self, input: Any, scale: Any, bias: Any, axesMask: Any) -> Any:
        return self._new(L.INormalizationLayer, [input, scale, bias], axes=int(axesMask))

    def add_normalization_v2(self, input: Any, scale: Any, bias: Any, axesMask: Any) -> Any:
        return self._new(L.INormalizationLayer, [input, scale, bias], axes=int(axesMask), is_v2=True)

    def add_reduce(self, input: Any, op: Any, axes: Any, keep_dims: Any) -> Any:
        return self._new(L.IReduceLayer, [input], op=op, axes=int(axes), keep_dims=bool(keep_dims))

    def add_topk(self, input: Any, op: Any, k: Any, axes: Any, indices_type: Any = DataType.INT32) -> Any:
        return self._new(L.ITopKLayer, [input], op=op, k=int(k), axes=int(axes), indices_type=indices_type)

    def add_cumulative(self, input: Any, axis: Any, op: Any, exclusive: Any, reverse: Any) -> Any:
        return self._new(L.ICumulativeLayer, [input, axis], 2, op=op, exclusive=bool(exclusive), reverse=bool(reverse))

    def add_attention(self, query: Any, key: Any, value: Any, norm_op: Any, causal: Any) -> Any:
        return self.add_attention_v2(query, key, value, norm_op, CausalMaskKind(1 if causal else 0))

    def add_attention_v2(self, query: Any, key: Any, value: Any, norm_op: Any, causal_kind: Any) -> Any:
        return self._new(L.IAttention, [query, key, value], norm_op=norm_op, causal_kind=causal_kind)

    def add_rotary_embedding(
        self, input: Any, cos_cache: Any, sin_cache: Any, interleaved: Any, rotary_embedding_dim: Any
    ) -> Any:
        return self._new(
            L.IRotaryEmbeddingLayer,
            [input, cos_cache, sin_cache],
            interleaved=bool(interleaved),
            rotary_embedding_dim=int(rotary_embedding_dim),
        )

    def add_kv_cache_update(self, cache: Any, update: Any, write_indices: Any, cache_mode: Any) -> Any:
        return self._new(L.IKVCacheUpdateLayer, [cache, update, write_indices], cache_mode=cache_mode)

    def add_shape(self, input: Any) -> Any:
        return self._new(L.IShapeLayer, [input])

    def add_shuffle(self, input: Any) -> Any:
        return self._new(L.IShuffleLayer, [input])

    def add_squeeze(self, input: Any, axes: Any) -> Any:
        return self._new(L.ISqueezeLayer, [input, axes])

    def add_unsqueeze(self, input: Any, axes: Any) -> Any:
        return self._new(L.IUnsqueezeLayer, [input, axes])

    def add_concatenation(self, inputs: Any) -> Any:
        inputs = list(inputs)
        return self._new(L.IConcatenationLayer, inputs, len(inputs))

    def add_slice(self, input: Any, start: Any, shape: Any, stride: Any) -> Any:
        return self._new(
            L.ISliceLayer, [input], start=Dims(tuple(start)), shape=Dims(tuple(shape)), stride=Dims(tuple(stride))
        )

    def add_gather(self, input: Any, indices: Any, axis: Any) -> Any:
        return self._new(L.IGatherLayer, [input, indices], axis=int(axis))

    def add_gather_v2(self, input: Any, indices: Any, mode: Any) -> Any:
        return self._new(L.IGatherLayer, [input, indices], mode=mode)

    def add_scatter(self, data: Any, indices: Any, updates: Any, mode: Any) -> Any:
        return self._new(L.IScatterLayer, [data, indices, updates], mode=mode)

    def add_one_hot(self, indices: Any, values: Any, depth: Any, axis: Any) -> Any:
        return self._new(L.IOneHotLayer, [indices, values, depth], axis=int(axis))

    def add_non_zero(self, input: Any, indices_type: Any = DataType.INT32) -> Any:
        return self._new(L.INonZeroLayer, [input], indices_type=indices_type)

    def add_reverse_sequence(self, input: Any, sequence_lens: Any) -> Any:
        return self._new(L.IReverseSequenceLayer, [input, sequence_lens])

    def add_resize(self, input: Any) -> Any:
        return self._new(L.IResizeLayer, [input])

    def add_grid_sample(self, input: Any, grid: Any) -> Any:
        return self._new(L.IGridSampleLayer, [input, grid])

    def add_nms(
        self, boxes: Any, scores: Any, max_output_boxes_per_class: Any, indices_type: Any = DataType.INT32
    ) -> Any:
        return self._new(L.INMSLayer, [boxes, scores, max_output_boxes_per_class], indices_type=indices_type)

    def add_fill(self, shape: Any, op: Any, output_type: Any = DataType.FLOAT) -> Any:
        return self._new(L.IFillLayer, [], shape=Dims(tuple(shape)), operation=op, to_type=output_type)

    def add_quantize(self, input: Any, scale: Any, output_type: Any = DataType.INT8) -> Any:
        return self._new(L.IQuantizeLayer, [input, scale], to_type=output_type)

    def add_dequantize(self, input: Any, scale: Any, output_type: Any = DataType.FLOAT) -> Any:
        return self._new(L.IDequantizeLayer, [input, scale], to_type=output_type)

    def add_assertion(self, condition: Any, message: Any) -> Any:
        return self._new(L.IAssertionLayer, [condition], message=message)

    def add_rnn_v2(self, input: Any, layer_count: Any, hidden_size: Any, max_seq_length: Any, op: Any) -> Any:
        return self._new(
            L.IRNNv2Layer,
            [input],
            layer_count=int(layer_count),
            hidden_size=int(hidden_size),
            max_seq_length=int(max_seq_length),
            op=op,
        )

    def add_moe(self, hidden_states: Any, selected_experts_for_tokens: Any, scores_for_selected_experts: Any) -> Any:
        return self._new(
            L.IMoELayer, [hidden_states, selected_experts_for_tokens, scores_for_selected_experts], needed=3
        )

    # ---- plugins ----

    def _add_plugin(self, kind: Any, inputs: Any, shape_inputs: Any, plugin: Any) -> Any:
        tensors = [_tensor(t, f"input {i} of {kind.__name__}") for i, t in enumerate([*inputs, *shape_inputs])]
        if plugin is None:
            return self._fail(f"{kind.__name__}: the plugin is None")
        layer = kind(self, tensors, plugin=plugin, input_count=len(list(inputs)))
        layer._output_count = output_count(plugin)
        return self._add_layer(layer)

    def add_plugin_v2(self, inputs: Any, plugin: Any) -> Any:
        return self._add_plugin(L.IPluginV2Layer, inputs, (), plugin)

    def add_plugin_v3(self, inputs: Any, shape_inputs: Any, plugin: Any) -> Any:
        return self._add_plugin(L.IPluginV3Layer, inputs, shape_inputs or (), plugin)

    def add_plugin(self, tuple: Any, aot: Any = None) -> Any:  # noqa: A002
        """Adds the plugin returned by carnot.plugin.op.NAMESPACE.NAME(...)."""
        return self.add_plugin_v3(*tuple.given(aot))

    # ---- layers that are not available yet ----

    def _unavailable(self, what: str) -> None:
        return self._fail(f"{what} is not available in this version")

    def add_dynamic_quantize(self, input: Any, axis: Any, block_size: Any, output_type: Any, scale_type: Any) -> Any:
        return self._unavailable("add_dynamic_quantize")

    def add_dynamic_quantize_v2(self, input: Any, block_shape: Any, output_type: Any, scale_type: Any) -> Any:
        return self._unavailable("add_dynamic_quantize_v2")

    def add_dist_collective(self, input: Any, dist_collective_op: Any, reduce_op: Any, root: Any, groups: Any) -> Any:
        return self._unavailable("add_dist_collective")
