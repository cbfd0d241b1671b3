"""Between layers and the C graph: the add_* methods, making nodes of layers, and layers of imported nodes."""
from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from . import layers as L
from ._carnot import ffi, lib
from .core import CarnotError, check, text, utf8
from .enums import (ActivationType, CausalMaskKind, DataType, ElementWiseOperation, GatherMode, LayerType,
                    MatrixOperation, PaddingMode, PoolingType, ReduceOperation, TopKOperation,
                    UnaryOperation)
from .types import Dims, Permutation, Weights, from_c_dtype, nptype, to_c_dtype

# ---- from layers to nodes ----


def mark_readers(network: Any, tensor: Any) -> None:
    """Layers below |tensor| that were not imported are made again."""
    seen, waiting = set(), [tensor]
    while waiting:
        one = waiting.pop()
        for layer in network._layers:
            if one not in layer._inputs or layer in seen:
                continue
            seen.add(layer)
            if not layer._imported:
                layer._dirty = True
            waiting += [t for t in layer._outputs if t is not None]


def mark_weights(network: Any, weights: Weights) -> None:
    at = weights._array.__array_interface__["data"][0]
    for layer in network._layers:
        for value in layer._p.values():
            if isinstance(value, Weights) and value._array is not None \
                    and value._array.__array_interface__["data"][0] == at:
                layer._dirty = True


def make_dirty(network: Any, strict: bool) -> None:
    """Makes the nodes of layers that are new or changed, each after those it reads."""
    units = {layer: unit for unit in reversed(network._loops) for layer in (*unit._own, *unit._members())} \
        if network._loops else {}
    if not any(layer._dirty for layer in network._layers):
        return
    busy: List[Any] = []

    def make(layer: Any) -> None:
        unit = units.get(layer)
        group = [*unit._own, *unit._members()] if unit else [layer]
        if not any(one._dirty for one in group) or (unit and not strict and not unit._is_complete()):
            return
        if layer in busy:
            raise CarnotError(lib.CARNOT_INVALID_MODEL, f"layer {layer._name} depends on its own output")
        if unit is None and any(t is not None and t._producer is layer for t in layer._inputs):
            raise CarnotError(lib.CARNOT_INVALID_MODEL, f"layer {layer._name} depends on its own output")
        busy.extend(group)
        for one in group:
            for tensor in one._inputs:
                if tensor is not None and tensor._producer is not None and tensor._producer not in group:
                    make(tensor._producer)
        _make_nodes(network, layer, unit, group)
        del busy[-len(group):]

    for layer in list(network._layers):
        try:
            make(layer)
        except CarnotError as error:
            busy.clear()
            if strict:
                raise CarnotError(error.code, f"layer {layer._name}: {error}") from None
            lib.carnot_status_free(lib.carnot_network_insert_before(network._c, ffi.NULL))


def _nodes_between(network: Any, before: Any, position: Any) -> List[Any]:
    node = lib.carnot_layer_next(before) if before else lib.carnot_network_first_layer(network._c)
    found = []
    while node and node != position:
        found.append(node)
        node = lib.carnot_layer_next(node)
    return found


