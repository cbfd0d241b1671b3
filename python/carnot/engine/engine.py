"""Engines and the inspector."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Optional

from .._carnot import ffi, lib
from ..core import CarnotError, Manual, Reporter, check, reported, text, to_c_dims, utf8
from ..enums import (
    DataType,
    EngineCapability,
    EngineStat,
    ExecutionContextAllocationStrategy,
    HardwareCompatibilityLevel,
    LayerInformationFormat,
    ProfilingVerbosity,
    SerializationFlag,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from ..network.tensor import DEBUG_PREFIX
from ..types import Dims, IHostMemory, _itemsize, from_c_dtype
from .arrays import engine_html, profile_layers
from .config import IRuntimeConfig
from .context import IExecutionContext

_UNBOUNDED = 1 << 31  # reported for dimensions without a bound


class ISerializationConfig:
    """What serialize_with_config omits."""

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


class _Tensor:
    """An input or output of an engine."""

    def __init__(self, info: Any) -> None:
        self.name = text(info.name)
        self.is_input, self.is_shape = bool(info.is_input), bool(info.is_shape)
        self.dtype = from_c_dtype(info.dtype)
        self.dims = Dims._of_c(info.dims)
        self.format = TensorFormat(info.format)
        self.c_dtype, self.c_format = info.dtype, info.format
        self.c_name = utf8(self.name)

    def layout(self, shape: Any) -> Any:
        """The carnot_tensor_layout of the tensor at |shape|."""
        made = ffi.new("carnot_tensor_layout*")
        check(lib.carnot_tensor_layout_of(self.c_format, self.c_dtype, to_c_dims(shape), made))
        return made

    def vectors(self) -> Any:
        """Dimension and length of the vectors that elements are in; (-1, 1) without vectors."""
        if self.format == TensorFormat.LINEAR:
            return -1, 1
        layout = self.layout([max(d, 1) for d in self.dims])
        return layout.vectorized_dim, layout.components


class ICudaEngine(Reporter, Manual):
    """An engine. Immutable except for refit; contexts in any threads share it."""

    def __init__(self, engine: Any, runtime: Any) -> None:
        self._c = ffi.gc(engine, lib.carnot_engine_release)
        self._on_device = text(lib.carnot_engine_device(engine)) not in ("", "cpu")
        self._runtime = runtime
        self._logger = runtime._logger
        self._recorder = runtime._recorder
        tensors = []
        for i in range(lib.carnot_engine_tensor_count(engine)):
            info = ffi.new("carnot_tensor_info*")
            check(lib.carnot_engine_tensor_info(engine, i, info))
            tensors.append(_Tensor(info))
        self._debug = {t.name[len(DEBUG_PREFIX) :]: t for t in tensors if t.name.startswith(DEBUG_PREFIX)}
        self._tensors = {t.name: t for t in tensors if not t.name.startswith(DEBUG_PREFIX)}
        self._names = list(self._tensors)
        self._inspected: Optional[dict] = None
        self.weight_streaming_budget = 0
        self.weight_streaming_budget_v2 = 0

    def _find(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise CarnotError(
                lib.CARNOT_NOT_FOUND, f"there is no tensor {name}; the engine has {', '.join(self._names)}"
            )
        return self._tensors[name]

    def _info(self) -> dict:
        if self._inspected is None:
            found = text(lib.carnot_engine_inspect(self._c))
            self._inspected = json.loads(found) if found else {"Layers": [], "Bindings": self._names}
            self._inspected["Bindings"] = self._names
        return self._inspected

    # ---- what it is ----

    name = property(lambda self: text(lib.carnot_engine_name(self._c)))
    device = property(lambda self: text(lib.carnot_engine_device(self._c)))  # "cpu", "cuda:sm_90"
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

    @reported(TensorFormat.LINEAR)
    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        return self._find(name).format

    @reported("")
    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        tensor = self._find(name)
        vectorized, count = tensor.vectors()
        if tensor.format == TensorFormat.LINEAR:
            return f"Row-major linear {tensor.dtype.name} format (kLINEAR)"
        channels_last = "HWC" in tensor.format.name
        if vectorized < 0:
            return f"Channel-last {tensor.dtype.name} format (k{tensor.format.name})"
        how = (
            "Channel-last {} format, C padded to {}"
            if channels_last
            else "Channel-vectorized row-major {} format, {} wide"
        )
        return f"{how.format(tensor.dtype.name, count)} (k{tensor.format.name})"

    @reported(-1)
    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return _itemsize(self._find(name).dtype)

    @reported(-1)
    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return self._find(name).vectors()[1]

    @reported(-1)
    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return self._find(name).vectors()[0]

    @reported([])
    def get_tensor_profile_shape(self, name: str, profile_index: int) -> List[Dims]:
        tensor = self._find(name)
        if not tensor.is_input:
            return self._output_shapes(name, profile_index)
        if not lib.carnot_engine_profile_count(self._c):
            return [Dims([fixed if d < 0 else d for d in tensor.dims]) for fixed in (1, 1, _UNBOUNDED)]
        shapes = [ffi.new("carnot_dims*") for _ in range(3)]
        check(lib.carnot_engine_profile_shapes(self._c, profile_index, tensor.c_name, *shapes))
        return [Dims([min(d, _UNBOUNDED) for d in Dims._of_c(shape)]) for shape in shapes]

    def _output_shapes(self, name: str, profile_index: int) -> List[Dims]:
        """Shapes of an output at the profile's input shapes; samples size their buffers by the last."""
        context, found = self.create_execution_context(), []
        context.set_optimization_profile_async(profile_index)
        for end in range(3):
            for tensor in context._inputs():
                context.set_input_shape(tensor.name, self.get_tensor_profile_shape(tensor.name, profile_index)[end])
                values = self.get_tensor_profile_values(profile_index, tensor.name)
                if values:
                    context.set_shape_input(tensor.name, values[end])
            found.append(context.get_tensor_shape(name))
        return found

    @reported([])
    def get_tensor_profile_values(self, profile_index: int, name: str) -> List[List[int]]:
        tensor, ends, count = self._find(name), [ffi.new("int64_t[64]") for _ in range(3)], ffi.new("size_t*")
        check(lib.carnot_engine_profile_values(self._c, profile_index, tensor.c_name, *ends, count))
        return [list(end[0 : count[0]]) for end in ends] if count[0] else []

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
        return self.get_tensor_format(self._binding(index))

    def get_binding_format_desc(self, index: int) -> str:
        return self.get_tensor_format_desc(self._binding(index))

    def get_binding_bytes_per_component(self, index: int) -> int:
        return self.get_tensor_bytes_per_component(self._binding(index))

    def get_binding_components_per_element(self, index: int) -> int:
        return self.get_tensor_components_per_element(self._binding(index))

    def get_binding_vectorized_dim(self, index: int) -> int:
        return self.get_tensor_vectorized_dim(self._binding(index))

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

    # ---- Carnot's own additions to TensorRT's interface ----

    def profile(self, inputs: Optional[Dict[str, Any]] = None, runs: int = 10) -> Any:
        """Times each layer with |inputs|, or with zeros of the optimum shapes."""
        return profile_layers(IExecutionContext(self, host_tensors=True), inputs, runs)

    def _repr_html_(self) -> str:
        return engine_html(self)


class EngineInspector(Reporter):
    """Reports the layers of an engine."""

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
        return "\n".join(
            ["Layers:"] + [layer["Name"] for layer in info["Layers"]] + ["", "Bindings:"] + info["Bindings"]
        )
