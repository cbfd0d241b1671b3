"""Interfaces that users implement: callbacks, allocators, streams, selectors, calibrators."""

from __future__ import annotations

from typing import Any, List, Optional

from .core import IErrorRecorder  # noqa: F401 - part of this list for users
from .enums import APILanguage, CalibrationAlgoType


class InterfaceInfo:
    """Name and version of an interface."""

    def __init__(self, kind: str = "", major: int = 1, minor: int = 0) -> None:
        self.kind, self.major, self.minor = kind, major, minor


class IVersionedInterface:
    """An interface that a user implements."""

    @property
    def api_language(self) -> APILanguage:
        return APILanguage.PYTHON

    @property
    def interface_info(self) -> InterfaceInfo:
        return InterfaceInfo(type(self).__mro__[-3].__name__ if len(type(self).__mro__) > 3 else type(self).__name__)


class IProfiler:
    """Receives each layer's time in milliseconds."""

    def __init__(self) -> None:
        pass

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError("IProfiler.report_layer_time must be overridden")


class Profiler(IProfiler):
    """Prints each layer's time."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print(f"{layer_name}: {ms}ms")


class IOutputAllocator(IVersionedInterface):
    """Allocates data-dependent outputs."""

    tensorrt_version = property(lambda self: 100300)

    def __init__(self) -> None:
        pass

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        raise NotImplementedError("IOutputAllocator.reallocate_output must be overridden")

    def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
        return self.reallocate_output(tensor_name, memory, size, alignment)

    def notify_shape(self, tensor_name: str, shape: Any) -> None:
        raise NotImplementedError("IOutputAllocator.notify_shape must be overridden")


class IDebugListener(IVersionedInterface):
    """Receives the debug tensors of a run."""

    def __init__(self) -> None:
        pass

    def process_debug_tensor(self, addr: int, location: Any, type: Any, shape: Any, name: str, stream: int) -> bool:
        raise NotImplementedError("IDebugListener.process_debug_tensor must be overridden")


class IProgressMonitor(IVersionedInterface):
    """Receives the progress of a build; step_complete may return False to cancel it."""

    def __init__(self) -> None:
        pass

    def phase_start(self, phase_name: str, parent_phase: Any, num_steps: int) -> None:
        raise NotImplementedError("IProgressMonitor.phase_start must be overridden")

    def step_complete(self, phase_name: str, step: int) -> bool:
        raise NotImplementedError("IProgressMonitor.step_complete must be overridden")

    def phase_finish(self, phase_name: str) -> None:
        raise NotImplementedError("IProgressMonitor.phase_finish must be overridden")


class IStreamReader(IVersionedInterface):
    """Reads a serialized engine."""

    def __init__(self) -> None:
        pass

    def read(self, size: int) -> bytes:
        raise NotImplementedError("IStreamReader.read must be overridden")


class IStreamReaderV2(IVersionedInterface):
    """Reads a serialized engine, with seek and a CUDA stream."""

    def __init__(self) -> None:
        pass

    def read(self, num_bytes: int, stream: int) -> bytes:
        raise NotImplementedError("IStreamReaderV2.read must be overridden")

    def seek(self, offset: int, where: Any) -> bool:
        raise NotImplementedError("IStreamReaderV2.seek must be overridden")


class IStreamWriter(IVersionedInterface):
    """Writes a serialized engine."""

    def __init__(self) -> None:
        pass

    def write(self, data: bytes) -> int:
        raise NotImplementedError("IStreamWriter.write must be overridden")


class IGpuAllocator(IVersionedInterface):
    """Allocates device memory; CPU engines do not call it."""

    def __init__(self) -> None:
        pass

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        raise NotImplementedError

    def deallocate(self, memory: int) -> bool:
        raise NotImplementedError

    def free(self, memory: int) -> None:
        self.deallocate(memory)

    def reallocate(self, address: int, alignment: int, new_size: int) -> int:
        return 0

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int:
        return self.allocate(size, alignment, flags)

    def deallocate_async(self, memory: int, stream: int) -> bool:
        return self.deallocate(memory)


class IGpuAsyncAllocator(IGpuAllocator):
    pass


# ---- algorithm selection ----


class IAlgorithmVariant:
    """A tactic. The implementation is a number made of its name, which is in `name`."""

    name = property(lambda self: self._name)
    implementation = property(lambda self: self._implementation)
    tactic = property(lambda self: self._tactic)


class IAlgorithmIOInfo:
    """A tensor as a tactic reads or writes it; strides in elements, at the optimum of the first profile."""

    dtype = property(lambda self: self._dtype)
    strides = property(lambda self: self._strides)
    components_per_element = property(lambda self: 1)
    vectorized_dim = property(lambda self: -1)
    tensor_format = property(lambda self: self._format)


class IAlgorithm:
    """A tactic that takes a layer; timing_msec is negative where it was not timed."""

    algorithm_variant = property(lambda self: self._variant)
    timing_msec = property(lambda self: self._ms)
    workspace_size = property(lambda self: 0)

    def get_algorithm_io_info(self, index: int) -> Optional[IAlgorithmIOInfo]:
        """Of input or output |index|, inputs first; None where there is none."""
        return self._infos[index] if 0 <= index < len(self._infos) else None


class IAlgorithmContext:
    """A layer of the optimized network; constants are no inputs."""

    name = property(lambda self: self._name)
    num_inputs = property(lambda self: len(self._input_shapes))
    num_outputs = property(lambda self: len(self._output_shapes))

    def get_shape(self, index: int) -> List[Any]:
        """Of input or output |index| at the optimum of the first profile; empty where there is none."""
        shapes = self._input_shapes + self._output_shapes
        return [shapes[index]] * 3 if 0 <= index < len(shapes) else []


class IAlgorithmSelector:
    """Chooses among the tactics of each layer before they are timed, and receives those that a build took."""

    def __init__(self) -> None:
        pass

    def select_algorithms(self, context: IAlgorithmContext, choices: List[IAlgorithm]) -> List[int]:
        return list(range(len(choices)))

    def report_algorithms(self, contexts: List[IAlgorithmContext], choices: List[IAlgorithm]) -> None:
        pass


# ---- calibration: base classes of scripts ----


class IInt8Calibrator:
    """Gives an INT8 build data, or a cache of an earlier calibration.

    get_batch(names) returns one address for each input of that name (memory of the host or of a CUDA device, of the
    input's dimensions or those of the calibration profile's optimum), or arrays; None or an empty list ends the data.
    """

    _algorithm = CalibrationAlgoType.ENTROPY_CALIBRATION_2

    def __init__(self) -> None:
        pass

    def get_algorithm(self) -> CalibrationAlgoType:
        return self._algorithm

    def get_batch_size(self) -> int:
        raise NotImplementedError

    def get_batch(self, names: List[str]) -> Any:
        raise NotImplementedError

    def read_calibration_cache(self) -> Any:
        return None

    def write_calibration_cache(self, cache: Any) -> None:
        pass


class IInt8EntropyCalibrator(IInt8Calibrator):
    _algorithm = CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8EntropyCalibrator2(IInt8Calibrator):
    _algorithm = CalibrationAlgoType.ENTROPY_CALIBRATION_2


class IInt8MinMaxCalibrator(IInt8Calibrator):
    _algorithm = CalibrationAlgoType.MINMAX_CALIBRATION


class IInt8LegacyCalibrator(IInt8Calibrator):
    """Percentile: get_quantile() of the absolute values up to get_regression_cutoff() of the largest."""

    _algorithm = CalibrationAlgoType.LEGACY_CALIBRATION

    def get_quantile(self) -> float:
        return 0.9999

    def get_regression_cutoff(self) -> float:
        return 1.0


__all__ = [name for name, kind in list(globals().items()) if isinstance(kind, type) and kind.__module__ == __name__]
