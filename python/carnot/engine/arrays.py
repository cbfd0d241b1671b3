"""Runs of an engine on host arrays, layer profiles and HTML summaries."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from .._carnot import ffi, lib
from ..core import check, to_c_dims
from ..enums import TensorFormat
from ..interfaces import IProfiler
from ..types import nptype

if TYPE_CHECKING:
    from .context import IExecutionContext
    from .engine import ICudaEngine


def as_array(value: Any) -> Any:
    """A NumPy view of an array, torch tensor or DLPack object, without a copy where possible."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__cuda_array_interface__") and getattr(value, "is_cuda", True):
        raise ValueError("this array lies in the memory of a GPU; a CPU engine reads host memory")
    if hasattr(value, "detach"):
        value = value.detach()
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)


def _check_names(engine: ICudaEngine, inputs: Dict[str, Any]) -> None:
    """Raises TypeError unless |inputs| has exactly the inputs of |engine|."""
    names = [t.name for t in engine._tensors.values() if t.is_input]
    unknown = [name for name in inputs if name not in names]
    if unknown:
        raise TypeError(f"unknown input {', '.join(unknown)}; the model takes {', '.join(names) or 'no inputs'}")
    missing = [name for name in names if name not in inputs]
    if missing:
        raise TypeError(f"missing input {', '.join(missing)}; the model takes {', '.join(names)}")


def _bind_inputs(context: IExecutionContext, inputs: Dict[str, Any]) -> List[Any]:
    """Binds |inputs| by name; returns the arrays that the context borrows."""
    keep = []
    for name, value in inputs.items():
        tensor = context.engine._find(name)
        array = as_array(value)
        wanted = np.dtype(nptype(tensor.dtype))
        if array.dtype != wanted:
            raise TypeError(f"input {name} is {array.dtype}, must be {wanted}")
        array = np.ascontiguousarray(array).reshape(array.shape)
        keep.append(array)
        shape = array.shape
        if tensor.format != TensorFormat.LINEAR and array.ndim == len(tensor.dims):
            array = _to_format(tensor, array)
            keep.append(array)
        check(
            lib.carnot_context_set_input(
                context._c, tensor.c_name, to_c_dims(shape), ffi.cast("void*", array.ctypes.data)
            )
        )
    return keep


def _to_format(tensor: Any, array: Any) -> Any:
    """The bytes of a row-major array in the format of an input."""
    made = np.empty(tensor.layout(array.shape).bytes, np.uint8)
    pointers = [ffi.cast("void*", a.ctypes.data) for a in (array, made)]
    check(lib.carnot_tensor_to_format(tensor.c_format, tensor.c_dtype, to_c_dims(array.shape), *pointers))
    return made


def _from_format(tensor: Any, array: Any, shape: List[int]) -> Any:
    """A row-major array from the bytes of an output."""
    made = np.empty(shape, nptype(tensor.dtype))
    pointers = [ffi.cast("void*", a.ctypes.data) for a in (array, made)]
    check(lib.carnot_tensor_from_format(tensor.c_format, tensor.c_dtype, to_c_dims(shape), *pointers))
    return made


def _shape(context: IExecutionContext, tensor: Any) -> Optional[List[int]]:
    """The shape of a tensor; None while it is not known."""
    dims = ffi.new("carnot_dims*")
    check(lib.carnot_context_tensor_dims(context._c, tensor.c_name, dims))
    shape = [dims.d[i] for i in range(dims.rank)]
    return None if dims.rank < 0 or -1 in shape else shape


def run_arrays(context: IExecutionContext, inputs: Dict[str, Any]) -> Dict[str, Any]:
    """One run of a context with host tensors: takes arrays by name, returns the outputs by name.

    The context holds no address of an array afterwards. TypeError for an input that is missing or not known.
    """
    _check_names(context.engine, inputs)
    try:
        return _run_arrays(context, inputs)
    finally:
        check(lib.carnot_context_clear_addresses(context._c))


