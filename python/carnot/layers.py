"""The layer classes: what a user may read and set of each, and how it becomes nodes of the C graph."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from ._carnot import ffi, lib
from .core import CarnotError, address, text, utf8
from .enums import (ActivationType, AttentionNormalizationOp, BoundingBoxFormat, CausalMaskKind, CumulativeOperation,
                    DataType, ElementWiseOperation, FillOperation, GatherMode, InterpolationMode, KVCacheMode,
                    LayerType, MatrixOperation, PaddingMode, PoolingType, ReduceOperation,
                    ResizeCoordinateTransformation, ResizeRoundMode, ResizeSelector, RNNDirection, RNNGateType,
                    RNNInputMode, RNNOperation, SampleMode, ScaleMode, ScatterMode, TopKOperation, UnaryOperation)
from .types import Dims, DimsHW, Permutation, Weights, from_c_dtype, to_c_dtype


def _error(message: str, code: Any = lib.CARNOT_INVALID_ARGUMENT) -> CarnotError:
    return CarnotError(code, message)


def axes_of(mask: int) -> List[int]:
    return [d for d in range(Dims.MAX_DIMS) if mask >> d & 1]


class ILayer:
    """A layer of a network. Properties may be changed until the network is built, and after."""

    _layer_type: Optional[LayerType] = None
    _defaults: Dict[str, Any] = {}
    _output_count = 1
    _min_inputs = 1  # that set_input cannot take away

    def __init__(self, network: Any, inputs: Any = (), **properties: Any) -> None:
        self._network = network
        self._type = self._layer_type
        self._inputs: List[Any] = list(inputs)
        self._outputs: List[Any] = []
        self._p: Dict[str, Any] = {**self._defaults, **properties}
        self._nodes: List[Any] = []  # of the C graph, in order
        self._dirty = True
        self._imported = False  # its properties are those of its node, unless they were lifted
        self._name = ""
        self._precision: Optional[DataType] = None
        self._output_types: Dict[int, DataType] = {}
        self._metadata = ""
        self.num_ranks = 1

    def __dir__(self) -> List[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.startswith("__")]

    def __repr__(self) -> str:
        return f"<carnot.{type(self).__name__} {self._name!r}>"

    def _changed(self) -> None:
        self._network._layer_changed(self)

    def _set(self, name: str, value: Any) -> None:
        if self._imported:
            self._network._fail(f"layer {self._name} ({text(lib.carnot_layer_operator(self._nodes[0]))}) was read "
                                f"from a model; its property {name} cannot be changed")
            return
        self._p[name] = value
        self._changed()

    # ---- what all layers have ----

    type = property(lambda self: self._type)

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        utf8(name)
        self._name = name
        self._network._layer_renamed(self)

    @property
    def metadata(self) -> str:
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: str) -> None:
        utf8(metadata)
        self._metadata = metadata

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))

    def get_input(self, index: int) -> Any:
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> Any:
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index: int, tensor: Any) -> None:
        if tensor is not None and not hasattr(tensor, "is_network_input"):
            raise TypeError(f"set_input takes an ITensor, not {tensor.__class__.__name__}")
        if tensor is None and index < self._min_inputs:
            return self._network._fail(f"layer {self._name}: input {index} cannot be taken away")
        if tensor is not None and tensor._network is not self._network:
            return self._network._fail(f"layer {self._name}: tensor {tensor._name} belongs to another network")
        return self._rewire(index, tensor)

    def _rewire(self, index: int, tensor: Any) -> None:
        if self._imported:
            self._network._rewire_imported(self, index, tensor)
            return
        self._inputs += [None] * (index + 1 - len(self._inputs))
        self._inputs[index] = tensor
        self._changed()

    # ---- precision, for weakly typed networks ----

    @property
    def precision(self) -> DataType:
        return DataType.FLOAT if self._precision is None else self._precision

    @precision.setter
    def precision(self, dtype: DataType) -> None:
        to_c_dtype(dtype)
        self._precision = dtype
        self._network._precision_changed(self)

    precision_is_set = property(lambda self: self._precision is not None)

    def reset_precision(self) -> None:
        self._precision = None
        self._network._precision_changed(self)

    def _check_output(self, index: int) -> None:
        if not 0 <= index < len(self._outputs):
            raise IndexError(f"layer {self._name}: output {index} of {len(self._outputs)}")

    def get_output_type(self, index: int) -> Any:
        self._check_output(index)
        return self._output_types.get(index) or self._outputs[index].dtype

    def set_output_type(self, index: int, dtype: DataType) -> None:
        self._check_output(index)
        to_c_dtype(dtype)
        self._output_types[index] = dtype
        self._network._precision_changed(self)

    def output_type_is_set(self, index: int) -> bool:
        self._check_output(index)
        return index in self._output_types

    def reset_output_type(self, index: int) -> None:
        self._check_output(index)
        self._output_types.pop(index, None)
        self._network._precision_changed(self)

    def _emit(self, e: "Emitter") -> List[Any]:
        """The C values of the outputs."""
        raise _error(f"layer {self._name} of type {self._type} has no nodes")


class Emitter:
    """Adds nodes for one layer. |env| says what some tensors are for now, in place of their own values."""

    def __init__(self, network: Any, env: Optional[Dict[int, Any]] = None) -> None:
        self.network, self.c, self.env = network, network._c, env or {}

    def add(self, kind: str, *arguments: Any) -> Any:
        out = ffi.new("carnot_value**")
        self.call("add_" + kind, *arguments, out)
        return out[0]

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(lib, "carnot_network_" + name)(self.c, *arguments)
        if status:
            code, message = lib.carnot_status_code(status), text(lib.carnot_status_message(status))
            lib.carnot_status_free(status)
            raise CarnotError(code, message)

    def value(self, tensor: Any) -> Any:
        if tensor is None:
            return ffi.NULL
        inside = self.env.get(id(tensor))
        if inside is not None:
            return inside
        value = tensor._read if tensor._read is not None else tensor._value
        if value is None:
            raise _error(f"tensor {tensor._name} is not known yet")
        return value

    def constant(self, weights: Weights, dims: Any, name: str) -> Any:
        """A weight called |name| unless the user gave it another name."""
        array = weights._array
        c_dims = ffi.new("carnot_dims*")
        c_dims.rank = len(dims)
        c_dims.d[0:len(dims)] = list(dims)
        count = int(np.prod(dims, dtype=np.int64))
        if count != weights._size:
            raise _error(f"weights {name} have {weights._size} elements, {list(dims)} needs {count}")
        pointer = ffi.NULL
        if array is not None:
            self.network._keep.append(weights)
            at = array.__array_interface__["data"][0]
            name = self.network._weight_names.get(at, name)
            pointer = ffi.cast("void*", at)
        return self.add("constant", utf8(name), to_c_dtype(weights._dtype), c_dims, pointer)

    def array(self, array: Any) -> Any:
        """A constant without a name."""
        array = np.ascontiguousarray(array)
        self.network._keep.append(array)
        weights = Weights(array)
        dims = ffi.new("carnot_dims*")
        dims.rank = array.ndim
        dims.d[0:array.ndim] = list(array.shape)
        return self.add("constant", ffi.NULL, to_c_dtype(weights._dtype), dims, ffi.cast("void*", array.ctypes.data))

    def ints(self, values: Any) -> Any:
        values = [int(v) for v in values]
        return self.add("int64s", ffi.new("int64_t[]", values or [0]), len(values))

    def int(self, value: int) -> Any:
        return self.add("int64s", ffi.new("int64_t[]", [int(value)]), -1)

    def shape(self, value: Any) -> List[int]:
        dims = lib.carnot_value_dims(value)
        if dims.rank < 0:
            raise _error(f"the number of dimensions of {text(lib.carnot_value_name(value))} must be known")
        return [dims.d[i] for i in range(dims.rank)]

    def cast(self, value: Any, dtype: Any) -> Any:
        wanted = to_c_dtype(dtype) if isinstance(dtype, DataType) else dtype
        return value if lib.carnot_value_dtype(value) == wanted else self.add("cast", value, wanted)

    def like(self, value: Any, other: Any) -> Any:
        return self.cast(value, lib.carnot_value_dtype(other))

    def int64(self, value: Any) -> Any:
        return self.cast(value, lib.CARNOT_DTYPE_I64)

    def scalar(self, value: Any) -> Any:
        """Without dimensions; shape tensors of one element come as [1] too."""
        return self.reshape(value, []) if self.shape(value) else value

    def reshape(self, value: Any, dims: Any) -> Any:
        return self.add("shuffle", value, ffi.NULL, self.ints(dims), ffi.NULL)

    def transpose(self, value: Any, order: Any) -> Any:
        return self.add("shuffle", value, ffi.new("int64_t[]", [int(d) for d in order]), ffi.NULL, ffi.NULL)

    def elementwise(self, a: Any, b: Any, op: str) -> Any:
        return self.add("elementwise", a, b, getattr(lib, "CARNOT_ELEMENTWISE_" + op))

    def static_ints(self, tensor: Any, what: str) -> List[int]:
        """The elements of an integer tensor that must be constant."""
        value = self.value(tensor)
        data = lib.carnot_value_constant(value, ffi.NULL)
        dtype = from_c_dtype(lib.carnot_value_dtype(value))
        if not data or dtype not in (DataType.INT32, DataType.INT64):
            raise _error(f"{what} must be a constant of integers, not {tensor._name}")
        count = int(np.prod(self.shape(value), dtype=np.int64))
        return list(ffi.cast("int64_t*" if dtype == DataType.INT64 else "int32_t*", data)[0:count])


# ---- how properties are declared ----


def prop(name: str, convert: Any = None) -> Any:
    def get(self: Any) -> Any:
        return self._p.get(name)

    def put(self: Any, value: Any) -> None:
        self._set(name, convert(value) if convert else value)

    return property(get, put)


def enum_prop(name: str, kind: Any) -> Any:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        return value

    return prop(name, convert)


def dims_prop(name: str, made: Any = Dims) -> Any:
    return prop(name, lambda value: value if isinstance(value, Dims) and made is Dims else made(tuple(value)))


def hw_prop(name: str) -> Any:
    """The two-dimensional name of 8.6 for |name|."""

    def get(self: Any) -> Any:
        return DimsHW(tuple(self._p[name])[:2])

    return property(get, lambda self, value: setattr(self, name, tuple(value)))


def weights_prop(name: str) -> Any:
    def get(self: Any) -> Any:
        weights = self._p.get(name)
        return None if weights is None else weights.numpy()

    return property(get, lambda self, value: self._set(name, Weights.of(value)))


# ---- sliding windows ----


class _Window(ILayer):
    """Strides, paddings and dilations; those of 8.6 in two dimensions beside them."""

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
            raise _error(f"layer {self._name}: a window of {rank} dimensions, must be 1 to 3")
        window.rank = rank
        for name, values in (("kernel", kernel), ("stride", self._p["stride_nd"]),
                             ("dilation", self._p.get("dilation_nd") or [1] * rank),
                             ("pre_padding", self._p["pre_padding"]), ("post_padding", self._p["post_padding"])):
            if len(values) != rank:
                raise _error(f"layer {self._name}: {name} has {len(values)} dimensions, the window has {rank}")
            if name in ("kernel", "stride", "dilation") and min(values) < 1:
                raise _error(f"layer {self._name}: {name} {tuple(values)} must be at least 1")
            for i in range(rank):
                getattr(window, name)[i] = values[i]
        mode = {"CAFFE_ROUND_DOWN": "EXPLICIT_ROUND_DOWN", "CAFFE_ROUND_UP": "EXPLICIT_ROUND_UP"}.get(
            self.padding_mode.name, self.padding_mode.name)
        window.mode = getattr(lib, "CARNOT_PADDING_" + mode)
        return window


def window_defaults(rank: int) -> Dict[str, Any]:
    return {"stride_nd": Dims([1] * rank), "pre_padding": Dims([0] * rank), "post_padding": Dims([0] * rank),
            "dilation_nd": Dims([1] * rank), "padding_mode": PaddingMode.EXPLICIT_ROUND_DOWN}


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
            raise _error(f"layer {self._name} has no kernel: neither weights nor input 1")
        else:
            channels = shape[1] if len(shape) > 1 else 0
            if channels < 0:  # a dynamic channel count: the weights tell it
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
    _defaults = {"blend_factor": 0.0, "average_count_excludes_padding": True, "type": PoolingType.MAX,
                 "window_size_nd": Dims([1, 1]), **window_defaults(2)}
    type = enum_prop("type", PoolingType)  # type: ignore[assignment]
    window_size_nd, window_size = dims_prop("window_size_nd"), hw_prop("window_size_nd")
    blend_factor = prop("blend_factor", float)
    average_count_excludes_padding = prop("average_count_excludes_padding", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("pooling", e.value(self._inputs[0]), getattr(lib, "CARNOT_POOLING_" + self.type.name),
                      self._c_window(self.window_size_nd), self.average_count_excludes_padding, self.blend_factor)]


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
        b = ffi.NULL if bias is None or not len(bias) else \
            e.constant(bias, [self.num_output_channels], self._name + " BIAS")
        return [e.add("fully_connected", x, k, b)]


class IPaddingLayer(ILayer):
    _layer_type = LayerType.PADDING
    _defaults = {"pre_padding_nd": Dims([0, 0]), "post_padding_nd": Dims([0, 0])}
    pre_padding_nd, pre_padding = dims_prop("pre_padding_nd"), hw_prop("pre_padding_nd")
    post_padding_nd, post_padding = dims_prop("post_padding_nd"), hw_prop("post_padding_nd")

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        before = [0] * (len(e.shape(x)) - len(self.pre_padding_nd))
        return [e.add("padding", x, before + list(self.pre_padding_nd), before + list(self.post_padding_nd),
                      lib.CARNOT_PAD_CONSTANT, 0.0)]


class ILRNLayer(ILayer):
    _layer_type = LayerType.LRN
    window_size = prop("window_size", int)
    alpha, beta, k = prop("alpha", float), prop("beta", float), prop("k", float)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("lrn", e.value(self._inputs[0]), self.window_size, self.alpha, self.beta, self.k)]


# ---- element-wise ----


class IActivationLayer(ILayer):
    _layer_type = LayerType.ACTIVATION
    _defaults = {"alpha": 0.0, "beta": 0.0, "type": ActivationType.RELU}
    type = enum_prop("type", ActivationType)  # type: ignore[assignment]
    alpha, beta = prop("alpha", float), prop("beta", float)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("activation", e.value(self._inputs[0]),
                      getattr(lib, "CARNOT_ACTIVATION_TYPE_" + self.type.name), self.alpha, self.beta)]


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
        dims = {ScaleMode.UNIFORM: [], ScaleMode.CHANNEL: shape[self.channel_axis:self.channel_axis + 1],
                ScaleMode.ELEMENTWISE: shape[self.channel_axis:]}[self.mode]
        values = []
        for name in ("shift", "scale", "power"):
            weights = self._p[name]
            values.append(ffi.NULL if weights is None or not len(weights) else
                          e.like(e.constant(weights, dims, f"{self._name} {name.upper()}"), x))
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


# ---- products, normalisation, reduction ----


class IMatrixMultiplyLayer(ILayer):
    _layer_type = LayerType.MATRIX_MULTIPLY
    _min_inputs = 2
    op0, op1 = enum_prop("op0", MatrixOperation), enum_prop("op1", MatrixOperation)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("matrix_multiply", e.value(self._inputs[0]), int(self.op0), e.value(self._inputs[1]),
                      int(self.op1))]


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
            raise _error(f"layer {self._name}: softmax over {len(axes)} axes, must be one")
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
        return [e.add("normalization", x, e.like(scale, x), e.like(bias, x), axes or ffi.NULL, len(axes),
                      self.num_groups, self.epsilon)]


class IReduceLayer(ILayer):
    _layer_type = LayerType.REDUCE
    op, axes, keep_dims = enum_prop("op", ReduceOperation), prop("axes", int), prop("keep_dims", bool)

    def _emit(self, e: Emitter) -> List[Any]:
        axes = axes_of(self.axes)
        if self.op == ReduceOperation.NONE or not axes:
            raise _error(f"layer {self._name}: a reduction {self.op.name} over {len(axes)} axes")
        return [e.add("reduce", e.value(self._inputs[0]), getattr(lib, "CARNOT_REDUCE_" + self.op.name), axes,
                      len(axes), self.keep_dims)]


class ITopKLayer(ILayer):
    _layer_type = LayerType.TOPK
    _output_count = 2
    _defaults = {"indices_type": DataType.INT32}
    op, k, axes = enum_prop("op", TopKOperation), prop("k", int), prop("axes", int)
    indices_type = enum_prop("indices_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        axes = axes_of(self.axes)
        if len(axes) != 1:
            raise _error(f"layer {self._name}: top k over {len(axes)} axes, must be one")
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
    _defaults = {"norm_op": AttentionNormalizationOp.SOFTMAX, "causal_kind": CausalMaskKind.NONE,
                 "decomposable": False, "mask": None, "normalization_quantize_scale": None,
                 "normalization_quantize_to_type": DataType.FLOAT, "query_form": None, "key_value_form": None,
                 "query_lengths": None, "key_value_lengths": None}
    norm_op = enum_prop("norm_op", AttentionNormalizationOp)
    causal_kind = enum_prop("causal_kind", CausalMaskKind)
    decomposable = prop("decomposable", bool)
    normalization_quantize_scale = prop("normalization_quantize_scale")
    normalization_quantize_to_type = prop("normalization_quantize_to_type")
    query_form, key_value_form = prop("query_form"), prop("key_value_form")
    query_lengths, key_value_lengths = prop("query_lengths"), prop("key_value_lengths")
    causal = property(lambda self: self.causal_kind != CausalMaskKind.NONE,
                      lambda self, value: self._set("causal_kind", CausalMaskKind(1 if value else 0)))

    def _set_mask(self, tensor: Any) -> None:
        self._p["mask"] = tensor
        self._rewire(3, tensor)

    mask = property(lambda self: self._p["mask"], _set_mask)

    def _emit(self, e: Emitter) -> List[Any]:
        for name in ("normalization_quantize_scale", "query_lengths", "key_value_lengths"):
            if self._p[name] is not None:
                raise _error(f"attention {self._name}: {name} is not supported", lib.CARNOT_UNSUPPORTED)
        q, k, v = (e.value(t) for t in self._inputs[:3])
        mask = e.value(self._inputs[3]) if len(self._inputs) > 3 else ffi.NULL
        if self.norm_op == AttentionNormalizationOp.NONE:
            scores = e.add("matrix_multiply", q, lib.CARNOT_MATRIX_NONE, k, lib.CARNOT_MATRIX_TRANSPOSE)
            if mask:
                scores = e.elementwise(scores, mask, "SUM")
            return [e.add("matrix_multiply", scores, lib.CARNOT_MATRIX_NONE, v, lib.CARNOT_MATRIX_NONE)]
        if self.causal_kind == CausalMaskKind.LOWER_RIGHT and e.shape(q)[2] != e.shape(k)[2]:
            raise _error(f"attention {self._name}: LOWER_RIGHT needs as many queries as keys", lib.CARNOT_UNSUPPORTED)
        config = ffi.new("carnot_attention_config*", {"causal": self.causal, "scale": 1.0})
        return [e.add("attention", q, k, v, mask, config)]


class IRotaryEmbeddingLayer(ILayer):
    _layer_type = LayerType.ROTARY_EMBEDDING
    _min_inputs = 3
    interleaved, rotary_embedding_dim = prop("interleaved", bool), prop("rotary_embedding_dim", int)

    def _emit(self, e: Emitter) -> List[Any]:
        positions = e.int64(e.value(self._inputs[3])) if len(self._inputs) > 3 and self._inputs[3] else ffi.NULL
        return [e.add("rotary_embedding", *[e.value(t) for t in self._inputs[:3]], positions, self.interleaved,
                      self.rotary_embedding_dim)]


class IKVCacheUpdateLayer(ILayer):
    _layer_type = LayerType.KV_CACHE_UPDATE
    _min_inputs = 3
    _defaults = {"update_form": None, "update_lengths": None}
    cache_mode = enum_prop("cache_mode", KVCacheMode)
    update_form, update_lengths = prop("update_form"), prop("update_lengths")

    def _emit(self, e: Emitter) -> List[Any]:
        cache, update, indices = (e.value(t) for t in self._inputs[:3])
        return [e.add("kv_cache_update", cache, update, e.int64(indices))]


# ---- shape and movement ----


class IShapeLayer(ILayer):
    _layer_type = LayerType.SHAPE

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("shape", e.value(self._inputs[0]))]


class IShuffleLayer(ILayer):
    _layer_type = LayerType.SHUFFLE
    _defaults = {"first_transpose": None, "reshape_dims": None, "second_transpose": None, "zero_is_placeholder": True}
    zero_is_placeholder = prop("zero_is_placeholder", bool)

    def _order(name: str) -> Any:  # type: ignore[misc]
        def get(self: Any) -> Permutation:
            return self._p[name] or Permutation(range(Dims.MAX_DIMS))

        return property(get, lambda self, value: self._set(name, Permutation(tuple(value))))

    first_transpose, second_transpose = _order("first_transpose"), _order("second_transpose")
    del _order

    def _dims(self) -> Dims:
        return Dims() if self._p["reshape_dims"] is None else self._p["reshape_dims"]

    reshape_dims = property(_dims, lambda self, value: self._set("reshape_dims", Dims(tuple(value))))

    def _turned(self, e: Emitter, value: Any, name: str) -> Any:
        order = self._p[name]
        if order is None:
            return value
        rank = len(e.shape(value))
        if sorted(order[:rank]) != list(range(rank)):
            raise _error(f"layer {self._name}: {name} {tuple(order)} is no order of {rank} dimensions")
        return e.transpose(value, order[:rank])

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        y = self._turned(e, x, "first_transpose")
        dims = None
        if len(self._inputs) > 1 and self._inputs[1] is not None:
            dims = e.int64(e.value(self._inputs[1]))
        elif self._p["reshape_dims"] is not None:
            dims = e.ints(self._p["reshape_dims"])
        if dims is not None:
            y = e.add("shuffle", y, ffi.NULL, dims, ffi.NULL)
            if not self.zero_is_placeholder:
                node = lib.carnot_value_layer(y)
                lib.carnot_status_free(lib.carnot_layer_set_int(node, b"allowzero", 1))
                e.network._stale = True
        y = self._turned(e, y, "second_transpose")
        return [e.add("identity", x) if address(y) == address(x) else y]


class ISqueezeLayer(ILayer):
    _layer_type = LayerType.SQUEEZE
    _min_inputs = 2
    _kind = "squeeze"

    def _emit(self, e: Emitter) -> List[Any]:
        axes = e.static_ints(self._inputs[1], f"layer {self._name}: the axes")
        return [e.add(self._kind, e.value(self._inputs[0]), axes or ffi.NULL, len(axes))]


class IUnsqueezeLayer(ISqueezeLayer):
    _layer_type = LayerType.UNSQUEEZE
    _kind = "unsqueeze"


class IConcatenationLayer(ILayer):
    _layer_type = LayerType.CONCATENATION
    _defaults = {"axis": None}
    axis = property(lambda self: max(0, len(self._inputs[0].shape) - 3) if self._p["axis"] is None else self._p["axis"],
                    lambda self, value: self._set("axis", int(value)))

    def _emit(self, e: Emitter) -> List[Any]:
        values = [e.value(t) for t in self._inputs]
        axis = max(0, len(e.shape(values[0])) - 3) if self._p["axis"] is None else self._p["axis"]
        return [e.add("concatenation", values, len(values), axis)]


_PADS = {SampleMode.WRAP: "WRAP", SampleMode.CLAMP: "EDGE", SampleMode.FILL: "CONSTANT", SampleMode.REFLECT: "REFLECT"}


class ISliceLayer(ILayer):
    _layer_type = LayerType.SLICE
    _defaults = {"mode": SampleMode.STRICT_BOUNDS, "axes": None}
    start, shape, stride = dims_prop("start"), dims_prop("shape"), dims_prop("stride")
    mode = enum_prop("mode", SampleMode)
    axes = property(lambda self: Dims() if self._p["axes"] is None else self._p["axes"],
                    lambda self, value: self._set("axes", Dims(tuple(value))))

    def _input(self, index: int) -> Any:
        return self._inputs[index] if len(self._inputs) > index else None

    def _emit(self, e: Emitter) -> List[Any]:
        x = e.value(self._inputs[0])
        if any(self._input(i) is not None for i in (1, 2, 3)):
            return [self._emit_dynamic(e, x)]
        shape = e.shape(x)
        start, size, stride = [0] * len(shape), list(shape), [1] * len(shape)
        axes = range(len(shape)) if self._p["axes"] is None else self._p["axes"]
        if not len(self.start) == len(self.shape) == len(self.stride) == len(axes):
            raise _error(f"layer {self._name}: start {self.start}, shape {self.shape} and stride {self.stride} must "
                         f"have {len(axes)} dimensions each")
        for i, axis in enumerate(axes):
            start[axis], size[axis], stride[axis] = self.start[i], self.shape[i], self.stride[i]
        if self.mode != SampleMode.STRICT_BOUNDS:
            x = self._padded(e, x, shape, start, size, stride)
        else:
            self._check_bounds(shape, start, size, stride)
        if -1 in size:
            raise _error(f"layer {self._name}: dimension {size.index(-1)} is dynamic: give sizes as input 2")
        return [e.add("slice", x, start, size, stride)]

    def _check_bounds(self, shape: List[int], start: List[int], size: List[int], stride: List[int]) -> None:
        for d, dim in enumerate(shape):
            last = start[d] + (size[d] - 1) * stride[d]
            if dim >= 0 and size[d] > 0 and not (0 <= start[d] < dim and 0 <= last < dim):
                raise _error(f"layer {self._name}: elements {start[d]} to {last} of dimension {d}, which has {dim}")

    def _padded(self, e: Emitter, x: Any, shape: List[int], start: List[int], size: List[int],
                stride: List[int]) -> Any:
        """|x| with so much around it that the slice lies inside; moves |start|."""
        pre, post = [0] * len(shape), [0] * len(shape)
        for d, dim in enumerate(shape):
            last = start[d] + (size[d] - 1) * stride[d]
            if dim < 0 and (start[d] or stride[d] != 1 or size[d] != -1):
                raise _error(f"layer {self._name}: mode {self.mode.name} needs the size of dimension {d}")
            if dim >= 0 and size[d] > 0:
                pre[d] = max(0, -min(start[d], last))
                post[d] = max(0, max(start[d], last) - dim + 1)
                start[d] += pre[d]
        fill = 0.0
        if self._input(4) is not None:
            value = e.value(self._input(4))
            data = lib.carnot_value_constant(value, ffi.NULL)
            if not data or lib.carnot_value_dtype(value) != lib.CARNOT_DTYPE_F32:
                raise _error(f"layer {self._name}: the fill value must be a constant of float32")
            fill = ffi.cast("float*", data)[0]
        if not any(pre) and not any(post):
            return x
        return e.add("padding", x, pre, post, getattr(lib, "CARNOT_PAD_" + _PADS[self.mode]), fill)

    def _emit_dynamic(self, e: Emitter, x: Any) -> Any:
        if self.mode != SampleMode.STRICT_BOUNDS:
            raise _error(f"layer {self._name}: mode {self.mode.name} with computed bounds", lib.CARNOT_UNSUPPORTED)
        start, size, stride = (
            e.ints(self._p[name]) if self._input(i) is None else e.int64(e.value(self._input(i)))
            for i, name in ((1, "start"), (2, "shape"), (3, "stride")))
        end = e.elementwise(start, e.elementwise(size, stride, "PROD"), "SUM")
        # An end below 0 means: up to the first element, backwards.
        below = e.elementwise(end, e.ints([0]), "LESS")
        end = e.add("select", below, e.ints([-(1 << 62)]), end)
        axes = ffi.NULL if self._p["axes"] is None else e.ints(self._p["axes"])
        return e.add("slice_dynamic", x, start, end, axes, stride)


class IGatherLayer(ILayer):
    _layer_type = LayerType.GATHER
    _min_inputs = 2
    _defaults = {"axis": 0, "mode": GatherMode.DEFAULT, "num_elementwise_dims": 0}
    axis, num_elementwise_dims = prop("axis", int), prop("num_elementwise_dims", int)
    mode = enum_prop("mode", GatherMode)

    def _emit(self, e: Emitter) -> List[Any]:
        x, indices = e.value(self._inputs[0]), e.value(self._inputs[1])
        return [e.add("gather", x, indices, int(self.mode), self.axis, self.num_elementwise_dims)]


class IScatterLayer(ILayer):
    _layer_type = LayerType.SCATTER
    _min_inputs = 3
    _defaults = {"axis": 0}
    axis, mode = prop("axis", int), enum_prop("mode", ScatterMode)

    def _emit(self, e: Emitter) -> List[Any]:
        data, indices, updates = (e.value(t) for t in self._inputs[:3])
        return [e.add("scatter", data, e.int64(indices), updates, int(self.mode), self.axis)]


class IOneHotLayer(ILayer):
    _layer_type = LayerType.ONE_HOT
    _min_inputs = 3
    axis = prop("axis", int)

    def _emit(self, e: Emitter) -> List[Any]:
        indices, values, depth = (e.value(t) for t in self._inputs[:3])
        return [e.add("one_hot", indices, e.scalar(e.int64(depth)), values, self.axis)]


class INonZeroLayer(ILayer):
    _layer_type = LayerType.NON_ZERO
    _defaults = {"indices_type": DataType.INT32}
    indices_type = enum_prop("indices_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.cast(e.add("non_zero", e.value(self._inputs[0])), self.indices_type)]


class IReverseSequenceLayer(ILayer):
    _layer_type = LayerType.REVERSE_SEQUENCE
    _min_inputs = 2
    _defaults = {"batch_axis": 1, "sequence_axis": 0}
    batch_axis, sequence_axis = prop("batch_axis", int), prop("sequence_axis", int)

    def _emit(self, e: Emitter) -> List[Any]:
        return [e.add("reverse_sequence", e.value(self._inputs[0]), e.int64(e.value(self._inputs[1])),
                      self.batch_axis, self.sequence_axis)]


# ---- resampling, detection, generation, quantization, checks ----


class IResizeLayer(ILayer):
    _layer_type = LayerType.RESIZE
    _defaults = {"shape": None, "scales": None, "resize_mode": InterpolationMode.NEAREST,
                 "coordinate_transformation": ResizeCoordinateTransformation.ASYMMETRIC,
                 "selector_for_single_pixel": ResizeSelector.FORMULA, "nearest_rounding": ResizeRoundMode.FLOOR,
                 "cubic_coeff": -0.75, "exclude_outside": False}
    shape = property(lambda self: Dims() if self._p["shape"] is None else self._p["shape"],
                     lambda self, value: self._set("shape", Dims(tuple(value))))
    scales = property(lambda self: self._p["scales"] or [], lambda self, value: self._set("scales", [float(s) for s in value]))
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
            raise _error(f"layer {self._name}: resize needs shape, scales or input 1")
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
            raise _error(f"layer {self._name}: sample mode {self.sample_mode.name}, must be FILL, CLAMP or REFLECT")
        return [e.add("grid_sample", e.value(self._inputs[0]), e.value(self._inputs[1]),
                      getattr(lib, "CARNOT_INTERPOLATION_" + self.interpolation_mode.name), self.align_corners,
                      getattr(lib, "CARNOT_SAMPLE_" + self.sample_mode.name))]


class INMSLayer(ILayer):
    _layer_type = LayerType.NMS
    _min_inputs = 3
    _output_count = 2
    _defaults = {"bounding_box_format": BoundingBoxFormat.CORNER_PAIRS, "topk_box_limit": 5000,
                 "indices_type": DataType.INT32}
    bounding_box_format = enum_prop("bounding_box_format", BoundingBoxFormat)
    topk_box_limit, indices_type = prop("topk_box_limit", int), enum_prop("indices_type", DataType)

    def _emit(self, e: Emitter) -> List[Any]:
        boxes, scores, most = (e.value(t) for t in self._inputs[:3])
        if len(e.shape(boxes)) == 4:
            if e.shape(boxes)[2] != 1:
                raise _error(f"layer {self._name}: boxes of their own for each class", lib.CARNOT_UNSUPPORTED)
            boxes = e.reshape(boxes, [0, 0, 4])
        thresholds = [e.scalar(e.value(t)) if t is not None else ffi.NULL for t in (self._inputs[3:] + [None] * 2)[:2]]
        chosen = e.add("nms", boxes, e.transpose(scores, [0, 2, 1]), e.scalar(e.int64(most)), *thresholds,
                       self.bounding_box_format == BoundingBoxFormat.CENTER_SIZES)
        count = e.add("gather", e.add("shape", chosen), e.int(0), lib.CARNOT_GATHER_DEFAULT, 0, 0)
        return [e.cast(chosen, self.indices_type), e.cast(count, DataType.INT32)]


class IFillLayer(ILayer):
    _layer_type = LayerType.FILL
    _min_inputs = 0
    _defaults = {"alpha": None, "beta": None, "to_type": DataType.FLOAT}
    shape, operation, to_type = dims_prop("shape"), enum_prop("operation", FillOperation), enum_prop("to_type", DataType)

    def _number(name: str, absent: float) -> Any:  # type: ignore[misc]
        return property(lambda self: absent if self._p[name] is None else self._p[name],
                        lambda self, value: self._set(name, value))

    alpha, beta = _number("alpha", 0.0), _number("beta", 1.0)
    del _number

    def is_alpha_beta_int64(self) -> bool:
        return isinstance(self._p["alpha"], int) and isinstance(self._p["beta"], int)

    def _input(self, index: int) -> Any:
        return self._inputs[index] if len(self._inputs) > index else None

    def _emit(self, e: Emitter) -> List[Any]:
        if self.operation == FillOperation.LINSPACE:
            return [self._linspace(e)]
        if any(self._input(i) is not None for i in range(3)):
            raise _error(f"layer {self._name}: a random fill with computed inputs", lib.CARNOT_UNSUPPORTED)
        dims = ffi.new("carnot_dims*")
        dims.rank = len(self.shape)
        dims.d[0:dims.rank] = list(self.shape)
        normal = self.operation == FillOperation.RANDOM_NORMAL
        return [e.add("fill_random", dims, to_c_dtype(self.to_type), normal, float(self.alpha), float(self.beta), 0.0)]

    def _linspace(self, e: Emitter) -> Any:
        """alpha + sum over dimensions of index * beta."""
        if self._input(0) is not None:
            sizes = e.int64(e.value(self._input(0)))
            rank = e.shape(sizes)[0]
            counts = [e.add("gather", sizes, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) for d in range(rank)]
        else:
            rank, counts = len(self.shape), [e.int(d) for d in self.shape]
        betas = e.value(self._input(2)) if self._input(2) is not None else None
        total = e.scalar(e.value(self._input(1))) if self._input(1) is not None else \
            e.cast(e.array(np.asarray(self.alpha, np.float64 if isinstance(self.alpha, float) else np.int64)), self.to_type)
        for d in range(rank):
            steps = e.cast(e.add("fill_linspace", e.int(0), counts[d], e.int(1)), self.to_type)
            if betas is None:
                step = e.cast(e.array(np.asarray(self.beta, np.float64 if isinstance(self.beta, float) else np.int64)),
                              self.to_type)
            else:
                step = e.add("gather", betas, e.int(d), lib.CARNOT_GATHER_DEFAULT, 0, 0) if e.shape(betas) else betas
            part = e.elementwise(steps, step, "PROD")
            total = e.elementwise(total, e.reshape(part, [-1] + [1] * (rank - 1 - d)), "SUM")
        return total


class IQuantizeLayer(ILayer):
    _layer_type = LayerType.QUANTIZE
    _min_inputs = 2
    _defaults = {"axis": 1, "to_type": DataType.INT8, "block_shape": None}
    axis, to_type, block_shape = prop("axis", int), enum_prop("to_type", DataType), dims_prop("block_shape")

    def _block(self, e: Emitter, x: Any, scale: Any) -> tuple:
        """Axis and block length: scales of the input's rank are blocks along the axis where they are fewer."""
        whole, parts = e.shape(x), e.shape(scale)
        if len(parts) != len(whole) or len(parts) < 2:
            return self.axis, 0
        for d, (count, part) in enumerate(zip(whole, parts)):
            if part not in (1, count) and part > 0 or (part > 1 and self._p["block_shape"] is not None):
                return d, count // part
        return self.axis, 0

    def _emit(self, e: Emitter) -> List[Any]:
        x, scale = e.value(self._inputs[0]), e.value(self._inputs[1])
        zero = e.value(self._inputs[2]) if len(self._inputs) > 2 else ffi.NULL
        return [e.add("quantize", x, scale, zero, *self._block(e, x, scale), to_c_dtype(self.to_type))]


