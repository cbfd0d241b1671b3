"""Short forms beside TensorRT's interface: build an ONNX file, load it, call it with arrays.

carnot.load("model.onnx")(x=array)
"""

from __future__ import annotations

import mmap
import os
import subprocess
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._carnot import ffi, lib
from .command import find_program
from .core import CarnotError, ILogger, Logger, check, utf8
from .engine.arrays import Profile, engine_html, record_timeline, run_arrays
from .engine.builder import Builder
from .engine.calibration import SampleCalibrator
from .engine.context import IExecutionContext, new_executor
from .engine.engine import ICudaEngine
from .engine.pool import ContextPool, default_limit
from .engine.runtime import Runtime
from .engine.timing_cache import ITimingCache
from .enums import BuilderFlag, Severity
from .parser import OnnxParser, ParserError
from .types import Dims, IHostMemory

Bytes = (bytes, bytearray, memoryview, IHostMemory)


class QuietLogger(Logger):
    """Collects error messages for the exception that follows."""

    def __init__(self) -> None:
        super().__init__(Severity.ERROR)
        self.errors: List[str] = []

    def log(self, severity: Severity, msg: str) -> None:
        if severity.value <= Severity.ERROR.value:
            self.errors.append(msg)


def build(
    model: Union[str, os.PathLike, bytes, bytearray, memoryview, IHostMemory],
    *,
    shapes: Optional[Mapping[str, Union[Sequence[int], Sequence[Sequence[int]]]]] = None,
    fp16: bool = False,
    bf16: bool = False,
    int8: Optional[Iterable[Mapping[str, Any]]] = None,
    flags: Iterable[Union[str, BuilderFlag]] = (),
    level: int = 3,
    timing_cache: Optional[ITimingCache] = None,
    logger: Optional[ILogger] = None,
    backend: Optional[str] = None,
    weights: Optional[Union[str, os.PathLike]] = None,
    outputs: Sequence[str] = (),
) -> IHostMemory:
    """Builds an engine from a model file, or from the bytes of an ONNX model, and returns the serialized engine.

    Files of ONNX, TensorFlow (a GraphDef, or a SavedModel and its folder) and Caffe (a prototxt, with its caffemodel
    as |weights|) are recognised by their content. |outputs|: names of outputs, of TensorFlow and Caffe models.

    |shapes| maps inputs with dynamic dimensions to a shape or to (min, opt, max). |fp16|, |bf16|: these types are
    allowed and used where they are faster. |int8|: samples, each a mapping from input names to arrays, on which the
    network is calibrated for 8-bit types. |flags|: further builder flags by name. |level|: optimization level, 0 to
    5. |backend|: "cpu", "cuda", "cuda:1"; None selects a GPU if one is usable, else the CPU (CARNOT_DEVICE overrides
    it). Raises CarnotError.
    """
    if level not in range(6):
        raise ValueError(f"level must be 0 to 5, got {level}")
    logger = logger or QuietLogger()
    builder = Builder(logger)
    network = builder.create_network(0)
    if not _read_other(network, model, weights, outputs):
        _read_onnx(network, model, logger)
    config = builder.create_builder_config()
    config.builder_optimization_level = level
    config.backend = backend
    for flag in (*flags, *(["FP16"] if fp16 else []), *(["BF16"] if bf16 else [])):
        config.set_flag(_flag(flag))
    if timing_cache is not None:
        config.set_timing_cache(timing_cache, False)
    if shapes:
        profile = builder.create_optimization_profile()
        for name, shape in shapes.items():
            profile.set_shape(name, *(shape if isinstance(shape[0], (tuple, list)) else (shape,) * 3))
        config.add_optimization_profile(profile)
    if int8 is not None:
        config.set_flag(BuilderFlag.INT8)
        config.int8_calibrator = SampleCalibrator(int8)
    return builder._build(network, config)


def _read_onnx(network: Any, model: Any, logger: ILogger) -> None:
    parser = OnnxParser(network, logger)
    is_path = isinstance(model, (str, os.PathLike))
    if not (parser.parse_from_file(os.fspath(model)) if is_path else parser.parse(bytes(model))):
        raise CarnotError(
            lib.CARNOT_INVALID_MODEL, "\n".join(_describe(parser.get_error(i)) for i in range(parser.num_errors))
        )


