"""Layers that move data or change shapes."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi, lib
from ...core import address
from ...enums import DataType, GatherMode, LayerType, SampleMode, ScatterMode
from ...types import Dims, Permutation
from ..emitter import Emitter, model_error
from ..layer import ILayer, dims_prop, enum_prop, prop


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
            raise model_error(f"layer {self._name}: {name} {tuple(order)} is no order of {rank} dimensions")
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
    axis = property(
        lambda self: max(0, len(self._inputs[0].shape) - 3) if self._p["axis"] is None else self._p["axis"],
        lambda self, value: self._set("axis", int(value)),
    )

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
    axes = property(
        lambda self: Dims() if self._p["axes"] is None else self._p["axes"],
        lambda self, value: self._set("axes", Dims(tuple(value))),
    )

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
            raise model_error(
                f"layer {self._name}: start {self.start}, shape {self.shape} and stride {self.stride} must "
                f"have {len(axes)} dimensions each"
            )
        for i, axis in enumerate(axes):
            start[axis], size[axis], stride[axis] = self.start[i], self.shape[i], self.stride[i]
        if self.mode != SampleMode.STRICT_BOUNDS:
            x = self._padded(e, x, shape, start, size, stride)
        else:
            self._check_bounds(shape, start, size, stride)
        if -1 in size:
            raise model_error(f"layer {self._name}: dimension {size.index(-1)} is dynamic: give sizes as input 2")
        return [e.add("slice", x, start, size, stride)]

    def _check_bounds(self, shape: List[int], start: List[int], size: List[int], stride: List[int]) -> None:
        for d, dim in enumerate(shape):
            last = start[d] + (size[d] - 1) * stride[d]
            if dim >= 0 and size[d] > 0 and not (0 <= start[d] < dim and 0 <= last < dim):
                raise model_error(
                    f"layer {self._name}: elements {start[d]} to {last} of dimension {d}, which has {dim}"
                )

    def _padded(
        self, e: Emitter, x: Any, shape: List[int], start: List[int], size: List[int], stride: List[int]
    ) -> Any:
        """Pads |x| so that the slice is in bounds, and adjusts |start|."""
        pre, post = [0] * len(shape), [0] * len(shape)
        for d, dim in enumerate(shape):
            last = start[d] + (size[d] - 1) * stride[d]
            if dim < 0 and (start[d] or stride[d] != 1 or size[d] != -1):
                raise model_error(f"layer {self._name}: mode {self.mode.name} needs the size of dimension {d}")
            if dim >= 0 and size[d] > 0:
                pre[d] = max(0, -min(start[d], last))
                post[d] = max(0, max(start[d], last) - dim + 1)
                start[d] += pre[d]
        fill = 0.0
        if self._input(4) is not None:
            value = e.value(self._input(4))
            data = lib.carnot_value_constant(value, ffi.NULL)
            if not data or lib.carnot_value_dtype(value) != lib.CARNOT_DTYPE_F32:
                raise model_error(f"layer {self._name}: the fill value must be a constant of float32")
            fill = ffi.cast("float*", data)[0]
        if not any(pre) and not any(post):
            return x
        return e.add("padding", x, pre, post, getattr(lib, "CARNOT_PAD_" + _PADS[self.mode]), fill)

    def _emit_dynamic(self, e: Emitter, x: Any) -> Any:
        if self.mode != SampleMode.STRICT_BOUNDS:
            raise model_error(f"layer {self._name}: mode {self.mode.name} with computed bounds", lib.CARNOT_UNSUPPORTED)
        start, size, stride = (
            e.ints(self._p[name]) if self._input(i) is None else e.int64(e.value(self._input(i)))
            for i, name in ((1, "start"), (2, "shape"), (3, "stride"))
        )
        end = e.elementwise(start, e.elementwise(size, stride, "PROD"), "SUM")
        # A negative end extends the slice through the first element, backwards.
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
        return [
            e.add(
                "reverse_sequence",
                e.value(self._inputs[0]),
                e.int64(e.value(self._inputs[1])),
                self.batch_axis,
                self.sequence_axis,
            )
        ]