class IDequantizeLayer(IQuantizeLayer):
    _layer_type = LayerType.DEQUANTIZE
    _defaults = {"axis": 1, "to_type": DataType.FLOAT, "block_shape": None}

    def _emit(self, e: Emitter) -> List[Any]:
        x, scale = e.value(self._inputs[0]), e.value(self._inputs[1])
        zero = e.value(self._inputs[2]) if len(self._inputs) > 2 else ffi.NULL
        return [e.cast(e.add("dequantize", x, scale, zero, *self._block(e, x, scale)), self.to_type)]


class IAssertionLayer(ILayer):
    _layer_type = LayerType.ASSERTION
    _output_count = 0
    message = prop("message", str)

    def _emit(self, e: Emitter) -> List[Any]:
        try:
            e.call("add_assertion", e.value(self._inputs[0]), utf8(self.message))
        except CarnotError as error:
            if error.code != lib.CARNOT_UNSUPPORTED:
                raise
            e.network._warn(str(error))
        return []


class IRNNv2Layer(ILayer):
    """The recurrent layer of 8.6: gates set one by one. Data are [batch, time, features]."""

    _layer_type = LayerType.RNN_V2
    _defaults = {"input_mode": RNNInputMode.LINEAR, "direction": RNNDirection.UNIDIRECTION, "hidden_state": None,
                 "cell_state": None, "seq_lengths": None}
    # Gates in the order that ONNX packs them.
    _GATES = {RNNOperation.RELU: ["INPUT"], RNNOperation.TANH: ["INPUT"],
              RNNOperation.LSTM: ["INPUT", "OUTPUT", "FORGET", "CELL"],
              RNNOperation.GRU: ["UPDATE", "RESET", "HIDDEN"]}
    op, input_mode = enum_prop("op", RNNOperation), enum_prop("input_mode", RNNInputMode)
    direction = enum_prop("direction", RNNDirection)
    num_layers, hidden_size = property(lambda self: self._p["layer_count"]), property(lambda self: self._p["hidden_size"])
    max_seq_length = property(lambda self: self._p["max_seq_length"])
    data_length = property(lambda self: self._inputs[0].shape[-1])

    def _state(name: str, index: int) -> Any:  # type: ignore[misc]
        def put(self: Any, tensor: Any) -> None:
            self._p[name] = tensor
            self._rewire(index, tensor)

        return property(lambda self: self._p[name], put)

    hidden_state, cell_state, seq_lengths = _state("hidden_state", 1), _state("cell_state", 2), _state("seq_lengths", 3)
    del _state

    def __init__(self, network: Any, inputs: Any = (), **properties: Any) -> None:
        super().__init__(network, inputs, **properties)
        self._gates: Dict[tuple, Weights] = {}
        self._output_count = 3 if properties.get("op") == RNNOperation.LSTM else 2

    def set_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, weights: Any) -> None:
        self._gates[layer_index, gate.name, bool(is_w), False] = Weights.of(weights)
        self._changed()

    def set_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, bias: Any) -> None:
        self._gates[layer_index, gate.name, bool(is_w), True] = Weights.of(bias)
        self._changed()

    def get_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> Any:
        return self._gates[layer_index, gate.name, bool(is_w), False].numpy()

    def get_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> Any:
        return self._gates[layer_index, gate.name, bool(is_w), True].numpy()

    def _packed(self, e: Emitter, level: int, is_w: bool, is_bias: bool, width: int) -> Any:
        """[directions, gates * hidden, width], or without width for a bias."""
        directions = 1 + (self.direction == RNNDirection.BIDIRECTION)
        parts = []
        for d in range(directions):
            for gate in self._GATES[self.op]:
                at = (level * directions + d, gate, is_w, is_bias)
                if at in self._gates:
                    parts.append(self._gates[at].numpy().astype(np.float32))
                elif is_bias:
                    parts.append(np.zeros(self.hidden_size, np.float32))
                else:
                    raise _error(f"layer {self._name}: no weights for gate {gate} of layer {at[0]}")
        return np.concatenate(parts).reshape([directions, -1] + ([] if is_bias else [width]))

    def _initial(self, e: Emitter, name: str, level: int, directions: int) -> Any:
        """The state [batch, layers * directions, hidden] of one level as [directions, batch, hidden]."""
        if self._p[name] is None:
            return ffi.NULL
        state = e.transpose(e.value(self._p[name]), [1, 0, 2])
        first, last = e.ints([level * directions]), e.ints([(level + 1) * directions])
        return e.add("slice_dynamic", state, first, last, e.ints([0]), ffi.NULL)

    def _emit(self, e: Emitter) -> List[Any]:
        if self.input_mode == RNNInputMode.SKIP:
            raise _error(f"layer {self._name}: input mode SKIP", lib.CARNOT_UNSUPPORTED)
        directions = 1 + (self.direction == RNNDirection.BIDIRECTION)
        steps = e.transpose(e.value(self._inputs[0]), [1, 0, 2])
        hidden_states, cells = [], []
        for level in range(self.num_layers):
            config = ffi.new("carnot_rnn_config*")
            config.type = getattr(lib, "CARNOT_RNN_" + self.op.name)
            config.hidden, config.bidirectional = self.hidden_size, directions == 2
            config.initial_hidden = self._initial(e, "hidden_state", level, directions)
            config.initial_cell = self._initial(e, "cell_state", level, directions)
            if self._p["seq_lengths"] is not None:
                config.lengths = e.cast(e.value(self._p["seq_lengths"]), DataType.INT32)
            w = self._packed(e, level, True, False, e.shape(steps)[2])
            r = self._packed(e, level, False, False, self.hidden_size)
            b = np.concatenate([self._packed(e, level, True, True, 0), self._packed(e, level, False, True, 0)], 1)
            out = [ffi.new("carnot_value**") for _ in range(3)]
            e.call("add_rnn", steps, e.array(w), e.array(r), e.array(b), config, *out)
            if self.op == RNNOperation.GRU:  # the reset gate works on the product, bias included
                lib.carnot_status_free(lib.carnot_layer_set_int(lib.carnot_value_layer(out[0][0]),
                                                                b"linear_before_reset", 1))
            steps = e.reshape(e.transpose(out[0][0], [0, 2, 1, 3]), [0, 0, -1])
            hidden_states.append(out[1][0])
            cells.append(out[2][0])
        outputs = [steps] + [e.add("concatenation", states, len(states), 0)
                             for states in ([hidden_states, cells] if self.op == RNNOperation.LSTM else [hidden_states])]
        return [e.transpose(value, [1, 0, 2]) for value in outputs]


