"""Builder, its configuration, optimization profiles, the timing cache."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ._carnot import ffi, lib
from .core import Calls, CarnotError, ILogger, Manual, Reporter, check, text, thread_count, to_c_dims, utf8
from .enums import (BuilderFlag, DeviceType, EngineCapability, HardwareCompatibilityLevel, MemoryPoolType,
                    PreviewFeature, ProfilingVerbosity, QuantizationFlag, RuntimePlatform, Severity, TacticSource,
                    TilingOptimizationLevel)
from .network import INetworkDefinition
from .types import Dims, IHostMemory

_LEVELS = {0: Severity.ERROR, 1: Severity.WARNING, 2: Severity.INFO, 3: Severity.VERBOSE}
# Flags that a build passes on where the library knows them.
_PRECISIONS = ("FP16", "BF16", "TF32", "OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS")
# What TensorRT says before a limit is set; here the machine is the limit.
_POOLS = {"WORKSPACE": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "DLA_MANAGED_SRAM": 0}
_LATER = ("INT8", "FP8", "INT4", "FP4")


class IOptimizationProfile:
    """Shapes that inputs may have: least, most usual, greatest."""

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


class TimingCacheKey:
    """The problem that an entry of the timing cache is about, as text."""

    def __init__(self, problem: str) -> None:
        self._text = problem

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimingCacheKey) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @staticmethod
    def parse(text: str) -> "TimingCacheKey":
        return TimingCacheKey(text)


class TimingCacheValue:
    """A tactic by its hash, and its time."""

    def __init__(self, tacticHash: int = 0, timingMSec: float = 0.0) -> None:  # noqa: N803
        self.tacticHash, self.timingMSec = tacticHash, timingMSec


class ITimingCache(Reporter):
    """What tactics took; builds that share one are repeatable and fast."""

    def __init__(self, data: bytes = b"") -> None:
        self._clear()
        if data:
            check(lib.carnot_timing_cache_read(self._c, ffi.from_buffer("char[]", data), len(data)))

    def _clear(self) -> None:
        made = ffi.new("carnot_timing_cache**")
        check(lib.carnot_timing_cache_create(made))
        self._c = ffi.gc(made[0], lib.carnot_timing_cache_destroy)

    def serialize(self) -> IHostMemory:
        out, size = ffi.new("char**"), ffi.new("size_t*")
        check(lib.carnot_timing_cache_print(self._c, out, size))
        return IHostMemory._of_c(ffi.cast("void*", out[0]), size[0])

    def combine(self, input_cache: "ITimingCache", ignore_mismatch: bool = False) -> bool:
        data = bytes(input_cache.serialize())
        try:
            check(lib.carnot_timing_cache_read(self._c, data, len(data)))
        except CarnotError:
            return False
        return True

    def reset(self) -> bool:
        self._clear()
        return True

    def _lines(self) -> List[List[str]]:
        """Problem, tactic, nanoseconds of each entry."""
        lines = bytes(self.serialize()).decode().splitlines()
        return [line.rsplit(" ", 2) for line in lines if line and not line.startswith("#") and line.count(" ") >= 2]

    def queryKeys(self) -> List[TimingCacheKey]:  # noqa: N802
        return [TimingCacheKey(problem) for problem in dict.fromkeys(line[0] for line in self._lines())]

    def query(self, key: TimingCacheKey) -> TimingCacheValue:
        times = [(float(time), tactic) for problem, tactic, time in self._lines() if problem == str(key)]
        if not times:
            return TimingCacheValue()
        time, tactic = min(times)
        import zlib

        return TimingCacheValue(zlib.crc32(tactic.encode()), time / 1e6)

    def update(self, key: TimingCacheKey, value: TimingCacheValue) -> bool:
        """Keeps of the entries of |key| the one with this hash, so that builds take it."""
        import zlib

        lines = self._lines()
        chosen = [line for line in lines if line[0] == str(key) and zlib.crc32(line[1].encode()) == value.tacticHash]
        if not chosen:
            return False
        kept = [line for line in lines if line[0] != str(key)] + chosen
        head = [line for line in bytes(self.serialize()).decode().splitlines() if len(line.split(" ")) < 3][:1]
        data = "\n".join(head + [" ".join(line) for line in kept] + [""]).encode()
        self._clear()
        check(lib.carnot_timing_cache_read(self._c, data, len(data)))
        return True

    def __enter__(self) -> "ITimingCache":
        return self

    def __exit__(self, *what: Any) -> None:
        pass


class IBuilderConfig(Reporter, Manual):
    """How to build. What has no effect here is kept and read back."""

    def __init__(self, logger: Optional[ILogger] = None) -> None:
        self._logger = logger
        self.reset()

    def reset(self) -> None:
        self._flags = 0
        self._pools = {pool: _POOLS.get(pool.name, 1 << 30) for pool in MemoryPoolType}
        self._profiles: List[IOptimizationProfile] = []
        self._cache: Optional[ITimingCache] = None
        self._device_types: Dict[Any, DeviceType] = {}
        self._previews = {feature: False for feature in PreviewFeature}
        self._quantization_flags = 0
        self._calibration_profile: Optional[IOptimizationProfile] = None
        self._tactic_sources = (1 << TacticSource.EDGE_MASK_CONVOLUTIONS.value |
                                1 << TacticSource.JIT_CONVOLUTIONS.value)
        self._level = 3
        self.DLA_core = -1
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

    max_workspace_size = property(lambda self: self.get_memory_pool_limit(MemoryPoolType.WORKSPACE),
                                  lambda self, size: self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, size))

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
        return self._tactic_sources

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

    def _make(self, network: INetworkDefinition, build: "_Build") -> Any:
        for name in _LATER:
            if self.get_flag(BuilderFlag[name]):
                raise CarnotError(lib.CARNOT_UNSUPPORTED, f"BuilderFlag.{name} is not available in this version; "
                                  "networks with Q/DQ layers run without it")
        made = ffi.new("carnot_config**")
        check(lib.carnot_config_create(made))
        config = ffi.gc(made[0], lib.carnot_config_destroy)
        is_refit = any(self.get_flag(BuilderFlag[n]) for n in ("REFIT", "REFIT_IDENTICAL", "REFIT_INDIVIDUAL"))
        check(lib.carnot_config_set_flag(config, lib.CARNOT_BUILD_REFIT, is_refit))
        if self.get_flag(BuilderFlag.STRIP_PLAN):
            check(lib.carnot_config_set_flag(config, lib.CARNOT_BUILD_STRIP, True))
        strongly = network.flags >> 1 & 1
        for name, on in [(n, self.get_flag(BuilderFlag[n])) for n in _PRECISIONS] + [("STRONGLY_TYPED", strongly)]:
            if on and hasattr(lib, "CARNOT_BUILD_" + name):
                check(lib.carnot_config_set_flag(config, getattr(lib, "CARNOT_BUILD_" + name), True))
        check(lib.carnot_config_set_level(config, self._level))
        check(lib.carnot_config_set_thread_count(config, thread_count()))
        if self._cache is None and not self.get_flag(BuilderFlag.DISABLE_TIMING_CACHE):
            self._cache = ITimingCache()
        if not self.get_flag(BuilderFlag.DISABLE_TIMING_CACHE):
            lib.carnot_config_set_timing_cache(config, self._cache._c)
        self._make_profiles(network, config)
        lib.carnot_config_set_log(config, lib.carnot_py_log, build.calls.handle)
        if self.progress_monitor is not None:
            lib.carnot_config_set_progress(config, lib.carnot_py_progress, build.calls.handle)
        return config

    def _make_profiles(self, network: INetworkDefinition, config: Any) -> None:
        names = {tensor.name for tensor in network._inputs}
        for profile in self._profiles:
            index = ffi.new("uint32_t*")
            check(lib.carnot_config_add_profile(config, index))
            for name, shapes in profile._shapes.items():
                if name not in names:
                    raise CarnotError(lib.CARNOT_INVALID_ARGUMENT,
                                      f"profile {index[0]} names {name}; the inputs are {', '.join(sorted(names))}")
                check(lib.carnot_config_set_profile_shapes(config, index[0], utf8(name),
                                                           *[to_c_dims(s) for s in shapes]))


class _Build:
    """One build: its callbacks."""

    def __init__(self, logger: Optional[ILogger], monitor: Any) -> None:
        self.logger, self.monitor, self.phase = logger, monitor, ""
        self.calls = Calls()
        self.calls.build = self

    def log(self, severity: int, message: str) -> None:
        if self.logger is not None:
            self.logger.log(_LEVELS.get(severity, Severity.VERBOSE), message)

    def progress(self, phase: str, done: int, total: int) -> bool:
        if phase != self.phase:
            self.finish()
            self.phase = phase
            self.monitor.phase_start(phase, None, total)
        return done == 0 or bool(self.monitor.step_complete(phase, done - 1))

    def finish(self) -> None:
        if self.phase:
            self.monitor.phase_finish(self.phase)
        self.phase = ""


@ffi.def_extern()
def carnot_py_log(user: Any, severity: int, message: Any) -> None:
    calls = ffi.from_handle(user)
    calls.guard(calls.build.log, severity, text(message))


@ffi.def_extern()
def carnot_py_progress(user: Any, phase: Any, done: int, total: int) -> bool:
    calls = ffi.from_handle(user)
    return bool(calls.guard(calls.build.progress, text(phase), done, total, failed=False))


class Builder(Reporter, Manual):
    """Builds engines from networks."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Builder takes an ILogger, not {type(logger).__name__}")
        self._logger = logger
        self.gpu_allocator = None
        self.max_threads = thread_count()
        self._max_batch_size = 1

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: 0)
    max_DLA_batch_size = property(lambda self: 0)
    platform_has_fast_fp16 = property(lambda self: True)
    platform_has_fast_int8 = property(lambda self: False)
    platform_has_tf32 = property(lambda self: False)

    @property
    def max_batch_size(self) -> int:
        return self._max_batch_size

    @max_batch_size.setter
    def max_batch_size(self, size: int) -> None:
        self._warn("max_batch_size has no effect: networks have explicit batch dimensions")
        self._max_batch_size = int(size)

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(self, flags)

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self._logger)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def reset(self) -> None:
        self._max_batch_size = 1

    def get_plugin_registry(self) -> Any:
        from . import get_builder_plugin_registry

        return get_builder_plugin_registry(EngineCapability.STANDARD)

    def _run(self, network: INetworkDefinition, config: IBuilderConfig, call: Any) -> bool:
        """Runs a build; failures go to the logger, exceptions of callbacks to the caller."""
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"a build takes an INetworkDefinition, not {type(network).__name__}")
        if not isinstance(config, IBuilderConfig):
            raise TypeError(f"a build takes an IBuilderConfig, not {type(config).__name__}")
        build = _Build(self._logger, config.progress_monitor)
        try:
            network._sync(strict=True)
            call(network._c, config._make(network, build))
            if build.monitor is not None:
                build.finish()
        except CarnotError as error:
            if build.calls.error is None and build.monitor is not None:
                build.finish()
            build.calls.raise_kept()
            self._fail(error, "the build failed")
            return False
        build.calls.raise_kept()
        return True

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> Optional[IHostMemory]:
        data, size = ffi.new("void**"), ffi.new("size_t*")

        def call(c_network: Any, c_config: Any) -> None:
            check(lib.carnot_build_memory(c_network, c_config, data, size))

        if not self._run(network, config, call):
            return None
        return IHostMemory._of_c(data[0], size[0])

    def build_serialized_network_to_stream(self, network: Any, config: Any, writer: Any) -> bool:
        memory = self.build_serialized_network(network, config)
        return memory is not None and writer.write(bytes(memory)) == memory.nbytes

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        from .runtime import Runtime

        memory = self.build_serialized_network(network, config)
        return None if memory is None else Runtime(self._logger).deserialize_cuda_engine(memory)

    build_engine = build_engine_with_config

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        def call(c_network: Any, c_config: Any) -> None:
            pass

        return self._run(network, config, call)
