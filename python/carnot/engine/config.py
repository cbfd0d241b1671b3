"""Builder configuration, optimization profiles, and the options of execution contexts."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from .._carnot import ffi, lib
from ..core import CarnotError, ILogger, Manual, Reporter, check, to_c_dims, utf8
from ..enums import (
    BuilderFlag,
    DeviceType,
    EngineCapability,
    ExecutionContextAllocationStrategy,
    HardwareCompatibilityLevel,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    RuntimePlatform,
    TacticSource,
    TensorFormat,
    TilingOptimizationLevel,
)
from ..network.network import INetworkDefinition
from .calibration import add_dynamic_ranges, calibrate, make_ranges
from ..types import Dims
from ..version import TENSORRT_VERSION
from .timing_cache import ITimingCache

_PRECISIONS = {
    "FP16": lib.CARNOT_BUILD_F16,
    "BF16": lib.CARNOT_BUILD_BF16,
    "TF32": lib.CARNOT_BUILD_FAST_F32,
    "OBEY_PRECISION_CONSTRAINTS": lib.CARNOT_BUILD_OBEY_TYPES,
    "STRICT_TYPES": lib.CARNOT_BUILD_OBEY_TYPES,
    "PREFER_PRECISION_CONSTRAINTS": lib.CARNOT_BUILD_PREFER_TYPES,
    "INT8": lib.CARNOT_BUILD_QUANTIZED,
    "FP8": lib.CARNOT_BUILD_QUANTIZED,
    "INT4": lib.CARNOT_BUILD_QUANTIZED,
    "FP4": lib.CARNOT_BUILD_QUANTIZED,
}
# The limits before any is set, as TensorRT reports them; the machine's memory bounds the workspace.
_POOLS = {
    "WORKSPACE": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    "DLA_MANAGED_SRAM": 0,
    "DLA_GLOBAL_DRAM": 512 << 20,
}
# What TensorRT of the reported version has on: preview features, and the sources of tactics, which are reported only.
# Until a script sets them, every source is used.
if TENSORRT_VERSION >= (10,):
    _PREVIEWS, _SOURCES = ("PROFILE_SHARING_0806",), ("EDGE_MASK_CONVOLUTIONS", "JIT_CONVOLUTIONS")
else:
    _PREVIEWS = ("FASTER_DYNAMIC_SHAPES_0805", "DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805")
    _SOURCES = ("CUBLAS", "CUDNN", "EDGE_MASK_CONVOLUTIONS", "JIT_CONVOLUTIONS")
    _SOURCES += ("CUBLAS_LT",) if TENSORRT_VERSION < (8, 7) else ()


class IOptimizationProfile:
    """The minimum, optimum and maximum shapes of inputs."""

    def __init__(self) -> None:
        self._shapes: Dict[str, List[Dims]] = {}
        self._values: Dict[str, List[List[int]]] = {}
        self.extra_memory_target = 1.0

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002
        utf8(input)
        shapes = [Dims(tuple(s)) for s in (min, opt, max)]
        if not len(shapes[0]) == len(shapes[1]) == len(shapes[2]):
            raise RuntimeError(f"profile: the shapes of {input} have {[len(s) for s in shapes]} dimensions")
        if any(not a <= b <= c for a, b, c in zip(*shapes)):
            raise RuntimeError(f"profile: the shapes of {input} must satisfy min <= opt <= max: {shapes}")
        self._shapes[input] = shapes

    def get_shape(self, input: str) -> List[Dims]:  # noqa: A002
        return list(self._shapes.get(input, []))

    def set_shape_input(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002
        values = [[int(v) for v in s] for s in (min, opt, max)]
        if not len(values[0]) == len(values[1]) == len(values[2]):
            raise RuntimeError(f"profile: the values of {input} have {[len(v) for v in values]} elements")
        if any(not a <= b <= c for a, b, c in zip(*values)):
            raise RuntimeError(f"profile: the values of {input} must satisfy min <= opt <= max: {values}")
        self._values[input] = values

    def get_shape_input(self, input: str) -> List[List[int]]:  # noqa: A002
        return list(self._values.get(input, []))

    def __bool__(self) -> bool:
        return True

    __nonzero__ = __bool__


class IBuilderConfig(Reporter, Manual):
    """Builder configuration. Settings without effect here are stored and can be read back."""

    def __init__(self, logger: Optional[ILogger] = None) -> None:
        self._logger = logger
        self.reset()

    def reset(self) -> None:
        self._flags = 0
        self._pools = {pool: _POOLS.get(name, 1 << 30) for name, pool in MemoryPoolType._member_map_.items()}
        self._profiles: List[IOptimizationProfile] = []
        self._cache: Optional[ITimingCache] = None
        self._device_types: Dict[Any, DeviceType] = {}
        self._previews = {feature: name in _PREVIEWS for name, feature in PreviewFeature._member_map_.items()}
        self._quantization_flags = 0
        self._calibration_profile: Optional[IOptimizationProfile] = None
        self._tactic_sources: Optional[int] = None  # every one
        self._level = 3
        self.backend: Optional[str] = None  # "cpu", "cuda", "cuda:1", "cuda:sm_90"; None: the device rule
        self.algorithm_selector = None
        self.avg_timing_iterations = 1
        self.min_timing_iterations = 1
        self.build_route = ""
        self.default_device_type = DeviceType.GPU
        self.engine_capability = EngineCapability.STANDARD
        self.hardware_compatibility_level = HardwareCompatibilityLevel.NONE
        self.int8_calibrator = None
        self.l2_limit_for_tiling = -1
        self.max_aux_streams = -1
        self.max_num_tactics = -1
        self.plugins_to_serialize: List[str] = []
        self.profile_stream = 0
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.progress_monitor = None
        self.remote_auto_tuning_config = ""
        self.runtime_platform = RuntimePlatform.SAME_AS_BUILD
        self.tiling_optimization_level = TilingOptimizationLevel.NONE

    all_build_routes = property(lambda self: "[]")

    @property
    def DLA_core(self) -> int:  # noqa: N802 - TensorRT's name
        return -1

    @DLA_core.setter
    def DLA_core(self, core: int) -> None:  # noqa: N802
        if int(core) != -1:
            self._fail(f"DLA_core {core}: this machine has no DLA; it stays -1")

    # ---- flags ----

    @property
    def flags(self) -> int:
        return self._flags

    @flags.setter
    def flags(self, flags: int) -> None:
        self._flags = int(flags)

    def set_flag(self, flag: BuilderFlag) -> None:
        self._flags |= 1 << BuilderFlag(flag).value

    def clear_flag(self, flag: BuilderFlag) -> None:
        self._flags &= ~(1 << BuilderFlag(flag).value)

    def get_flag(self, flag: BuilderFlag) -> bool:
        return bool(self._flags >> BuilderFlag(flag).value & 1)

    @property
    def quantization_flags(self) -> int:
        return self._quantization_flags

    @quantization_flags.setter
    def quantization_flags(self, flags: int) -> None:
        self._quantization_flags = int(flags)

    def set_quantization_flag(self, flag: QuantizationFlag) -> None:
        self._quantization_flags |= 1 << QuantizationFlag(flag).value

    def clear_quantization_flag(self, flag: QuantizationFlag) -> None:
        self._quantization_flags &= ~(1 << QuantizationFlag(flag).value)

    def get_quantization_flag(self, flag: QuantizationFlag) -> bool:
        return bool(self._quantization_flags >> QuantizationFlag(flag).value & 1)

    def set_preview_feature(self, feature: PreviewFeature, enable: bool) -> None:
        self._previews[PreviewFeature(feature)] = bool(enable)

    def get_preview_feature(self, feature: PreviewFeature) -> bool:
        return self._previews[PreviewFeature(feature)]

    # ---- numbers ----

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        self._pools[MemoryPoolType(pool)] = int(pool_size)

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        return self._pools[MemoryPoolType(pool)]

    max_workspace_size = property(
        lambda self: self.get_memory_pool_limit(MemoryPoolType.WORKSPACE),
        lambda self, size: self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, size),
    )

    @property
    def builder_optimization_level(self) -> int:
        return self._level

    @builder_optimization_level.setter
    def builder_optimization_level(self, level: int) -> None:
        if not 0 <= int(level) <= 5:
            self._fail(f"builder_optimization_level {level}, must be 0 to 5")
            return
        self._level = int(level)

    def set_tactic_sources(self, tactic_sources: int) -> bool:
        self._tactic_sources = int(tactic_sources)
        return True

    def get_tactic_sources(self) -> int:
        if self._tactic_sources is not None:
            return self._tactic_sources
        return sum(1 << TacticSource[name].value for name in _SOURCES)

    # ---- profiles ----

    num_optimization_profiles = property(lambda self: len(self._profiles))

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        if not isinstance(profile, IOptimizationProfile):
            raise TypeError(f"add_optimization_profile takes an IOptimizationProfile, not {type(profile).__name__}")
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self) -> Optional[IOptimizationProfile]:
        return self._calibration_profile

    # ---- devices ----

    def set_device_type(self, layer: Any, device_type: DeviceType) -> None:
        self._device_types[layer] = DeviceType(device_type)

    def get_device_type(self, layer: Any) -> DeviceType:
        return self._device_types.get(layer, self.default_device_type)

    def is_device_type_set(self, layer: Any) -> bool:
        return layer in self._device_types

    def reset_device_type(self, layer: Any) -> None:
        self._device_types.pop(layer, None)

    def can_run_on_DLA(self, layer: Any) -> bool:  # noqa: N802
        return False

    # ---- timing cache ----

    def create_timing_cache(self, serialized_timing_cache: Any) -> Optional[ITimingCache]:
        try:
            return ITimingCache(bytes(serialized_timing_cache))
        except CarnotError as error:
            self._fail(error, "create_timing_cache")
            return None

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool = False) -> bool:
        self._cache = cache
        return True

    def get_timing_cache(self) -> Optional[ITimingCache]:
        return self._cache

    # ---- to C ----

    def _make(self, network: INetworkDefinition, build: Any, selector: Any, threads: int) -> Any:
        made = ffi.new("carnot_config**")
        check(lib.carnot_config_create(made))
        config = ffi.gc(made[0], lib.carnot_config_destroy)
        is_refit = any(self.get_flag(BuilderFlag[n]) for n in ("REFIT", "REFIT_IDENTICAL", "REFIT_INDIVIDUAL"))
        check(lib.carnot_config_set_flag(config, lib.CARNOT_BUILD_REFIT, is_refit))
        if self.get_flag(BuilderFlag.STRIP_PLAN):
            check(lib.carnot_config_set_flag(config, lib.CARNOT_BUILD_STRIP, True))
        for name, flag in _PRECISIONS.items():
            if self.get_flag(BuilderFlag[name]):
                check(lib.carnot_config_set_flag(config, flag, True))
        if network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED):
            check(lib.carnot_config_set_flag(config, lib.CARNOT_BUILD_STRONGLY_TYPED, True))
        check(lib.carnot_config_set_device(config, ffi.NULL if self.backend is None else utf8(self.backend)))
        check(lib.carnot_config_set_level(config, self._level))
        if self._tactic_sources is not None:
            lib.carnot_config_set_tactic_sources(config, self._tactic_sources & 0xFFFFFFFF)
        check(lib.carnot_config_set_thread_count(config, threads))
        if self._cache is None and not self.get_flag(BuilderFlag.DISABLE_TIMING_CACHE):
            self._cache = ITimingCache()
        if not self.get_flag(BuilderFlag.DISABLE_TIMING_CACHE):
            lib.carnot_config_set_timing_cache(config, self._cache._c)
        self._make_profiles(network, config)
        for tensor in (*network._inputs, *network._outputs):
            if tensor.allowed_formats != 1 << TensorFormat.LINEAR.value:
                check(lib.carnot_config_set_tensor_formats(config, utf8(tensor.name), tensor.allowed_formats))
        for path in self.plugins_to_serialize:
            check(lib.carnot_config_serialize_plugin_library(config, utf8(os.fspath(path))))
        lib.carnot_config_set_log(config, lib.carnot_py_log, build.calls.handle)
        if self.algorithm_selector is not None:
            lib.carnot_config_set_tactic_selector(
                config, lib.carnot_py_select_tactics, lib.carnot_py_report_tactics, selector.calls.handle
            )
        if self.progress_monitor is not None:
            lib.carnot_config_set_progress(config, lib.carnot_py_progress, build.calls.handle)
        return config

    def _make_ranges(self, network: INetworkDefinition, config: Any, build: Any) -> Any:
        """Ranges for INT8 by the calibrator and the tensors' dynamic ranges; None: there are none."""
        if not self.get_flag(BuilderFlag.INT8):
            return None
        given = network._dynamic_ranges()
        if self.int8_calibrator is None and not given:
            return None
        if self.int8_calibrator is None:
            ranges = make_ranges()
        else:
            profile = self._calibration_profile or (self._profiles[0] if self._profiles else None)
            ranges = calibrate(network._c, config, self.int8_calibrator, profile, lambda say: build.log(2, say))
        add_dynamic_ranges(ranges, given)
        lib.carnot_config_set_ranges(config, ranges)
        return ranges

    def _make_profiles(self, network: INetworkDefinition, config: Any) -> None:
        names = {tensor.name for tensor in network._inputs}
        for profile in self._profiles:
            index = ffi.new("uint32_t*")
            check(lib.carnot_config_add_profile(config, index))
            for name, shapes in profile._shapes.items():
                if name not in names:
                    raise CarnotError(
                        lib.CARNOT_INVALID_ARGUMENT,
                        f"profile {index[0]} names {name}; the inputs are {', '.join(sorted(names))}",
                    )
                check(
                    lib.carnot_config_set_profile_shapes(config, index[0], utf8(name), *[to_c_dims(s) for s in shapes])
                )
            for name, values in profile._values.items():
                ends = [ffi.new("int64_t[]", end or [0]) for end in values]
                check(lib.carnot_config_set_profile_values(config, index[0], utf8(name), *ends, len(values[0])))


class IRuntimeConfig:
    """Options of a new execution context."""

    def __init__(self) -> None:
        self._strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> None:
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self) -> ExecutionContextAllocationStrategy:
        return self._strategy