def _make_nodes(network: Any, layer: Any, unit: Any, group: List[Any]) -> None:
    owner = unit or layer
    position = owner._nodes[0] if owner._nodes else ffi.NULL
    check(lib.carnot_network_insert_before(network._c, position))
    before = lib.carnot_layer_previous(position) if position else lib.carnot_network_last_layer(network._c)
    emitter = L.Emitter(network)
    try:
        if unit:
            network._inner_values = {}
            values = unit._emit(emitter)
            made = [(t, values.get(id(t), network._inner_values.get(id(t)))) for one in group for t in one._outputs]
        else:
            made = list(zip(layer._outputs, layer._emit(emitter)))
    except Exception:
        for node in reversed(_nodes_between(network, before, position)):
            check(lib.carnot_layer_remove(network._c, node))
        raise
    finally:
        lib.carnot_status_free(lib.carnot_network_insert_before(network._c, ffi.NULL))
    nodes = _nodes_between(network, before, position)
    inner = {id(t) for t, _ in made} - {id(t) for one in (unit._own if unit else group) for t in one._outputs}
    for tensor, value in made:
        old, tensor._value = tensor._value, value
        if value is None or id(tensor) in inner or (unit and tensor._producer._type not in _UNIT_OUTPUTS):
            continue
        if old is not None:
            check(lib.carnot_network_replace_value(network._c, old, value))
        check(lib.carnot_value_set_name(value, utf8(tensor._name)))
    for node in reversed(owner._nodes):
        check(lib.carnot_layer_remove(network._c, node))
    if owner._nodes:
        network._stale = True
    is_new = not owner._nodes
    owner._nodes = nodes
    layer._imported = False
    for one in group:
        one._dirty = False
        if not is_new:
            for tensor in one._outputs:
                mark_readers(network, tensor)
    name_nodes(layer, nodes)
    set_precision(layer)
    if any(t in network._outputs or t in network._debug for t, _ in made):
        network._outputs_changed = True


_UNIT_OUTPUTS = (LayerType.LOOP_OUTPUT, LayerType.CONDITIONAL_OUTPUT)


def name_nodes(layer: Any, nodes: List[Any]) -> None:
    """The last node bears the layer's name, those before it a number too."""
    for i, node in enumerate(nodes):
        name = layer._name if i == len(nodes) - 1 else f"{layer._name} [{i}]"
        check(lib.carnot_layer_set_name(node, utf8(name or "layer")))


def set_precision(layer: Any) -> None:
    c_type = lib.CARNOT_DTYPE_INVALID if layer._precision is None else to_c_dtype(layer._precision)
    for node in layer._nodes:
        check(lib.carnot_layer_set_precision(node, c_type))
    for i, tensor in enumerate(layer._outputs):
        producer = lib.carnot_value_layer(tensor._value) if tensor is not None and tensor._value is not None else None
        if not producer:
            continue
        dtype = layer._output_types.get(i)
        for k in range(lib.carnot_layer_output_count(producer)):
            if lib.carnot_layer_output(producer, k) == tensor._value:
                check(lib.carnot_layer_set_output_type(
                    producer, k, lib.CARNOT_DTYPE_INVALID if dtype is None else to_c_dtype(dtype)))


