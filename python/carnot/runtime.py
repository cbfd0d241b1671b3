"""Runtime, engines, contexts, the inspector."""
from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Optional

from ._carnot import ffi, lib
from .core import Calls, CarnotError, ILogger, Manual, Reporter, check, reported, text, thread_count, to_c_dims, utf8
from .enums import (DataType, EngineCapability, EngineStat, ExecutionContextAllocationStrategy,
                    HardwareCompatibilityLevel, LayerInformationFormat, ProfilingVerbosity, SeekPosition,
                    SerializationFlag, TempfileControlFlag, TensorFormat, TensorIOMode, TensorLocation)
from .interfaces import IDebugListener, IOutputAllocator, IProfiler, IStreamReader, IStreamReaderV2
from .network import DEBUG_PREFIX
from .types import Dims, IHostMemory, _itemsize, from_c_dtype

_ANY_SIZE = (1 << 63) - 1
_UNBOUNDED = 1 << 31  # dimensions without a bound are shown as this
_executor: Any = None


def _shared_executor() -> Any:
    """The threads of all contexts of this process."""
    global _executor
    if _executor is None:
        made = ffi.new("carnot_executor**")
        check(lib.carnot_executor_create(thread_count(), made))
        _executor = made[0]
    return _executor


def _read_all(reader: Any) -> bytes:
    """All bytes of a stream reader."""
    parts = []
    if isinstance(reader, IStreamReaderV2):
        reader.seek(0, SeekPosition.SET)
    while True:
        part = reader.read(1 << 20, 0) if isinstance(reader, IStreamReaderV2) else reader.read(1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(bytes(part))


def _is_foreign(data: Any) -> bool:
    """A plan of TensorRT, also behind the JSON that some exporters put before it."""
    head = bytes(memoryview(data).cast("B")[:4])
    if head in (b"ftrt", b"ptrt"):
        return True
    size = int.from_bytes(head, "little")
    rest = bytes(memoryview(data).cast("B")[4:4 + size + 4]) if 2 <= size < 1 << 20 else b""
    return rest[:1] == b"{" and rest[-4:] in (b"ftrt", b"ptrt")


class Runtime(Reporter, Manual):
    """Makes engines of their files."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Runtime takes an ILogger, not {type(logger).__name__}")
        self._logger = logger
        self.DLA_core = -1
        self.engine_host_code_allowed = False
        self.gpu_allocator = None
        self.max_threads = thread_count()
        self.temporary_directory = ""
        self.tempfile_control_flags = (1 << TempfileControlFlag.ALLOW_IN_MEMORY_FILES.value |
                                       1 << TempfileControlFlag.ALLOW_TEMPORARY_FILES.value)

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: 0)

    @reported(None)
    def deserialize_cuda_engine(self, serialized_engine: Any) -> Optional["ICudaEngine"]:
        data = serialized_engine
        if isinstance(data, (IStreamReader, IStreamReaderV2)):
            data = _read_all(data)
        size = memoryview(data).nbytes
        if _is_foreign(data):
            raise CarnotError(lib.CARNOT_UNSUPPORTED, "this is a TensorRT engine; rebuild from ONNX")
        made = ffi.new("carnot_engine**")
        check(lib.carnot_engine_load_memory(ffi.from_buffer(data), size, ffi.NULL, ffi.NULL, made))
        return ICudaEngine(made[0], self)

    @reported(None)
    def _load(self, path: str) -> Optional["ICudaEngine"]:
        made = ffi.new("carnot_engine**")
        check(lib.carnot_engine_load_file(utf8(path), made))
        return ICudaEngine(made[0], self)

    def get_plugin_registry(self) -> Any:
        from . import get_plugin_registry

        return get_plugin_registry()

    def load_runtime(self, path: str) -> "Runtime":
        self._warn(f"load_runtime: {path} is not loaded; this runtime reads engines of all versions it knows")
        return self


class ISerializationConfig:
    """What serialize_with_config leaves out."""

    def __init__(self) -> None:
        self.flags = 0

    def set_flag(self, flag: SerializationFlag) -> bool:
        self.flags |= 1 << SerializationFlag(flag).value
        return True

    def clear_flag(self, flag: SerializationFlag) -> bool:
        self.flags &= ~(1 << SerializationFlag(flag).value)
        return True

    def get_flag(self, flag: SerializationFlag) -> bool:
        return bool(self.flags >> SerializationFlag(flag).value & 1)


class IRuntimeConfig:
    """How a context is made."""

    def __init__(self) -> None:
        self._strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(
            self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC) -> None:
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self) -> ExecutionContextAllocationStrategy:
        return self._strategy


class _Tensor:
    """What an engine says of an input or output."""

    def __init__(self, info: Any) -> None:
        self.name = text(info.name)
        self.is_input, self.is_shape = bool(info.is_input), bool(info.is_shape)
        self.dtype = from_c_dtype(info.dtype)
        self.dims = Dims._of_c(info.dims)
        self.c_name = utf8(self.name)


class ICudaEngine(Reporter, Manual):
    """An engine: immutable but for refit, shared by contexts in any threads."""

    def __init__(self, engine: Any, runtime: Runtime) -> None:
        self._c = ffi.gc(engine, lib.carnot_engine_release)
        self._runtime = runtime
        self._logger = runtime._logger
        self._recorder = runtime._recorder
        tensors = []
        for i in range(lib.carnot_engine_tensor_count(engine)):
            info = ffi.new("carnot_tensor_info*")
            check(lib.carnot_engine_tensor_info(engine, i, info))
            tensors.append(_Tensor(info))
        self._debug = {t.name[len(DEBUG_PREFIX):]: t for t in tensors if t.name.startswith(DEBUG_PREFIX)}
        self._tensors = {t.name: t for t in tensors if not t.name.startswith(DEBUG_PREFIX)}
        self._names = list(self._tensors)
        self._inspected: Optional[dict] = None
        self.weight_streaming_budget = 0
        self.weight_streaming_budget_v2 = 0

    def _find(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise CarnotError(lib.CARNOT_NOT_FOUND, f"there is no tensor {name}; the engine has {', '.join(self._names)}")
        return self._tensors[name]

    def _info(self) -> dict:
        if self._inspected is None:
            found = text(lib.carnot_engine_inspect(self._c))
            self._inspected = json.loads(found) if found else {"Layers": [], "Bindings": self._names}
            self._inspected["Bindings"] = self._names
        return self._inspected

    # ---- what it is ----

    name = property(lambda self: text(lib.carnot_engine_name(self._c)))
    num_io_tensors = property(lambda self: len(self._names))
    num_layers = property(lambda self: len(self._info()["Layers"]) * self.num_optimization_profiles)
    num_optimization_profiles = property(lambda self: max(1, lib.carnot_engine_profile_count(self._c)))
    refittable = property(lambda self: bool(lib.carnot_engine_is_refittable(self._c)))
    device_memory_size = property(lambda self: lib.carnot_engine_memory_bytes(self._c))
    device_memory_size_v2 = device_memory_size
    engine_capability = property(lambda self: EngineCapability.STANDARD)
    hardware_compatibility_level = property(lambda self: HardwareCompatibilityLevel.NONE)
    has_implicit_batch_dimension = property(lambda self: False)
    max_batch_size = property(lambda self: 1)
    num_aux_streams = property(lambda self: 0)
    profiling_verbosity = property(lambda self: ProfilingVerbosity.DETAILED)
    tactic_sources = property(lambda self: 0)
    streamable_weights_size = property(lambda self: 0)
    minimum_weight_streaming_budget = property(lambda self: 0)
    weight_streaming_scratch_memory_size = property(lambda self: 0)

    def get_weight_streaming_automatic_budget(self) -> int:
        return 0

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        return self.device_memory_size

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return self.device_memory_size

    def get_engine_stat(self, stat: EngineStat = EngineStat.TOTAL_WEIGHTS_SIZE) -> int:
        whole = len(self.serialize())
        if not self.refittable:
            return whole if stat == EngineStat.TOTAL_WEIGHTS_SIZE else 0
        return whole - len(self._serialize(strip=True)) if stat == EngineStat.STRIPPED_WEIGHTS_SIZE else whole

    # ---- tensors by name ----

    @reported("")
    def get_tensor_name(self, index: int) -> str:
        if not 0 <= index < len(self._names):
            raise CarnotError(lib.CARNOT_OUT_OF_RANGE, f"tensor {index} of {len(self._names)}")
        return self._names[index]

    @reported(TensorIOMode.NONE)
    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self._find(name).is_input else TensorIOMode.OUTPUT

    @reported(DataType.FLOAT)
    def get_tensor_dtype(self, name: str) -> Any:
        return self._find(name).dtype

    @reported(None)
    def get_tensor_shape(self, name: str) -> Optional[Dims]:
        return Dims(self._find(name).dims) if self._find(name).dims._d is not None else self._find(name).dims

    @reported(TensorLocation.DEVICE)
    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if self._find(name).is_shape else TensorLocation.DEVICE

    @reported(False)
    def is_shape_inference_io(self, name: str) -> bool:
        return self._find(name).is_shape

    def is_debug_tensor(self, name: str) -> bool:
        return name in self._debug

    def get_aliased_input_tensor(self, name: str) -> Optional[str]:
        return None

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        return TensorFormat.LINEAR

    @reported("")
    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return f"Row-major linear {self._find(name).dtype.name} format (kLINEAR)"

    @reported(-1)
    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return _itemsize(self._find(name).dtype)

    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return 1

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    @reported([])
    def get_tensor_profile_shape(self, name: str, profile_index: int) -> List[Dims]:
        tensor = self._find(name)
        if not tensor.is_input:
            raise CarnotError(lib.CARNOT_INVALID_ARGUMENT, f"{name} is an output; profiles speak of inputs")
        if not lib.carnot_engine_profile_count(self._c):
            return [Dims([fixed if d < 0 else d for d in tensor.dims]) for fixed in (1, 1, _UNBOUNDED)]
        shapes = [ffi.new("carnot_dims*") for _ in range(3)]
        check(lib.carnot_engine_profile_shapes(self._c, profile_index, tensor.c_name, *shapes))
        return [Dims([min(d, _UNBOUNDED) for d in Dims._of_c(shape)]) for shape in shapes]

    @reported([])
    def get_tensor_profile_values(self, profile_index: int, name: str) -> List[List[int]]:
        self._find(name)
        return []

    # ---- bindings by index, the way of 8.6: those of further profiles follow ----

    num_bindings = property(lambda self: len(self._names) * self.num_optimization_profiles)

    def __len__(self) -> int:
        return self.num_bindings

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter([self.get_binding_name(i) for i in range(self.num_bindings)])

    def __getitem__(self, key: Any) -> Any:
        return self.get_binding_index(key) if isinstance(key, str) else self.get_binding_name(key)

    def _binding(self, index: Any) -> str:
        """The tensor of a binding, given by index or name."""
        if isinstance(index, str):
            index = self.get_binding_index(index)
        if not 0 <= index < self.num_bindings:
            raise IndexError(f"binding {index} of {self.num_bindings}")
        return self._names[index % len(self._names)]

    def get_binding_name(self, index: int) -> str:
        name, profile = self._binding(index), index // len(self._names)
        return f"{name} [profile {profile}]" if profile else name

    def get_binding_index(self, name: str) -> int:
        for i in range(self.num_bindings):
            if self.get_binding_name(i) == name:
                return i
        return -1

    def binding_is_input(self, index: Any) -> bool:
        return self._tensors[self._binding(index)].is_input

    def get_binding_shape(self, index: Any) -> Dims:
        return self.get_tensor_shape(self._binding(index))

    def get_binding_dtype(self, index: Any) -> Any:
        return self.get_tensor_dtype(self._binding(index))

    def get_binding_format(self, index: int) -> TensorFormat:
        return TensorFormat.LINEAR

    def get_binding_format_desc(self, index: int) -> str:
        return self.get_tensor_format_desc(self._binding(index))

    def get_binding_bytes_per_component(self, index: int) -> int:
        return self.get_tensor_bytes_per_component(self._binding(index))

    def get_binding_components_per_element(self, index: int) -> int:
        return 1

    def get_binding_vectorized_dim(self, index: int) -> int:
        return -1

    def get_location(self, index: Any) -> TensorLocation:
        return self.get_tensor_location(self._binding(index))

    def get_profile_shape(self, profile_index: int, binding: Any) -> List[Dims]:
        return self.get_tensor_profile_shape(self._binding(binding), profile_index)

    def get_profile_shape_input(self, profile_index: int, binding: Any) -> List[List[int]]:
        return self.get_tensor_profile_values(profile_index, self._binding(binding))

    def is_execution_binding(self, binding: Any) -> bool:
        return not self._tensors[self._binding(binding)].is_shape

    def is_shape_binding(self, binding: Any) -> bool:
        return self._tensors[self._binding(binding)].is_shape

    # ---- what it gives ----

    @reported(None)
    def create_execution_context(self, strategy: Any = ExecutionContextAllocationStrategy.STATIC) -> Any:
        return IExecutionContext(self)

    def create_execution_context_without_device_memory(self) -> Any:
        return self.create_execution_context(ExecutionContextAllocationStrategy.USER_MANAGED)

    def create_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()

    def create_engine_inspector(self) -> "EngineInspector":
        return EngineInspector(self)

    def create_serialization_config(self) -> ISerializationConfig:
        return ISerializationConfig()

    def _serialize(self, strip: bool) -> IHostMemory:
        data, size = ffi.new("void**"), ffi.new("size_t*")
        check(lib.carnot_engine_serialize(self._c, strip, data, size))
        return IHostMemory._of_c(data[0], size[0])

    @reported(None)
    def serialize(self) -> IHostMemory:
        return self._serialize(strip=False)

    @reported(None)
    def serialize_with_config(self, config: ISerializationConfig) -> IHostMemory:
        return self._serialize(strip=config.get_flag(SerializationFlag.EXCLUDE_WEIGHTS))

    # ---- for those who come from elsewhere ----

    def profile(self, inputs: Optional[Dict[str, Any]] = None, runs: int = 10) -> Any:
        from .easy import profile

        return profile(self, inputs, runs)

    def _repr_html_(self) -> str:
        from .easy import engine_html

        return engine_html(self)


class EngineInspector(Reporter):
    """Says what the layers of an engine are."""

    def __init__(self, engine: ICudaEngine) -> None:
        self._engine = engine
        self._logger = engine._logger
        self.execution_context = None

    def get_layer_information(self, layer_index: int, format: LayerInformationFormat) -> str:  # noqa: A002
        layers = self._engine._info()["Layers"]
        if not 0 <= layer_index < self._engine.num_layers:
            self._fail(f"layer {layer_index} of {self._engine.num_layers}")
            return ""
        layer = layers[layer_index % len(layers)]
        return json.dumps(layer) if format == LayerInformationFormat.JSON else layer["Name"]

    def get_engine_information(self, format: LayerInformationFormat) -> str:  # noqa: A002
        info = self._engine._info()
        if format == LayerInformationFormat.JSON:
            return json.dumps(info)
        return "\n".join(["Layers:"] + [layer["Name"] for layer in info["Layers"]] + ["", "Bindings:"] + info["Bindings"])


class IExecutionContext(Reporter, Manual):
    """One execution of an engine at a time. On a CPU every call returns when its work is done."""

    def __init__(self, engine: ICudaEngine) -> None:
        config = ffi.new("carnot_context_config*", {"executor": _shared_executor()})
        made = ffi.new("carnot_context**")
        check(lib.carnot_context_create(engine._c, config, made))
        self._c = ffi.gc(made[0], lib.carnot_context_destroy)
        self._engine = engine
        self._logger, self._recorder = engine._logger, engine._recorder
        self._calls = Calls()
        self._calls.context = self
        self._profile = 0
        self._shapes: Dict[str, Dims] = {t.name: t.dims for t in self._inputs() if t.dims._d is not None and -1 not in t.dims}
        self._addresses: Dict[str, int] = {}
        self._waiting: set = set()  # inputs whose address C does not have yet
        self._values: Dict[str, Any] = {}  # of shape inputs, the way of 8.6
        self._allocators: Dict[str, IOutputAllocator] = {}
        self._profiler: Optional[IProfiler] = None
        self._times: List[tuple] = []
        self._listener: Optional[IDebugListener] = None
        self._debug_on: set = set()
        self._consumed = 0
        self.name = ""
        self.debug_sync = False
        self.device_memory = 0
        self.enqueue_emits_profile = True
        self.nvtx_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.persistent_cache_limit = 0
        self.temporary_allocator = None
        self.unfused_tensors_debug_state = False

    engine = property(lambda self: self._engine)

    def _inputs(self) -> List[_Tensor]:
        return [t for t in self._engine._tensors.values() if t.is_input]

    # ---- profiles ----

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    @active_optimization_profile.setter
    def active_optimization_profile(self, index: int) -> None:
        if not self._set_profile(index):
            raise RuntimeError(f"profile {index} of {self._engine.num_optimization_profiles}")

    @reported(False)
    def _set_profile(self, index: int) -> bool:
        check(lib.carnot_context_set_profile(self._c, index))
        self._profile = index
        self._shapes = {t.name: t.dims for t in self._inputs() if t.dims._d is not None and -1 not in t.dims}
        self._waiting = {t.name for t in self._inputs() if t.name in self._addresses}
        return True

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int = 0) -> bool:
        if not self._set_profile(profile_index):
            raise RuntimeError(f"profile {profile_index} of {self._engine.num_optimization_profiles}")
        return True

    # ---- shapes and addresses ----

    @reported(False)
    def set_input_shape(self, name: str, shape: Any) -> bool:
        tensor = self._engine._find(name)
        check(lib.carnot_context_set_input_shape(self._c, tensor.c_name, to_c_dims(shape)))
        self._shapes[name] = Dims(tuple(shape))
        if name in self._addresses:
            self._waiting.add(name)
        return True

    @reported(None)
    def get_tensor_shape(self, name: str) -> Optional[Dims]:
        tensor = self._engine._find(name)
        if tensor.is_input:
            return Dims(self._shapes.get(name, tensor.dims))
        if self.all_binding_shapes_specified:
            try:
                self._give_addresses(outputs=False)
                check(lib.carnot_context_infer_shapes(self._c))
            except CarnotError:  # shapes that the run finds out, or shape values not given yet
                pass
        dims = ffi.new("carnot_dims*")
        check(lib.carnot_context_tensor_dims(self._c, tensor.c_name, dims))
        return Dims._of_c(dims)

    @reported(None)
    def get_tensor_strides(self, name: str) -> Optional[Dims]:
        shape = self.get_tensor_shape(name)
        strides, step = [], 1
        for d in reversed(list(shape)):
            strides.append(step)
            step = step * d if step >= 0 and d >= 0 else -1
        return Dims(strides[::-1])

    @reported(False)
    def set_tensor_address(self, name: str, memory: int) -> bool:
        tensor = self._engine._find(name)
        self._addresses[name] = int(memory or 0)
        if tensor.is_input:
            self._waiting.add(name)
            return True
        check(lib.carnot_context_set_tensor_address(self._c, tensor.c_name, ffi.cast("void*", int(memory or 0)),
                                                    _ANY_SIZE if memory else 0))
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def _give_addresses(self, outputs: bool = True) -> None:
        """Tells C the addresses of inputs, for which it wants the shapes first."""
        for name in list(self._waiting):
            tensor = self._engine._tensors[name]
            if name not in self._shapes:
                continue
            check(lib.carnot_context_set_input(self._c, tensor.c_name, to_c_dims(self._shapes[name]),
                                               ffi.cast("void*", self._addresses[name])))
            self._waiting.discard(name)
        for tensor in self._inputs():
            if outputs and not self._addresses.get(tensor.name) and 0 not in self._shapes.get(tensor.name, (0,)):
                raise CarnotError(lib.CARNOT_FAILED_PRECONDITION,
                                  f"input {tensor.name} has no address: call set_tensor_address first")

    @property
    def all_binding_shapes_specified(self) -> bool:
        return all(t.name in self._shapes for t in self._inputs())

    @property
    def all_shape_inputs_specified(self) -> bool:
        return all(t.name in self._addresses for t in self._inputs() if t.is_shape)

    def infer_shapes(self) -> List[str]:
        missing = [t.name for t in self._inputs()
                   if t.name not in self._shapes or (t.is_shape and not self._addresses.get(t.name))]
        if missing:
            return missing
        try:
            self._give_addresses(outputs=False)
            check(lib.carnot_context_infer_shapes(self._c))
        except CarnotError as error:
            self._fail(error, "infer_shapes")
            return [t.name for t in self._inputs() if not t.is_shape]
        return []

    @reported(-1)
    def get_max_output_size(self, name: str) -> int:
        """Bytes that output |name| takes at the shapes set; -1 where only a run can tell."""
        shape = self.get_tensor_shape(name)
        if shape is None or shape._d is None or -1 in shape:
            return -1
        from .types import to_c_dtype, volume

        return lib.carnot_dtype_bytes(to_c_dtype(self._engine._find(name).dtype), volume(shape))

    def update_device_memory_size_for_shapes(self) -> int:
        return self._engine.device_memory_size

    def set_device_memory(self, memory: int, size: int) -> None:
        self.device_memory = memory

    # ---- 8.6: bindings by index ----

    def _name(self, binding: Any) -> str:
        return self._engine._binding(binding)

    def set_binding_shape(self, binding: Any, shape: Any) -> bool:
        return self.set_input_shape(self._name(binding), shape)

    def get_binding_shape(self, binding: Any) -> Dims:
        return self.get_tensor_shape(self._name(binding))

    def get_strides(self, binding: Any) -> Dims:
        return self.get_tensor_strides(self._name(binding))

    def set_shape_input(self, binding: Any, shape: Any) -> bool:
        import numpy as np

        from .types import nptype

        name = self._name(binding)
        self._values[name] = np.ascontiguousarray(shape, nptype(self._engine._tensors[name].dtype))
        return self.set_tensor_address(name, self._values[name].ctypes.data)

    def get_shape(self, binding: Any) -> List[int]:
        return [int(v) for v in self._values.get(self._name(binding), [])]

    # ---- outputs whose size a run finds out ----

    @reported(False)
    def set_output_allocator(self, name: str, output_allocator: Optional[IOutputAllocator]) -> bool:
        tensor = self._engine._find(name)
        if output_allocator is None:
            self._allocators.pop(name, None)
            check(lib.carnot_context_set_output_allocator(self._c, tensor.c_name, ffi.NULL, ffi.NULL, ffi.NULL))
            return True
        if not isinstance(output_allocator, IOutputAllocator):
            raise TypeError(f"set_output_allocator takes an IOutputAllocator, not {type(output_allocator).__name__}")
        self._allocators[name] = output_allocator
        check(lib.carnot_context_set_output_allocator(self._c, tensor.c_name, lib.carnot_py_allocate,
                                                      lib.carnot_py_notify, self._calls.handle))
        return True

    def get_output_allocator(self, name: str) -> Optional[IOutputAllocator]:
        return self._allocators.get(name)

    # ---- profiling and debugging ----

    @property
    def profiler(self) -> Optional[IProfiler]:
        return self._profiler

    @profiler.setter
    def profiler(self, profiler: Optional[IProfiler]) -> None:
        if profiler is not None and not isinstance(profiler, IProfiler):
            raise TypeError(f"profiler must be an IProfiler, not {type(profiler).__name__}")
        self._profiler = profiler
        report = ffi.NULL if profiler is None else lib.carnot_py_profile
        check(lib.carnot_context_set_profiler(self._c, report, self._calls.handle))

    def report_to_profiler(self) -> bool:
        times, self._times = self._times, []
        if self._profiler is None:
            return False
        for name, ms in times:
            self._profiler.report_layer_time(name, ms)
        return True

    def set_debug_listener(self, listener: Optional[IDebugListener]) -> bool:
        self._listener = listener
        return True

    def get_debug_listener(self) -> Optional[IDebugListener]:
        return self._listener

    def set_tensor_debug_state(self, name: str, flag: bool) -> bool:
        if name not in self._engine._debug:
            return False
        (self._debug_on.add if flag else self._debug_on.discard)(name)
        return True

    def set_all_tensors_debug_state(self, flag: bool) -> bool:
        self._debug_on = set(self._engine._debug) if flag else set()
        return True

    def get_debug_state(self, name: str) -> bool:
        return name in self._debug_on

    def _tell_debug(self, stream: int) -> bool:
        for name in sorted(self._debug_on) if self._listener is not None else []:
            tensor, dims = self._engine._debug[name], ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(self._c, tensor.c_name, dims))
            data = lib.carnot_context_output_data(self._c, tensor.c_name)
            if self._listener.process_debug_tensor(int(ffi.cast("uintptr_t", data)), TensorLocation.HOST, tensor.dtype,
                                                   Dims._of_c(dims), name, stream) is False:
                return False
        return True

    # ---- running ----

    def _run(self, emits: bool, stream: int = 0) -> bool:
        try:
            self._give_addresses()
            self._times = []
            check(lib.carnot_context_run(self._c))
        except CarnotError as error:
            self._calls.raise_kept()
            self._fail(error, "execution failed")
            return False
        self._calls.raise_kept()
        if self._profiler is not None and emits:
            self.report_to_profiler()
        return self._tell_debug(stream)

    def _bind(self, bindings: Any) -> bool:
        bindings = [int(b) for b in bindings]
        names = self._engine._names
        first = self._profile * len(names) if len(bindings) == self._engine.num_bindings else 0
        if len(bindings) < first + len(names):
            self._fail(f"{len(bindings)} bindings, the engine has {self._engine.num_bindings}")
            return False
        return all(self.set_tensor_address(name, bindings[first + i]) for i, name in enumerate(names))

    def execute_v2(self, bindings: Any) -> bool:
        return self._bind(bindings) and self._run(emits=True)

    def execute_async_v2(self, bindings: Any, stream_handle: int, input_consumed: Any = None) -> bool:
        return self._bind(bindings) and self._run(self.enqueue_emits_profile, int(stream_handle))

    def execute(self, batch_size: int = 1, bindings: Any = ()) -> bool:
        return self.execute_v2(bindings)

    def execute_async(self, batch_size: int = 1, bindings: Any = (), stream_handle: int = 0,
                      input_consumed: Any = None) -> bool:
        return self.execute_async_v2(bindings, stream_handle)

    def execute_async_v3(self, stream_handle: int = 0) -> bool:
        return self._run(self.enqueue_emits_profile, int(stream_handle))

    # ---- what belongs to streams ----

    def set_input_consumed_event(self, event: int) -> bool:
        self._consumed = event
        return True

    def get_input_consumed_event(self) -> int:
        return self._consumed

    def set_aux_streams(self, aux_streams: List[int]) -> None:
        pass

    def set_communicator(self, communicator: Any) -> bool:
        self._fail("set_communicator: a CPU engine has no collectives")
        return False

    def get_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()


# ---- callbacks of a run ----


def _allocate(context: IExecutionContext, name: str, current: int, size: int) -> int:
    allocator = context._allocators[name]
    return allocator.reallocate_output_async(name, current, size, 64, 0) or 0


@ffi.def_extern()
def carnot_py_allocate(user: Any, name: Any, current: Any, size: int) -> Any:
    calls = ffi.from_handle(user)
    got = calls.guard(_allocate, calls.context, text(name), int(ffi.cast("uintptr_t", current)), size, failed=0)
    return ffi.cast("void*", got or 0)


@ffi.def_extern()
def carnot_py_notify(user: Any, name: Any, dims: Any) -> None:
    calls = ffi.from_handle(user)
    calls.guard(calls.context._allocators[text(name)].notify_shape, text(name), Dims._of_c(dims))


@ffi.def_extern()
def carnot_py_profile(user: Any, step: Any, time_ns: int) -> None:
    ffi.from_handle(user).context._times.append((text(step), time_ns / 1e6))


@ffi.def_extern()
def carnot_py_cancel(user: Any) -> bool:
    calls = ffi.from_handle(user)
    return calls.error is not None or bool(calls.guard(calls.context._cancel, failed=True))


