"""The builder: builds serialized engines from networks."""

from __future__ import annotations

from typing import Any, Optional

from .._carnot import ffi, lib
from ..core import ALL_THREADS, Calls, CarnotError, ILogger, Manual, Reporter, check, note_logger, text
from ..enums import BuilderFlag, EngineCapability, Severity
from ..network.network import INetworkDefinition
from ..plugin.registry import get_builder_plugin_registry
from ..types import IHostMemory
from .algorithms import SelectorCalls
from .config import IBuilderConfig, IOptimizationProfile
from .runtime import Runtime

_LEVELS = {0: Severity.ERROR, 1: Severity.WARNING, 2: Severity.INFO, 3: Severity.VERBOSE}


class _Build:
    """The callbacks of one build."""

    def __init__(self, logger: Optional[ILogger], monitor: Any) -> None:
        self.logger, self.monitor, self.phase = logger, monitor, ""
        self.calls = Calls(self)

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
    calls = Calls.of(user)
    calls.guard(calls.owner.log, severity, text(message))


@ffi.def_extern()
def carnot_py_progress(user: Any, phase: Any, done: int, total: int) -> bool:
    calls = Calls.of(user)
    return bool(calls.guard(calls.owner.progress, text(phase), done, total, failed=False))


class Builder(Reporter, Manual):
    """Builds engines from networks."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Builder takes an ILogger, not {type(logger).__name__}")
        note_logger(logger)
        self._logger = logger
        self.gpu_allocator = None
        self.max_threads = ALL_THREADS
        self._max_batch_size = 1

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: 0)
    max_DLA_batch_size = property(lambda self: 0)
    platform_has_fast_fp16 = property(lambda self: True)
    platform_has_fast_int8 = property(lambda self: True)
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
        return get_builder_plugin_registry(EngineCapability.STANDARD)

    def _attempt(self, network: INetworkDefinition, config: IBuilderConfig, call: Any) -> None:
        """Runs a build. Raises CarnotError, and the exceptions of callbacks."""
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"a build takes an INetworkDefinition, not {type(network).__name__}")
        if not isinstance(config, IBuilderConfig):
            raise TypeError(f"a build takes an IBuilderConfig, not {type(config).__name__}")
        build = _Build(self._logger, config.progress_monitor)
        selector = SelectorCalls(config.algorithm_selector, config.get_flag(BuilderFlag.REJECT_EMPTY_ALGORITHMS))
        try:
            network._sync(strict=True)
            c_config = config._make(network, build, selector, self.max_threads)
            ranges = config._make_ranges(network, c_config, build)  # borrowed by the configuration
            call(network._c, c_config)
            del ranges
            if build.monitor is not None:
                build.finish()
        except CarnotError as error:
            if build.calls.error is None and build.monitor is not None:
                build.finish()
            build.calls.raise_kept()
            selector.calls.raise_kept()
            raise error
        build.calls.raise_kept()

    def _build(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory:
        data, size = ffi.new("void**"), ffi.new("size_t*")

        def call(c_network: Any, c_config: Any) -> None:
            check(lib.carnot_build_memory(c_network, c_config, data, size))

        self._attempt(network, config, call)
        return IHostMemory._of_c(data[0], size[0])

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> Optional[IHostMemory]:
        try:
            return self._build(network, config)
        except CarnotError as error:
            self._fail(error, "the build failed")
            return None

    def build_serialized_network_to_stream(self, network: Any, config: Any, writer: Any) -> bool:
        memory = self.build_serialized_network(network, config)
        return memory is not None and writer.write(bytes(memory)) == memory.nbytes

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        memory = self.build_serialized_network(network, config)
        return None if memory is None else Runtime(self._logger).deserialize_cuda_engine(memory)

    build_engine = build_engine_with_config

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        def call(c_network: Any, c_config: Any) -> None:
            pass

        try:
            self._attempt(network, config, call)
        except CarnotError as error:
            self._fail(error, "the build failed")
            return False
        return True