# ---- adding layers ----


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
            check(lib.carnot_layer_set_input(self._c, layer._nodes[0], index,
                                             ffi.NULL if tensor is None else L.Emitter(self).value(tensor)))
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
        layer._outputs = [ITensor(self, f"{layer._name}_output" + (f"_{i}" if i else ""), layer)
                          for i in range(layer._output_count)]
        self._layers.append(layer)
        return layer

    def _new(self, kind: Any, inputs: Any, needed: Any = None, **properties: Any) -> Any:
        tensors = [_tensor(t, f"input {i} of {kind.__name__}") for i, t in enumerate(inputs)]
        for i, tensor in enumerate(tensors[:kind._min_inputs if needed is None else needed]):
            if tensor is None:
                return self._fail(f"{kind.__name__}: input {i} is None")
        return self._add_layer(kind(self, tensors, **properties))

    @staticmethod
    def _window(kind: Any, rank: int) -> Dict[str, Any]:
        return {**kind._defaults, **L.window_defaults(rank)}

    def _add_conv(self, kind: Any, input: Any, maps: int, kernel_shape: Any, kernel: Any, bias: Any) -> Any:
        dims = Dims(tuple(kernel_shape))
        return self._new(kind, [input], **{
            **self._window(kind, len(dims)), "num_output_maps": int(maps), "kernel_size_nd": dims,
            "kernel": Weights.of(kernel), "bias": Weights.of(bias)})

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
        return self._new(L.IPoolingLayer, [input], **{**self._window(L.IPoolingLayer, len(dims)), "type": type,
                                                      "window_size_nd": dims})

    def add_pooling(self, input, type, window_size):
        return self.add_pooling_nd(input, type, window_size)

    def add_fully_connected(self, input, num_outputs, kernel, bias=None):
        return self._new(L.IFullyConnectedLayer, [input], num_output_channels=int(num_outputs),
                         kernel=Weights.of(kernel), bias=Weights.of(bias))

    def add_padding_nd(self, input, pre_padding, post_padding):
        return self._new(L.IPaddingLayer, [input], pre_padding_nd=Dims(tuple(pre_padding)),
                         post_padding_nd=Dims(tuple(post_padding)))

    def add_padding(self, input, pre_padding, post_padding):
        return self.add_padding_nd(input, pre_padding, post_padding)

    def add_lrn(self, input, window, alpha, beta, k):
        return self._new(L.ILRNLayer, [input], window_size=int(window), alpha=float(alpha), beta=float(beta), k=float(k))

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
        return self._new(L.IScaleLayer, [input], mode=mode, shift=Weights.of(shift), scale=Weights.of(scale),
                         power=Weights.of(power), channel_axis=int(channel_axis))

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
        return self._new(L.IRotaryEmbeddingLayer, [input, cos_cache, sin_cache], interleaved=bool(interleaved),
                         rotary_embedding_dim=int(rotary_embedding_dim))

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
        return self._new(L.ISliceLayer, [input], start=Dims(tuple(start)), shape=Dims(tuple(shape)),
                         stride=Dims(tuple(stride)))

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
        return self._new(L.IRNNv2Layer, [input], layer_count=int(layer_count), hidden_size=int(hidden_size),
                         max_seq_length=int(max_seq_length), op=op)

    # ---- layers that are not there yet ----

    def _later(self, what: str) -> None:
        return self._fail(f"{what} is not available in this version")

    def add_plugin_v2(self, inputs, plugin):
        return self._later("add_plugin_v2")

    def add_plugin_v3(self, inputs, shape_inputs, plugin):
        return self._later("add_plugin_v3")

    def add_plugin(self, tuple):  # noqa: A002
        return self._later("add_plugin")

    def add_dynamic_quantize(self, input, axis, block_size, output_type, scale_type):
        return self._later("add_dynamic_quantize")

    def add_dynamic_quantize_v2(self, input, block_shape, output_type, scale_type):
        return self._later("add_dynamic_quantize_v2")

    def add_moe(self, hidden_states, selected_experts_for_tokens, scores_for_selected_experts):
        return self._later("add_moe")

    def add_dist_collective(self, input, dist_collective_op, reduce_op, root, groups):
        return self._later("add_dist_collective")


# ---- layers of imported nodes ----


def _get(node: Any, kind: str, name: str) -> Any:
    ctype = {"int": "int64_t*", "float": "double*", "text": "const char**"}[kind]
    out = ffi.new(ctype)
    check(getattr(lib, f"carnot_layer_get_{kind}")(node, name.encode(), out))
    return text(out[0]) if kind == "text" else out[0]


def _get_ints(node: Any, name: str) -> List[int]:
    values, count = ffi.new("const int64_t**"), ffi.new("size_t*")
    check(lib.carnot_layer_get_ints(node, name.encode(), values, count))
    return [values[0][i] for i in range(count[0])]


