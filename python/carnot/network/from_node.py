"""Layers from imported nodes: the layer class and its properties by operator."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from .._carnot import ffi, lib
from ..core import check, text
from ..enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    GatherMode,
    LayerType,
    MatrixOperation,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    TopKOperation,
    UnaryOperation,
)
from ..types import Dims, Permutation, Weights, from_c_dtype, nptype
from . import layers as L


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
    """The data of a constant as Weights; None if |value| is not constant."""
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


def _read_window(node: Any, rank: int) -> Dict[str, Any]:
    mode = {"SAME_UPPER": PaddingMode.SAME_UPPER, "SAME_LOWER": PaddingMode.SAME_LOWER}.get(
        _get(node, "text", "auto_pad"), PaddingMode.EXPLICIT_ROUND_DOWN
    )
    pads = _get_ints(node, "pads") or [0] * (2 * rank)
    return {
        "stride_nd": Dims(_get_ints(node, "strides") or [1] * rank),
        "dilation_nd": Dims(_get_ints(node, "dilations") or [1] * rank),
        "pre_padding": Dims(pads[:rank]),
        "post_padding": Dims(pads[rank:]),
        "padding_mode": mode,
    }


def _read_conv(network: Any, layer: Any, node: Any) -> bool:
    inputs = [lib.carnot_layer_input(node, i) for i in range(lib.carnot_layer_input_count(node))]
    dims = lib.carnot_value_dims(inputs[1])
    if dims.rank < 3 or min(dims.d[0 : dims.rank]) < 0:
        return False
    kernel, bias = _weights_of(network, inputs[1]), _weights_of(network, inputs[2] if len(inputs) > 2 else None)
    if kernel is None or (len(inputs) > 2 and inputs[2] and bias is None):
        kernel = bias = None
    else:
        layer._inputs = layer._inputs[:1]
    groups = _get(node, "int", "group")
    maps = dims.d[1] * groups if lib.carnot_layer_operator(node)[0:14] == b"conv_transpose" else dims.d[0]
    layer._p.update(
        _read_window(node, dims.rank - 2),
        num_output_maps=maps,
        num_groups=groups,
        kernel=kernel,
        bias=bias,
        kernel_size_nd=Dims([dims.d[i] for i in range(2, dims.rank)]),
    )
    return True


def _read_pool(network: Any, layer: Any, node: Any) -> bool:
    kernel = _get_ints(node, "kernel_shape")
    layer._p.update(_read_window(node, len(kernel)), window_size_nd=Dims(kernel))
    if _get(node, "int", "ceil_mode"):
        layer._p["padding_mode"] = PaddingMode.EXPLICIT_ROUND_UP
    if text(lib.carnot_layer_operator(node)) == "average_pool":
        layer._p.update(
            type=PoolingType.AVERAGE, average_count_excludes_padding=not _get(node, "int", "count_include_pad")
        )
    return lib.carnot_layer_output_count(node) == 1


_ACTIVATIONS = {("clamp" if a.name == "CLIP" else a.name.lower()): a for a in ActivationType}
_UNARIES = {{"ISINF": "is_inf", "ISNAN": "is_nan"}.get(u.name, u.name.lower()): u for u in UnaryOperation}
_BINARIES = {{"SUM": "add", "PROD": "mul"}.get(o.name, o.name.lower()): o for o in ElementWiseOperation}
_REDUCTIONS = {
    "sum": ReduceOperation.SUM,
    "prod": ReduceOperation.PROD,
    "max": ReduceOperation.MAX,
    "min": ReduceOperation.MIN,
    "mean": ReduceOperation.AVG,
}


def _read_unary(network: Any, layer: Any, node: Any) -> bool:
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


def _read_binary(network: Any, layer: Any, node: Any) -> bool:
    fn = text(lib.carnot_layer_function(node))
    if fn == "prelu":
        layer.__class__, layer._type = L.IParametricReLULayer, LayerType.PARAMETRIC_RELU
        return True
    layer._p["op"] = _BINARIES.get(fn)
    return fn in _BINARIES


def _read_reduce(network: Any, layer: Any, node: Any) -> bool:
    rank = len(Dims._of_c(lib.carnot_value_dims(lib.carnot_layer_input(node, 0)))._d or [])
    axes = _constant_ints(lib.carnot_layer_input(node, 1))
    fn = _get(node, "text", "fn")
    layer._p.update(
        op=_REDUCTIONS.get(fn),
        keep_dims=bool(_get(node, "int", "keepdims")),
        axes=(1 << rank) - 1 if axes is None else _mask(axes, rank),
    )
    if axes is None or fn not in _REDUCTIONS:
        return False
    layer._inputs = layer._inputs[:1]
    return True


def _read_softmax(network: Any, layer: Any, node: Any) -> bool:
    rank = lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank
    layer._p["axes"] = _mask([_get(node, "int", "axis")], rank)
    return rank > 0


def _read_matmul(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(
        op0=MatrixOperation(int(_get(node, "int", "transA"))), op1=MatrixOperation(int(_get(node, "int", "transB")))
    )
    return all(lib.carnot_value_dims(lib.carnot_layer_input(node, i)).rank >= 2 for i in (0, 1))


def _read_gemm(network: Any, layer: Any, node: Any) -> bool:
    _read_matmul(network, layer, node)
    return False


def _read_shuffle(network: Any, layer: Any, node: Any) -> bool:
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


def _read_axis(network: Any, layer: Any, node: Any) -> bool:
    rank = lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank
    axis = _get(node, "int", "axis")
    layer._p["axis"] = axis % rank if rank > 0 else axis
    return rank > 0


def _read_gather_nd(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(mode=GatherMode.ND, num_elementwise_dims=_get(node, "int", "batch_dims"))
    return True


def _read_gather_elements(network: Any, layer: Any, node: Any) -> bool:
    layer._p["mode"] = GatherMode.ELEMENT
    return _read_axis(network, layer, node)


def _read_norm(network: Any, layer: Any, node: Any) -> bool:
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


def _read_cast(network: Any, layer: Any, node: Any) -> bool:
    layer._p["to_type"] = from_c_dtype(_get(node, "int", "to"))
    return layer._p["to_type"] is not None


def _read_lrn(network: Any, layer: Any, node: Any) -> bool:
    layer._p.update(
        window_size=_get(node, "int", "size"),
        alpha=_get(node, "float", "alpha"),
        beta=_get(node, "float", "beta"),
        k=_get(node, "float", "bias"),
    )
    return True


def _read_topk(network: Any, layer: Any, node: Any) -> bool:
    rank = max(1, lib.carnot_value_dims(lib.carnot_layer_input(node, 0)).rank)
    k = _constant_ints(lib.carnot_layer_input(node, 1))
    layer._p.update(
        op=TopKOperation(0 if _get(node, "int", "largest") else 1),
        k=k[0] if k else 0,
        axes=_mask([_get(node, "int", "axis")], rank),
        indices_type=DataType.INT64,
    )
    if k:
        layer._inputs = layer._inputs[:1]
    return bool(k)


def _read_plain(network: Any, layer: Any, node: Any) -> bool:
    return True


_READERS = {
    "conv": _read_conv,
    "conv_transpose": _read_conv,
    "max_pool": _read_pool,
    "average_pool": _read_pool,
    "unary": _read_unary,
    "binary": _read_binary,
    "reduce": _read_reduce,
    "softmax": _read_softmax,
    "matmul": _read_matmul,
    "gemm": _read_gemm,
    "transpose": _read_shuffle,
    "reshape": _read_shuffle,
    "concat": _read_axis,
    "gather": _read_axis,
    "gather_nd": _read_gather_nd,
    "gather_elements": _read_gather_elements,
    "layer_norm": _read_norm,
    "rms_norm": _read_norm,
    "instance_norm": _read_norm,
    "group_norm": _read_norm,
    "cast": _read_cast,
    "lrn": _read_lrn,
    "top_k": _read_topk,
    "identity": _read_plain,
    "shape": _read_plain,
    "ternary": _read_plain,
}
_CLASSES = {
    kind._layer_type.name: kind for kind in (getattr(L, name) for name in L.__all__) if kind._layer_type is not None
}
_CLASSES["ATTENTION"] = L.IAttention


def layer_from_node(network: Any, node: Any) -> Any:
    """The layer of an imported node, with its properties where the operator maps to a layer class."""
    kind = text(lib.carnot_layer_type(node)).replace("KVCACHE", "KV_CACHE")
    layer_type = LayerType._member_map_.get(kind, LayerType.REFERENCE)
    layer = _CLASSES.get(kind, L.ILayer)(
        network, [network._wrap(lib.carnot_layer_input(node, i)) for i in range(lib.carnot_layer_input_count(node))]
    )
    layer._type = layer_type
    layer._name = text(lib.carnot_layer_name(node))
    layer._nodes = [node]
    layer._dirty = False
    layer._outputs = [
        network._wrap(lib.carnot_layer_output(node, i)) for i in range(lib.carnot_layer_output_count(node))
    ]
    for tensor in layer._outputs:
        if tensor is not None:
            tensor._producer = layer
    layer._outputs = [t for t in layer._outputs if t is not None]
    reader = _READERS.get(text(lib.carnot_layer_operator(node)))
    layer._imported = not (reader and reader(network, layer, node))
    return layer
