"""For those who come from elsewhere: carnot.load("model.onnx")(x=array)."""

from __future__ import annotations

import html
import os
from typing import Any, Dict, List, Optional

import numpy as np

from ._carnot import ffi, lib
from .builder import Builder
from .core import CarnotError, Logger, check, to_c_dims
from .enums import BuilderFlag, Severity
from .interfaces import IProfiler
from .parser import OnnxParser
from .context import IExecutionContext
from .engine import ICudaEngine
from .runtime import Runtime
from .types import nptype, to_c_dtype, volume


class _Quiet(Logger):
    """Keeps the errors for the exception that follows."""

    def __init__(self) -> None:
        super().__init__(Severity.ERROR)
        self.errors: List[str] = []

    def log(self, severity: Severity, msg: str) -> None:
        if severity.value <= Severity.ERROR.value:
            self.errors.append(msg)


def build(
    model: Any,
    *,
    shapes: Optional[Dict[str, Any]] = None,
    flags: Any = (),
    level: int = 3,
    timing_cache: Any = None,
    logger: Any = None,
    backend: Optional[str] = None,
) -> Any:
    """Builds an engine from an ONNX file or its bytes; gives the bytes of the engine.

    |shapes| maps inputs with dynamic dimensions to a shape or to (min, opt, max). |backend|: "cpu", "cuda", "cuda:1";
    None takes a GPU that is ready, else the processor (CARNOT_DEVICE overrides it). Raises CarnotError.
    """
    logger = logger or _Quiet()
    builder = Builder(logger)
    network = builder.create_network(0)
    parser = OnnxParser(network, logger)
    is_path = isinstance(model, (str, os.PathLike))
    if not (parser.parse_from_file(os.fspath(model)) if is_path else parser.parse(model)):
        raise CarnotError(
            lib.CARNOT_INVALID_MODEL, "\n".join(str(parser.get_error(i)) for i in range(parser.num_errors))
        )
    config = builder.create_builder_config()
    config.builder_optimization_level = level
    config.backend = backend
    for flag in flags:
        config.set_flag(BuilderFlag[flag] if isinstance(flag, str) else flag)
    if timing_cache is not None:
        config.set_timing_cache(timing_cache, False)
    if shapes:
        profile = builder.create_optimization_profile()
        for name, shape in shapes.items():
            profile.set_shape(name, *(shape if isinstance(shape[0], (tuple, list)) else (shape,) * 3))
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise CarnotError(lib.CARNOT_INTERNAL, "\n".join(getattr(logger, "errors", [])) or "the build failed")
    return plan


def as_array(value: Any) -> Any:
    """A NumPy view of arrays, torch tensors and what speaks DLPack, without a copy where memory allows it."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__cuda_array_interface__") and getattr(value, "is_cuda", True):
        raise ValueError("this array lies in the memory of a GPU; a CPU engine reads host memory")
    if hasattr(value, "detach"):
        value = value.detach()
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)


class Model:
    """An engine with a context: call it with arrays by name, get arrays by name."""

    def __init__(self, engine: ICudaEngine) -> None:
        self.engine = engine
        self._context = IExecutionContext(engine, host_tensors=True)

    inputs = property(lambda self: {t.name: t.dims for t in self.engine._tensors.values() if t.is_input})
    outputs = property(lambda self: {t.name: t.dims for t in self.engine._tensors.values() if not t.is_input})

    def __call__(self, *arrays: Any, **named: Any) -> Dict[str, Any]:
        context, tensors = self._context, self.engine._tensors
        if arrays:
            named.update(zip(self.inputs, arrays))
        keep = []
        for name, value in named.items():
            tensor = self.engine._find(name)
            array = as_array(value)
            wanted = np.dtype(nptype(tensor.dtype))
            if array.dtype != wanted:
                raise TypeError(f"input {name} is {array.dtype}, must be {wanted}")
            array = np.ascontiguousarray(array).reshape(array.shape)
            keep.append(array)
            check(
                lib.carnot_context_set_input(
                    context._c, tensor.c_name, to_c_dims(array.shape), ffi.cast("void*", array.ctypes.data)
                )
            )
        outputs = [t for t in tensors.values() if not t.is_input]
        for tensor in outputs:  # the last run's memory is the caller's
            check(lib.carnot_context_set_tensor_address(context._c, tensor.c_name, ffi.NULL, 0))
        check(lib.carnot_context_infer_shapes(context._c))
        made, late = {}, []
        for tensor in outputs:
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context._c, tensor.c_name, dims))
            shape = [dims.d[i] for i in range(dims.rank)]
            if dims.rank < 0 or -1 in shape:
                late.append(tensor)
                continue
            array = made[tensor.name] = np.empty(shape, nptype(tensor.dtype))
            check(
                lib.carnot_context_set_tensor_address(
                    context._c, tensor.c_name, ffi.cast("void*", array.ctypes.data), array.nbytes
                )
            )
        check(lib.carnot_context_run(context._c))
        for tensor in late:  # sizes that the run found out lie in the context's memory
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context._c, tensor.c_name, dims))
            shape = [dims.d[i] for i in range(dims.rank)]
            size = lib.carnot_dtype_bytes(to_c_dtype(tensor.dtype), volume(shape))
            data = ffi.buffer(lib.carnot_context_output_data(context._c, tensor.c_name), size) if size else b""
            made[tensor.name] = np.frombuffer(bytes(data), nptype(tensor.dtype)).reshape(shape)
        del keep
        return {tensor.name: made[tensor.name] for tensor in outputs}

    def __repr__(self) -> str:
        show = ", ".join(f"{name}{shape}" for name, shape in self.inputs.items())
        return f"<carnot.Model {self.engine.name!r}: {show} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        return engine_html(self.engine)

    def profile(self, *arrays: Any, runs: int = 10, **named: Any) -> "Profile":
        named.update(zip(self.inputs, arrays))
        return profile(self.engine, named or None, runs)


def load(path: Any, **options: Any) -> Model:
    """A model ready to be called: from an ONNX file (built now, with the options of build) or an engine file."""
    logger = _Quiet()
    runtime = Runtime(logger)
    name = os.fspath(path)
    engine = runtime.deserialize_cuda_engine(build(name, **options)) if name.endswith(".onnx") else runtime._load(name)
    if engine is None:
        raise CarnotError(lib.CARNOT_INVALID_MODEL, "\n".join(logger.errors))
    return Model(engine)


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


def profile(engine: ICudaEngine, inputs: Optional[Dict[str, Any]] = None, runs: int = 10) -> Profile:
    """Times each layer; without |inputs| with zeros of the most usual shapes."""
    model, collect = Model(engine), _Collect()
    if inputs is None:
        inputs = {
            t.name: np.zeros(tuple(engine.get_tensor_profile_shape(t.name, 0)[1]), nptype(t.dtype))
            for t in engine._tensors.values()
            if t.is_input
        }
    model(**inputs)
    model._context.profiler = collect
    for _ in range(runs):
        model._context._times = []
        model(**inputs)
        model._context.report_to_profiler()
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