def _weights_of(network: Any, value: Any) -> Any:
    """The data of a constant as Weights; None where |value| is none."""
    data = lib.carnot_value_constant(value, ffi.NULL) if value else ffi.NULL
    dtype = from_c_dtype(lib.carnot_value_dtype(value)) if data else None
    if dtype is None:
        return None
    dims = lib.carnot_value_dims(value)
    size = int(np.prod([dims.d[i] for i in range(dims.rank)], dtype=np.int64))
    try:
        numpy_type = np.dtype(nptype(dtype))
    except TypeError:
        return Weights(dtype)
    array = np.frombuffer(ffi.buffer(data, max(size * numpy_type.itemsize, 1)), numpy_type, size)
    weights = Weights(array)
    network._keep.append(network._c)
    name = ffi.new("const char**")
    lib.carnot_value_constant(value, name)
    if name[0] and size:
        network._weight_names[array.__array_interface__["data"][0]] = text(name[0])
    return weights


def _constant_ints(value: Any) -> Any:
    data = lib.carnot_value_constant(value, ffi.NULL) if value else ffi.NULL
    if not data or lib.carnot_value_dtype(value) != lib.CARNOT_DTYPE_I64:
        return None
    dims = lib.carnot_value_dims(value)
    count = int(np.prod([dims.d[i] for i in range(dims.rank)], dtype=np.int64))
    return [ffi.cast("int64_t*", data)[i] for i in range(count)]


def _mask(axes: Any, rank: int) -> int:
    return sum(1 << (a % max(rank, 1)) for a in axes)


def _lift_window(node: Any, rank: int) -> Dict[str, Any]:
    mode = {"SAME_UPPER": PaddingMode.SAME_UPPER, "SAME_LOWER": PaddingMode.SAME_LOWER}.get(
        _get(node, "text", "auto_pad"), PaddingMode.EXPLICIT_ROUND_DOWN)
    pads = _get_ints(node, "pads") or [0] * (2 * rank)
    return {"stride_nd": Dims(_get_ints(node, "strides") or [1] * rank),
            "dilation_nd": Dims(_get_ints(node, "dilations") or [1] * rank),
            "pre_padding": Dims(pads[:rank]), "post_padding": Dims(pads[rank:]), "padding_mode": mode}


def _lift_conv(network: Any, layer: Any, node: Any) -> bool:
    inputs = [lib.carnot_layer_input(node, i) for i in range(lib.carnot_layer_input_count(node))]
    dims = lib.carnot_value_dims(inputs[1])
    if dims.rank < 3 or min(dims.d[0:dims.rank]) < 0:
        return False
    kernel, bias = _weights_of(network, inputs[1]), _weights_of(network, inputs[2] if len(inputs) > 2 else None)
    if kernel is None or (len(inputs) > 2 and inputs[2] and bias is None):
        kernel = bias = None
    else:
        layer._inputs = layer._inputs[:1]
    groups = _get(node, "int", "group")
    maps = dims.d[1] * groups if lib.carnot_layer_operator(node)[0:14] == b"conv_transpose" else dims.d[0]
    layer._p.update(_lift_window(node, dims.rank - 2), num_output_maps=maps, num_groups=groups, kernel=kernel,
                    bias=bias, kernel_size_nd=Dims([dims.d[i] for i in range(2, dims.rank)]))
    return True


def _lift_pool(network: Any, layer: Any, node: Any) -> bool:
    kernel = _get_ints(node, "kernel_shape")
    layer._p.update(_lift_window(node, len(kernel)), window_size_nd=Dims(kernel))
    if _get(node, "int", "ceil_mode"):
        layer._p["padding_mode"] = PaddingMode.EXPLICIT_ROUND_UP
    if text(lib.carnot_layer_operator(node)) == "average_pool":
        layer._p.update(type=PoolingType.AVERAGE,
                        average_count_excludes_padding=not _get(node, "int", "count_include_pad"))
    return lib.carnot_layer_output_count(node) == 1


_ACTIVATIONS = {("clamp" if a.name == "CLIP" else a.name.lower()): a for a in ActivationType}
_UNARIES = {{"ISINF": "is_inf", "ISNAN": "is_nan"}.get(u.name, u.name.lower()): u for u in UnaryOperation}
_BINARIES = {{"SUM": "add", "PROD": "mul"}.get(o.name, o.name.lower()): o for o in ElementWiseOperation}
_REDUCTIONS = {"sum": ReduceOperation.SUM, "prod": ReduceOperation.PROD, "max": ReduceOperation.MAX,
               "min": ReduceOperation.MIN, "mean": ReduceOperation.AVG}