class IPluginV2Layer(ILayer):
    _layer_type = LayerType.PLUGIN_V2
    plugin = property(lambda self: self._p.get("plugin"))


class IPluginV3Layer(ILayer):
    _layer_type = LayerType.PLUGIN_V3
    plugin = property(lambda self: self._p.get("plugin"))


class IDynamicQuantizeLayer(ILayer):
    _layer_type = LayerType.DYNAMIC_QUANTIZE
    axis, block_size, block_shape = prop("axis", int), prop("block_size", int), dims_prop("block_shape")
    to_type, scale_type = enum_prop("to_type", DataType), enum_prop("scale_type", DataType)


class IMoELayer(ILayer):
    _layer_type = LayerType.MOE


class IDistCollectiveLayer(ILayer):
    _layer_type = LayerType.DIST_COLLECTIVE


class IAttentionBoundaryLayer(ILayer):
    attention = property(lambda self: self._p.get("attention"))


class IAttentionInputLayer(IAttentionBoundaryLayer):
    _layer_type = LayerType.ATTENTION_INPUT


class IAttentionOutputLayer(IAttentionBoundaryLayer):
    _layer_type = LayerType.ATTENTION_OUTPUT


__all__ = [name for name, kind in list(globals().items()) if isinstance(kind, type) and issubclass(kind, ILayer)
           and not name.startswith("_")]
