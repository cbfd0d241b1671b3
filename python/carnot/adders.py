"""The add_* methods of networks."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from . import layers as L
from ._carnot import ffi, lib
from .core import CarnotError, check
from .enums import CausalMaskKind, DataType
from .types import Dims, Weights, to_c_dtype
from .nodes import mark_readers, name_nodes, set_precision
from .plugin_bridge import output_count


def _tensor(value: Any, name: str) -> Any:
    if value is not None and not hasattr(value, "is_network_input"):
        raise TypeError(f"{name} must be an ITensor, not {type(value).__name__}")
    return value


class Adders:
    """The add_* methods of a network. An argument that cannot be gives None and a message."""

    _inner_values: Dict[int, Any] = {}

    def _layer_changed(self, layer: Any) -> None:
        layer._dirty = True
        for tensor in layer._outputs:
            mark_readers(self, tensor)

    def _layer_renamed(self, layer: Any) -> None:
        if layer._nodes:
            name_nodes(layer, layer._nodes)
        if not layer._imported and any(isinstance(value, Weights) for value in layer._p.values()):
            layer._dirty = True

    def _precision_changed(self, layer: Any) -> None:
        set_precision(layer)

    def _rewire_imported(self, layer: Any, index: int, tensor: Any) -> None:
        try:
            if tensor is not None:
                self._sync(strict=True)
            check(
                lib.carnot_layer_set_input(
                    self._c, layer._nodes[0], index, ffi.NULL if tensor is None else L.Emitter(self).value(tensor)
                )
            )
        except CarnotError as error:
            self._fail(error, f"layer {layer._name}")
            return
        layer._inputs[index] = tensor
        self._stale = True
        for output in layer._outputs:
            mark_readers(self, output)

    def _add_layer(self, layer: Any) -> Any:
        from .network import ITensor

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

    def add_convolution_nd(self, input, num_output_maps, kernel_shape, kernel=None, bias=None):
        return self._add_conv(L.IConvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    def add_convolution(self, input, num_output_maps, kernel_shape, kernel=None, bias=None):
        return self.add_convolution_nd(input, num_output_maps, kernel_shape, kernel, bias)

    def add_deconvolution_nd(self, input, num_output_maps, kernel_shape, kernel=None, bias=None):
        return self._add_conv(L.IDeconvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    def add_deconvolution(self, input, num_output_maps, kernel_shape, kernel=None, bias=None):
        return self.add_deconvolution_nd(input, num_output_maps, kernel_shape, kernel, bias)

    def add_pooling_nd(self, input, type, window_size):
        dims = Dims(tuple(window_size))
        return self._new(
            L.IPoolingLayer,
            [input],
            **{**self._window(L.IPoolingLayer, len(dims)), "type": type, "window_size_nd": dims},
        )

    def add_pooling(self, input, type, window_size):
        return self.add_pooling_nd(input, type, window_size)

    def add_fully_connected(self, input, num_outputs, kernel, bias=None):
        return self._new(
            L.IFullyConnectedLayer,
            [input],
            num_output_channels=int(num_outputs),
            kernel=Weights.of(kernel),
            bias=Weights.of(bias),
        )

    def add_padding_nd(self, input, pre_padding, post_padding):
        return self._new(
            L.IPaddingLayer, [input], pre_padding_nd=Dims(tuple(pre_padding)), post_padding_nd=Dims(tuple(post_padding))
        )

    def add_padding(self, input, pre_padding, post_padding):
        return self.add_padding_nd(input, pre_padding, post_padding)

    def add_lrn(self, input, window, alpha, beta, k):
        return self._new(
            L.ILRNLayer, [input], window_size=int(window), alpha=float(alpha), beta=float(beta), k=float(k)
        )

    def add_activation(self, input, type):
        return self._new(L.IActivationLayer, [input], type=type)

    def add_elementwise(self, input1, input2, op):
        return self._new(L.IElementWiseLayer, [input1, input2], op=op)

    def add_unary(self, input, op):
        return self._new(L.IUnaryLayer, [input], op=op)

    def add_parametric_relu(self, input, slopes):
        return self._new(L.IParametricReLULayer, [input, slopes])

    def add_select(self, condition, then_input, else_input):
        return self._new(L.ISelectLayer, [condition, then_input, else_input])

    def add_scale(self, input, mode, shift=None, scale=None, power=None):
        return self.add_scale_nd(input, mode, shift, scale, power, 1)

    def add_scale_nd(self, input, mode, shift=None, scale=None, power=None, channel_axis=1):
        return self._new(
            L.IScaleLayer,
            [input],
            mode=mode,
            shift=Weights.of(shift),
            scale=Weights.of(scale),
            power=Weights.of(power),
            channel_axis=int(channel_axis),
        )

    def add_identity(self, input):
        return self._new(L.IIdentityLayer, [input])

    def add_cast(self, input, to_type):
        to_c_dtype(to_type)
        return self._new(L.ICastLayer, [input], to_type=to_type)

    def add_constant(self, shape, weights):
        dims, weights = Dims(tuple(shape)), Weights.of(weights)
        if weights is not None and int(np.prod(list(dims), dtype=np.int64)) != weights.size:
            return self._fail(f"add_constant: {weights.size} weights for the shape {dims}")
        return self._new(L.IConstantLayer, [], shape=dims, weights=weights)

    def add_matrix_multiply(self, input0, op0, input1, op1):
        return self._new(L.IMatrixMultiplyLayer, [input0, input1], op0=op0, op1=op1)

    def add_einsum(self, inputs, equation):
        return self._new(L.IEinsumLayer, list(inputs), equation=equation)

    def add_softmax(self, input):
        return self._new(L.ISoftMaxLayer, [input])

    def add_ragged_softmax(self, input, bounds):
        return self._new(L.IRaggedSoftMaxLayer, [input, bounds])

    def add_normalization(self, input, scale, bias, axesMask):
        return self._new(L.INormalizationLayer, [input, scale, bias], axes=int(axesMask))

    def add_normalization_v2(self, input, scale, bias, axesMask):
        return self._new(L.INormalizationLayer, [input, scale, bias], axes=int(axesMask), is_v2=True)

    def add_reduce(self, input, op, axes, keep_dims):
        return self._new(L.IReduceLayer, [input], op=op, axes=int(axes), keep_dims=bool(keep_dims))

    def add_topk(self, input, op, k, axes, indices_type=DataType.INT32):
        return self._new(L.ITopKLayer, [input], op=op, k=int(k), axes=int(axes), indices_type=indices_type)

    def add_cumulative(self, input, axis, op, exclusive, reverse):
        return self._new(L.ICumulativeLayer, [input, axis], 2, op=op, exclusive=bool(exclusive), reverse=bool(reverse))

    def add_attention(self, query, key, value, norm_op, causal):
        return self.add_attention_v2(query, key, value, norm_op, CausalMaskKind(1 if causal else 0))

    def add_attention_v2(self, query, key, value, norm_op, causal_kind):
        return self._new(L.IAttention, [query, key, value], norm_op=norm_op, causal_kind=causal_kind)

    def add_rotary_embedding(self, input, cos_cache, sin_cache, interleaved, rotary_embedding_dim):
        return self._new(
            L.IRotaryEmbeddingLayer,
            [input, cos_cache, sin_cache],
            interleaved=bool(interleaved),
            rotary_embedding_dim=int(rotary_embedding_dim),
        )

    def add_kv_cache_update(self, cache, update, write_indices, cache_mode):
        return self._new(L.IKVCacheUpdateLayer, [cache, update, write_indices], cache_mode=cache_mode)

    def add_shape(self, input):
        return self._new(L.IShapeLayer, [input])

    def add_shuffle(self, input):
        return self._new(L.IShuffleLayer, [input])

    def add_squeeze(self, input, axes):
        return self._new(L.ISqueezeLayer, [input, axes])

    def add_unsqueeze(self, input, axes):
        return self._new(L.IUnsqueezeLayer, [input, axes])

    def add_concatenation(self, inputs):
        inputs = list(inputs)
        return self._new(L.IConcatenationLayer, inputs, len(inputs))

    def add_slice(self, input, start, shape, stride):
        return self._new(
            L.ISliceLayer, [input], start=Dims(tuple(start)), shape=Dims(tuple(shape)), stride=Dims(tuple(stride))
        )

    def add_gather(self, input, indices, axis):
        return self._new(L.IGatherLayer, [input, indices], axis=int(axis))

    def add_gather_v2(self, input, indices, mode):
        return self._new(L.IGatherLayer, [input, indices], mode=mode)

    def add_scatter(self, data, indices, updates, mode):
        return self._new(L.IScatterLayer, [data, indices, updates], mode=mode)

    def add_one_hot(self, indices, values, depth, axis):
        return self._new(L.IOneHotLayer, [indices, values, depth], axis=int(axis))

    def add_non_zero(self, input, indices_type=DataType.INT32):
        return self._new(L.INonZeroLayer, [input], indices_type=indices_type)

    def add_reverse_sequence(self, input, sequence_lens):
        return self._new(L.IReverseSequenceLayer, [input, sequence_lens])

    def add_resize(self, input):
        return self._new(L.IResizeLayer, [input])

    def add_grid_sample(self, input, grid):
        return self._new(L.IGridSampleLayer, [input, grid])

    def add_nms(self, boxes, scores, max_output_boxes_per_class, indices_type=DataType.INT32):
        return self._new(L.INMSLayer, [boxes, scores, max_output_boxes_per_class], indices_type=indices_type)

    def add_fill(self, shape, op, output_type=DataType.FLOAT):
        return self._new(L.IFillLayer, [], shape=Dims(tuple(shape)), operation=op, to_type=output_type)

    def add_quantize(self, input, scale, output_type=DataType.INT8):
        return self._new(L.IQuantizeLayer, [input, scale], to_type=output_type)

    def add_dequantize(self, input, scale, output_type=DataType.FLOAT):
        return self._new(L.IDequantizeLayer, [input, scale], to_type=output_type)

    def add_assertion(self, condition, message):
        return self._new(L.IAssertionLayer, [condition], message=message)

    def add_rnn_v2(self, input, layer_count, hidden_size, max_seq_length, op):
        return self._new(
            L.IRNNv2Layer,
            [input],
            layer_count=int(layer_count),
            hidden_size=int(hidden_size),
            max_seq_length=int(max_seq_length),
            op=op,
        )

    def add_moe(self, hidden_states, selected_experts_for_tokens, scores_for_selected_experts):
        return self._new(
            L.IMoELayer, [hidden_states, selected_experts_for_tokens, scores_for_selected_experts], needed=3
        )

    # ---- plugins ----

    def _add_plugin(self, kind, inputs, shape_inputs, plugin):
        tensors = [_tensor(t, f"input {i} of {kind.__name__}") for i, t in enumerate([*inputs, *shape_inputs])]
        if plugin is None:
            return self._fail(f"{kind.__name__}: the plugin is None")
        layer = kind(self, tensors, plugin=plugin, input_count=len(list(inputs)))
        layer._output_count = output_count(plugin)
        return self._add_layer(layer)

    def add_plugin_v2(self, inputs, plugin):
        return self._add_plugin(L.IPluginV2Layer, inputs, (), plugin)

    def add_plugin_v3(self, inputs, shape_inputs, plugin):
        return self._add_plugin(L.IPluginV3Layer, inputs, shape_inputs or (), plugin)

    def add_plugin(self, tuple, aot=None):  # noqa: A002
        """What carnot.plugin.op.NAMESPACE.NAME(...) gave."""
        return self.add_plugin_v3(*tuple.given(aot))

    # ---- layers that are not there yet ----

    def _later(self, what: str) -> None:
        return self._fail(f"{what} is not available in this version")

    def add_dynamic_quantize(self, input, axis, block_size, output_type, scale_type):
        return self._later("add_dynamic_quantize")

    def add_dynamic_quantize_v2(self, input, block_shape, output_type, scale_type):
        return self._later("add_dynamic_quantize_v2")

    def add_dist_collective(self, input, dist_collective_op, reduce_op, root, groups):
        return self._later("add_dist_collective")
