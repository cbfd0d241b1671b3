"""Short forms beside TensorRT's interface: build an ONNX file, load it, call it with arrays.

carnot.load("model.onnx")(x=array)
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ._carnot import lib
from .core import CarnotError, Logger
from .engine.arrays import Profile, engine_html, run_arrays
from .engine.builder import Builder
from .engine.context import IExecutionContext
from .engine.engine import ICudaEngine
from .engine.runtime import Runtime
from .enums import BuilderFlag, Severity
from .parser import OnnxParser


class QuietLogger(Logger):
    """Collects error messages for the exception that follows."""

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
    """Builds an engine from an ONNX file or its bytes and returns the serialized engine.

    |shapes| maps inputs with dynamic dimensions to a shape or to (min, opt, max). |backend|: "cpu", "cuda", "cuda:1";
    None selects a GPU if one is usable, else the CPU (CARNOT_DEVICE overrides it). Raises CarnotError.
    """
    logger = logger or QuietLogger()
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


class Model:
    """An engine with a context. A call takes arrays by name and returns arrays by name."""

    def __init__(self, engine: ICudaEngine) -> None:
        self.engine = engine
        self._context = IExecutionContext(engine, host_tensors=True)

    inputs = property(lambda self: {t.name: t.dims for t in self.engine._tensors.values() if t.is_input})
    outputs = property(lambda self: {t.name: t.dims for t in self.engine._tensors.values() if not t.is_input})

    def __call__(self, *arrays: Any, **named: Any) -> Dict[str, Any]:
        if arrays:
            named.update(zip(self.inputs, arrays))
        return run_arrays(self._context, named)

    def __repr__(self) -> str:
        show = ", ".join(f"{name}{shape}" for name, shape in self.inputs.items())
        return f"<carnot.Model {self.engine.name!r}: {show} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        return engine_html(self.engine)

    def profile(self, *arrays: Any, runs: int = 10, **named: Any) -> Profile:
        named.update(zip(self.inputs, arrays))
        return self.engine.profile(named or None, runs)


def load(path: Any, **options: Any) -> Model:
    """Loads a callable model from an engine file, or from an ONNX file (built now, with the options of build)."""
    logger = QuietLogger()
    runtime = Runtime(logger)
    name = os.fspath(path)
    engine = runtime.deserialize_cuda_engine(build(name, **options)) if name.endswith(".onnx") else runtime._load(name)
    if engine is None:
        raise CarnotError(lib.CARNOT_INVALID_MODEL, "\n".join(logger.errors))
    return Model(engine)