def _read_other(network: Any, model: Any, weights: Any, outputs: Sequence[str]) -> bool:
    """Reads a file of TensorFlow or Caffe; False for what is neither."""
    names = [ffi.new("char[]", utf8(name)) for name in outputs]
    listed = ffi.new("const char*[]", names) if names else ffi.NULL
    kind = _kind(model)
    if kind == "caffe":
        options = ffi.new("carnot_caffe_options*", {"outputs": listed, "output_count": len(names), "seed": 1})
        given = ffi.NULL if weights is None else utf8(os.fspath(weights))
        call = lib.carnot_network_add_caffe_files(network._c, utf8(os.fspath(model)), given, options)
    elif weights is not None:
        raise ValueError("weights are those of a Caffe network, and the model is none")
    elif kind == "tensorflow":
        options = ffi.new("carnot_tensorflow_options*", {"outputs": listed, "output_count": len(names)})
        call = lib.carnot_network_add_tensorflow(network._c, utf8(os.fspath(model)), options)
    elif names:
        raise ValueError("outputs are chosen of TensorFlow and Caffe models, and the model is neither")
    else:
        return False
    check(call)
    network._take_parsed(ffi.NULL, 0)
    return True


def _kind(model: Any) -> str:
    if not isinstance(model, (str, os.PathLike)):
        return "onnx"
    if os.path.isdir(model):
        return "tensorflow"
    if os.path.basename(model) in ("saved_model.pb", "saved_model.pbtxt"):
        return "tensorflow"
    try:
        with open(model, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return "onnx"  # whose reader says what is wrong
    with data, memoryview(data) as view, ffi.from_buffer(view) as start:
        if lib.carnot_caffe_is_network(start, len(view)):
            return "caffe"
        return "tensorflow" if lib.carnot_tensorflow_is_graph(start, len(view)) else "onnx"


def _describe(error: ParserError) -> str:
    """The message of a parser error with its node."""
    is_named = error.node_name() and f"node {error.node_name()} " not in error.desc()
    return f"node {error.node_name()} ({error.node_operator()}): {error.desc()}" if is_named else error.desc()


def _flag(flag: Union[str, BuilderFlag]) -> BuilderFlag:
    if isinstance(flag, str) and flag not in BuilderFlag.__members__:
        raise ValueError(f"unknown builder flag {flag}; there are {', '.join(BuilderFlag.__members__)}")
    return BuilderFlag[flag] if isinstance(flag, str) else flag


class Model:
    """A callable engine. Any number of threads may call it at the same time, as ONNX Runtime's session.run.

    Each call that runs gets a context of its own from a pool. |contexts| bounds their number, and with it the memory
    of intermediate tensors; further calls wait. None: one for each CPU, and one for an engine of a GPU. All contexts
    share the engine's weights. |threads|: how many a run is spread over, the caller included; None: the threads that
    all models share (CARNOT_THREADS).

    close(), or the end of a with-statement, frees the contexts and the engine without waiting for the collector.
    """

    def __init__(self, engine: ICudaEngine, threads: Optional[int] = None, contexts: Optional[int] = None) -> None:
        if not isinstance(engine, ICudaEngine):
            raise TypeError(f"Model takes an ICudaEngine, not {type(engine).__name__}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        executor = None if threads is None else new_executor(threads)
        limit = contexts if contexts is not None else 1 if engine._on_device else default_limit()
        self._engine: Optional[ICudaEngine] = engine
        self._pool = ContextPool(lambda: IExecutionContext(engine, host_tensors=True, executor=executor), limit)
        with self._pool.use():  # what a context refuses is an error of the load, not of the first call
            pass

    @property
    def engine(self) -> ICudaEngine:
        if self._engine is None:
            raise RuntimeError("the model is closed")
        return self._engine

    @property
    def inputs(self) -> Dict[str, Dims]:
        """The shapes of the inputs by name, -1 where dynamic."""
        return {t.name: t.dims for t in self.engine._tensors.values() if t.is_input}

    @property
    def outputs(self) -> Dict[str, Dims]:
        """The shapes of the outputs by name, -1 where dynamic."""
        return {t.name: t.dims for t in self.engine._tensors.values() if not t.is_input}

    def __call__(self, *arrays: Any, **named: Any) -> Dict[str, Any]:
        """Runs the model on arrays of NumPy, torch (host memory) or DLPack; returns NumPy arrays by output name.

        Inputs are given by position or by name; all are needed. TypeError names what is missing, surplus or of another
        type; CarnotError names a dimension that the model does not take. Thread-safe.
        """
        inputs = self._by_name(arrays, named)
        with self._pool.use() as context:
            return run_arrays(context, inputs)

    def _by_name(self, arrays: Tuple[Any, ...], named: Dict[str, Any]) -> Dict[str, Any]:
        names = list(self.inputs)
        if len(arrays) > len(names):
            raise TypeError(f"{len(arrays)} inputs given, the model takes {len(names)}: {', '.join(names)}")
        twice = [name for name in names[: len(arrays)] if name in named]
        if twice:
            raise TypeError(f"input {twice[0]} is given by position and by name")
        return {**dict(zip(names, arrays)), **named}

    def close(self) -> None:
        """Frees the contexts and gives the engine back; calls in progress end first. Later calls raise RuntimeError."""
        self._pool.close()
        self._engine = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._engine is None:
            return "<carnot.Model, closed>"
        show = ", ".join(f"{name}{shape}" for name, shape in self.inputs.items())
        return f"<carnot.Model {self.engine.name!r}: {show} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        return engine_html(self.engine)

    def profile(self, *arrays: Any, runs: int = 10, **named: Any) -> Profile:
        """Times each layer over |runs| runs with these inputs, or with zeros of the optimum shapes."""
        inputs = self._by_name(arrays, named)
        return self.engine.profile(inputs or None, runs)

    def export_timeline(self, path: Union[str, os.PathLike], *arrays: Any, runs: int = 4, **named: Any) -> None:
        """Writes the timeline of the last of |runs| runs to |path|: JSON in Chrome's trace format, which Perfetto
        (ui.perfetto.dev), chrome://tracing and `carnot report --profile` read. Inputs as for profile()."""
        inputs = self._by_name(arrays, named)
        with self._pool.use() as context:
            text = record_timeline(context, inputs or None, runs)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def report(
    engine: Union[str, os.PathLike],
    output: Union[str, os.PathLike] = "report.html",
    *,
    profile: Optional[Union[str, os.PathLike]] = None,
    compare: Optional[Union[str, os.PathLike]] = None,
    measure: bool = True,
) -> str:
    """Writes an HTML page about the engine or ONNX file |engine| and returns its path, as `carnot report` does.

    |profile|: a file with layer times. |compare|: another engine to show beside. |measure| False runs nothing.
    Raises RuntimeError with the message of the command, FileNotFoundError where the command is not installed.
    """
    command = [find_program(), "report", os.fspath(engine), f"--output={os.fspath(output)}"]
    command += [f"--profile={os.fspath(profile)}"] if profile is not None else []
    command += [f"--compare={os.fspath(compare)}"] if compare is not None else []
    command += [] if measure else ["--noMeasure"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return os.fspath(output)


def _head(model: Any) -> bytes:
    """The first bytes of a file or of bytes."""
    if isinstance(model, Bytes):
        return bytes(memoryview(model).cast("B")[:64])
    try:
        with open(model, "rb") as file:
            return file.read(64)
    except OSError as error:
        raise CarnotError(lib.CARNOT_IO, f"{os.fspath(model)}: {error.strerror}") from error


def load(
    model: Union[str, os.PathLike, bytes, bytearray, memoryview, IHostMemory],
    *,
    threads: Optional[int] = None,
    contexts: Optional[int] = None,
    shapes: Optional[Mapping[str, Union[Sequence[int], Sequence[Sequence[int]]]]] = None,
    fp16: bool = False,
    bf16: bool = False,
    flags: Iterable[Union[str, BuilderFlag]] = (),
    level: int = 3,
    timing_cache: Optional[ITimingCache] = None,
    logger: Optional[ILogger] = None,
    backend: Optional[str] = None,
    weights: Optional[Union[str, os.PathLike]] = None,
    outputs: Sequence[str] = (),
) -> Model:
    """Loads a callable model from an engine or a model: a path, or the bytes of an engine or an ONNX model.

    A model is built now; from |shapes| on the options are those of build. |threads| and |contexts|: see Model.
    Raises CarnotError, and TypeError for options of build with an engine, which is built already.
    """
    given = {
        "shapes": shapes, "fp16": fp16, "bf16": bf16, "flags": flags, "level": level,
        "timing_cache": timing_cache, "logger": logger, "backend": backend, "weights": weights, "outputs": outputs,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value != build.__kwdefaults__[name]}
    if not isinstance(model, (str, os.PathLike, *Bytes)):
        raise TypeError(f"load takes a path or bytes, not {type(model).__name__}")
    is_path = isinstance(model, (str, os.PathLike))
    if is_path and _kind(model) != "onnx":
        return Model(Runtime(QuietLogger())._deserialize(build(model, **options)), threads, contexts)
    head = _head(model)
    runtime = Runtime(QuietLogger())
    is_onnx = os.fspath(model).endswith(".onnx") if is_path else head[:4] not in (b"ftrt", b"ptrt")
    if is_onnx and not lib.carnot_engine_is_file(head, len(head)):
        return Model(runtime._deserialize(build(model, **options)), threads, contexts)
    if options:
        raise TypeError(f"{', '.join(options)}: an option of build, which an engine does not take")
    if not is_path:
        return Model(runtime._deserialize(model), threads, contexts)
    made = ffi.new("carnot_engine**")
    check(lib.carnot_engine_load_file(os.fsencode(model), made))
    return Model(ICudaEngine(made[0], runtime), threads, contexts)