def _run_arrays(context: IExecutionContext, inputs: Dict[str, Any]) -> Dict[str, Any]:
    keep = _bind_inputs(context, inputs)
    outputs = [t for t in context.engine._tensors.values() if not t.is_input]
    check(lib.carnot_context_infer_shapes(context._c))
    made: Dict[str, Any] = {}
    data_dependent, shapes = [], {}
    for tensor in outputs:
        shape = _shape(context, tensor)
        if shape is None:
            data_dependent.append(tensor)
            continue
        shapes[tensor.name] = shape
        is_linear = tensor.format == TensorFormat.LINEAR
        array = np.empty(shape, nptype(tensor.dtype)) if is_linear else np.empty(tensor.layout(shape).bytes, np.uint8)
        made[tensor.name] = array
        check(
            lib.carnot_context_set_tensor_address(
                context._c, tensor.c_name, ffi.cast("void*", array.ctypes.data), array.nbytes
            )
        )
    check(lib.carnot_context_run(context._c))
    for tensor in data_dependent:  # the run determined their sizes; the context owns their memory
        shape = _shape(context, tensor) or []
        size = tensor.layout(shape).bytes
        data = bytes(ffi.buffer(lib.carnot_context_output_data(context._c, tensor.c_name), size) if size else b"")
        is_linear = tensor.format == TensorFormat.LINEAR
        shapes[tensor.name] = shape
        made[tensor.name] = (
            np.frombuffer(data, nptype(tensor.dtype)).reshape(shape) if is_linear else np.frombuffer(data, np.uint8)
        )
    for tensor in outputs:
        if tensor.format != TensorFormat.LINEAR:
            made[tensor.name] = _from_format(tensor, made[tensor.name], shapes[tensor.name])
    del keep
    return {tensor.name: made[tensor.name] for tensor in outputs}


class Profile:
    """Milliseconds of each layer: the median of several runs."""

    def __init__(self, rows: List[tuple]) -> None:
        self.rows = rows  # name, type, tactic, milliseconds

    total_ms = property(lambda self: sum(row[3] for row in self.rows))

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row[3])
        lines = [
            f"{ms:9.3f} ms {100 * ms / max(self.total_ms, 1e-9):5.1f}%  {kind:16} {name}  [{tactic}]"
            for name, kind, tactic, ms in rows
        ]
        return "\n".join([*lines, f"{self.total_ms:9.3f} ms in {len(rows)} layers"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{kind}</td><td>{tactic}</td><td>{ms:.3f}</td></tr>"
            for name, kind, tactic, ms in sorted(self.rows, key=lambda row: -row[3])
        )
        return f"<table><tr><th>layer</th><th>type</th><th>tactic</th><th>ms</th></tr>{rows}</table>"


class _Collect(IProfiler):
    def __init__(self) -> None:
        super().__init__()
        self.times: Dict[str, List[float]] = {}

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        self.times.setdefault(layer_name, []).append(ms)


def _zeros(engine: ICudaEngine) -> Dict[str, Any]:
    """Inputs of the optimum shapes."""
    return {
        t.name: np.zeros(tuple(engine.get_tensor_profile_shape(t.name, 0)[1]), nptype(t.dtype))
        for t in engine._tensors.values()
        if t.is_input
    }


def record_timeline(context: IExecutionContext, inputs: Optional[Dict[str, Any]], runs: int) -> str:
    """The timeline of a run with host tensors; None: zeros of the optimum shapes."""
    keep = _bind_inputs(context, _zeros(context.engine) if inputs is None else inputs)
    try:
        return context._record_timeline(runs)
    finally:
        check(lib.carnot_context_clear_addresses(context._c))
        del keep


def profile_layers(context: IExecutionContext, inputs: Optional[Dict[str, Any]], runs: int) -> Profile:
    """Times each layer over |runs| runs of a context with host tensors; None: zeros of the optimum shapes."""
    engine, collect = context.engine, _Collect()
    if inputs is None:
        inputs = _zeros(engine)
    run_arrays(context, inputs)
    context.profiler = collect
    for _ in range(runs):
        context._times = []
        run_arrays(context, inputs)
        context.report_to_profiler()
    layers = {layer["Name"]: layer for layer in engine._info()["Layers"]}
    return Profile(
        [
            (
                name,
                layers.get(name, {}).get("LayerType", ""),
                layers.get(name, {}).get("TacticName", ""),
                float(np.median(times)),
            )
            for name, times in collect.times.items()
        ]
    )


def engine_html(engine: ICudaEngine) -> str:
    tensors = "".join(
        f"<tr><td>{'input' if t.is_input else 'output'}</td><td>{html.escape(t.name)}</td><td>{t.dtype.name}</td>"
        f"<td>{t.dims}</td></tr>"
        for t in engine._tensors.values()
    )
    return (
        f"<b>{html.escape(engine.name or 'engine')}</b>: {len(engine._info()['Layers'])} layers, "
        f"{engine.device_memory_size / 1e6:.1f} MB for values<table>{tensors}</table>"
    )