def _lift_unary(network: Any, layer: Any, node: Any) -> bool:
    fn = text(lib.carnot_layer_function(node))
    if fn in _ACTIVATIONS:
        layer.__class__, layer._type = L.IActivationLayer, LayerType.ACTIVATION
        layer._p.update(type=_ACTIVATIONS[fn], alpha=_get(node, "float", "alpha"), beta=_get(node, "float", "beta"))
    elif fn in _UNARIES:
        layer.__class__, layer._type = L.IUnaryLayer, LayerType.UNARY
        layer._p.update(op=_UNARIES[fn])
    elif fn == "identity":
        layer.__class__, layer._type = L.IIdentityLayer, LayerType.IDENTITY
    else:
        layer.__class__, layer._type = L.ILayer, LayerType.ACTIVATION
        return False
    return True


def _lift_binary(network: Any, layer: Any, node: Any) -> bool:
    fn = text(lib.carnot_layer_function(node))
    if fn == "prelu":
        layer.__class__, layer._type = L.IParametricReLULayer, LayerType.PARAMETRIC_RELU
        return True
    layer._p["op"] = _BINARIES.get(fn)
    return fn in _BINARIES


def _lift_reduce(network: Any, layer: Any, node: Any) -> bool:
    rank = len(Dims._of_c(lib.carnot_value_dims(lib.carnot_layer_input(node, 0)))._d or [])
    axes = _constant_ints(lib.carnot_layer_input(node, 1))
    fn = _get(node, "text", "fn")
    layer._p.update(op=_REDUCTIONS.get(fn), keep_dims=bool(_get(node, "int", "keepdims")),
                    axes=(1 << rank) - 1 if axes is None else _mask(axes, rank))
    if axes is None or fn not in _REDUCTIONS:
        return False
    layer._inputs = layer._inputs[:1]
    return True


def _lift_softmax(network: Any, layer: Any, node: Any) -> bool:
    rank = lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank
    layer._p["axes"] = _mask([_get(node, "int", "axis")], rank)
    return rank > 0


def _lift_matmul(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(op0=MatrixOperation(int(_get(node, "int", "transA"))),
                    op1=MatrixOperation(int(_get(node, "int", "transB"))))
    return all(lib.carnot_value_dims(lib.carnot_layer_input(node, i)).rank >= 2 for i in (0, 1))


def _lift_gemm(network: Any, layer: Any, node: Any) -> bool:
    _lift_matmul(network, layer, node)
    return False


def _lift_shuffle(network: Any, layer: Any, node: Any) -> bool:
    operator = text(lib.carnot_layer_operator(node))
    if operator == "transpose":
        order = _get_ints(node, "perm")
        layer._p["first_transpose"] = Permutation(order) if order else None
        return bool(order)
    dims = _constant_ints(lib.carnot_layer_input(node, 1))
    if operator != "reshape":
        return False
    layer._p["zero_is_placeholder"] = not _get(node, "int", "allowzero")
    if dims is not None:
        layer._p["reshape_dims"] = Dims(dims)
        layer._inputs = layer._inputs[:1]
    return True


def _lift_axis(network: Any, layer: Any, node: Any) -> bool:
    rank = lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank
    axis = _get(node, "int", "axis")
    layer._p["axis"] = axis % rank if rank > 0 else axis
    return rank > 0


def _lift_gather_nd(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(mode=GatherMode.ND, num_elementwise_dims=_get(node, "int", "batch_dims"))
    return True


def _lift_gather_elements(network: Any, layer: Any, node: Any) -> bool:
    layer._p["mode"] = GatherMode.ELEMENT
    return _lift_axis(network, layer, node)


def _lift_norm(network: Any, layer: Any, node: Any) -> bool:
    operator = text(lib.carnot_layer_operator(node))
    rank = max(0, lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank)
    layer._p["epsilon"] = _get(node, "float", "epsilon")
    first = 2
    if operator in ("layer_norm", "rms_norm"):
        axis = _get(node, "int", "axis")
        first = axis + rank if axis < 0 else axis
    if operator == "group_norm":
        layer._p["num_groups"] = _get(node, "int", "num_groups")
    layer._p["axes"] = _mask(range(first, rank), rank)
    return False


def _lift_cast(network: Any, layer: Any, node: Any) -> bool:
    layer._p["to_type"] = from_c_dtype(_get(node, "int", "to"))
    return layer._p["to_type"] is not None


def _lift_lrn(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(window_size=_get(node, "int", "size"), alpha=_get(node, "float", "alpha"),
                    beta=_get(node, "float", "beta"), k=_get(node, "float", "bias"))
    return True


def _lift_topk(network: Any, layer: Any, node: Any) -> bool:
    rank = max(1, lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank)
    k = _constant_ints(lib.carnot_layer_input(node, 1))
    layer._p.update(op=TopKOperation(0 if _get(node, "int", "largest") else 1), k=k[0] if k else 0,
                    axes=_mask([_get(node, "int", "axis")], rank), indices_type=DataType.INT64)
    if k:
        layer._inputs = layer._inputs[:1]
    return bool(k)


def _lift_plain(network: Any, layer: Any, node: Any) -> bool:
    return True


_LIFTERS = {
    "conv": _lift_conv, "conv_transpose": _lift_conv, "max_pool": _lift_pool, "average_pool": _lift_pool,
    "unary": _lift_unary, "binary": _lift_binary, "reduce": _lift_reduce, "softmax": _lift_softmax,
    "matmul": _lift_matmul, "gemm": _lift_gemm, "transpose": _lift_shuffle, "reshape": _lift_shuffle,
    "concat": _lift_axis, "gather": _lift_axis, "gather_nd": _lift_gather_nd,
    "gather_elements": _lift_gather_elements, "layer_norm": _lift_norm, "rms_norm": _lift_norm,
    "instance_norm": _lift_norm, "group_norm": _lift_norm, "cast": _lift_cast, "lrn": _lift_lrn,
    "top_k": _lift_topk, "identity": _lift_plain, "shape": _lift_plain, "ternary": _lift_plain,
}
_CLASSES = {kind._layer_type.name: kind for kind in vars(L).values()
            if isinstance(kind, type) and issubclass(kind, L.ILayer) and kind._layer_type is not None}
_CLASSES["ATTENTION"] = L.IAttention


def lift(network: Any, node: Any) -> Any:
    """The layer that shows an imported node, with its properties where they can be told."""
    kind = text(lib.carnot_layer_type(node)).replace("KVCACHE", "KV_CACHE")
    layer_type = LayerType.__members__.get(kind, LayerType.REFERENCE)
    layer = _CLASSES.get(kind, L.ILayer)(network, [
        network._wrap(lib.carnot_layer_input(node, i)) for i in range(lib.carnot_layer_input_count(node))])
    layer._type = layer_type
    layer._name = text(lib.carnot_layer_name(node))
    layer._nodes = [node]
    layer._dirty = False
    layer._outputs = [network._wrap(lib.carnot_layer_output(node, i))
                      for i in range(lib.carnot_layer_output_count(node))]
    for tensor in layer._outputs:
        if tensor is not None:
            tensor._producer = layer
    layer._outputs = [t for t in layer._outputs if t is not None]
    lifter = _LIFTERS.get(text(lib.carnot_layer_operator(node)))
    layer._imported = not (lifter and lifter(network, layer, node))
    return layer
