"""Ranges of tensors for INT8: dynamic ranges, calibration caches, and calibrators that give data."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import numpy as np

from .._carnot import ffi, lib
from ..core import CarnotError, check, text, to_c_dims, utf8
from ..enums import CalibrationAlgoType
from ..interfaces import IInt8Calibrator
from ..types import from_c_dtype, from_numpy_dtype, nptype, to_c_dtype

_METHODS = {
    CalibrationAlgoType.ENTROPY_CALIBRATION: lib.CARNOT_CALIBRATION_ENTROPY,
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: lib.CARNOT_CALIBRATION_ENTROPY_2,
    CalibrationAlgoType.MINMAX_CALIBRATION: lib.CARNOT_CALIBRATION_MINMAX,
    CalibrationAlgoType.LEGACY_CALIBRATION: lib.CARNOT_CALIBRATION_PERCENTILE,
}
_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _CU_MEMORYTYPE_HOST = 2, 1


def _failed(message: str) -> CarnotError:
    return CarnotError(lib.CARNOT_INVALID_ARGUMENT, message)


def make_ranges() -> Any:
    made = ffi.new("carnot_ranges**")
    check(lib.carnot_ranges_create(made))
    return ffi.gc(made[0], lib.carnot_ranges_destroy)


def print_ranges(ranges: Any, method: int) -> bytes:
    """The calibration cache as text."""
    data, size = ffi.new("char**"), ffi.new("size_t*")
    check(lib.carnot_ranges_print(ranges, method, data, size))
    try:
        return bytes(ffi.buffer(data[0], size[0]))
    finally:
        lib.carnot_memory_free(data[0])


def _read_memory(pointer: int, size: int) -> bytes:
    """|size| bytes at an address of the host or of a CUDA device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ctypes.string_at(pointer, size)
    kind = ctypes.c_uint(0)
    code = driver.cuPointerGetAttribute(
        ctypes.byref(kind), ctypes.c_int(_CU_POINTER_ATTRIBUTE_MEMORY_TYPE), ctypes.c_uint64(pointer)
    )
    if code != 0 or kind.value == _CU_MEMORYTYPE_HOST:  # memory that the driver does not know is the host's
        return ctypes.string_at(pointer, size)
    copy = ctypes.create_string_buffer(size)
    code = driver.cuMemcpyDtoH_v2(copy, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
    if code != 0:
        raise _failed(f"the calibration batch at {pointer:#x} cannot be copied from the device: CUDA error {code}")
    return copy.raw


class _Input:
    """An input of the network while it is calibrated."""

    def __init__(self, network: Any, value: Any, profile: Any, batch_size: Optional[int]) -> None:
        self.name = text(lib.carnot_value_name(value))
        self.dtype = from_c_dtype(lib.carnot_value_dtype(value))
        dims = lib.carnot_value_dims(value)
        shape = [dims.d[i] for i in range(dims.rank)]
        given = [list(s) for s in profile.get_shape(self.name)] if profile is not None else []
        if given:
            shape = [fixed if fixed >= 0 else opt for fixed, opt in zip(shape, given[1])]
        if batch_size is not None and shape and shape[0] < 0:
            shape[0] = batch_size
        self.shape = shape

    def take(self, pointer: Any) -> np.ndarray:
        """The batch at |pointer|, an address or an array."""
        dtype = np.dtype(nptype(self.dtype))
        if hasattr(pointer, "__array__"):
            array = np.ascontiguousarray(pointer)
            if array.dtype != dtype:
                raise _failed(f"the calibration batch of input {self.name} is {array.dtype}, must be {dtype}")
            return array
        if min(self.shape, default=0) < 0:
            raise _failed(
                f"input {self.name} has shape {tuple(self.shape)}: set_calibration_profile must give the dimensions that"
                " are open"
            )
        size = int(np.prod(self.shape, dtype=np.int64)) * dtype.itemsize
        return np.frombuffer(_read_memory(int(pointer), size), dtype).reshape(self.shape)


class Calibration:
    """Counts the values of a network's tensors on batches."""

    def __init__(self, network: Any, config: Any) -> None:
        made = ffi.new("carnot_calibration**")
        check(lib.carnot_calibration_create(network, config, made))
        self._c = ffi.gc(made[0], lib.carnot_calibration_destroy)

    def add(self, arrays: List[np.ndarray]) -> None:
        """One batch: an array for each input, in order."""
        data = ffi.new("carnot_data*[]", len(arrays))
        try:
            for i, array in enumerate(arrays):
                made = ffi.new("carnot_data**")
                dtype = to_c_dtype(from_numpy_dtype(array.dtype))
                check(lib.carnot_data_create_tensor(dtype, to_c_dims(array.shape), ffi.from_buffer(array), made))
                data[i] = made[0]
            check(lib.carnot_calibration_add(self._c, ffi.cast("const carnot_data* const*", data)))
        finally:
            for item in data:
                lib.carnot_data_destroy(item)

    def finish(self, ranges: Any, method: int, quantile: float = 0.9999, cutoff: float = 1.0) -> None:
        options = ffi.new("carnot_calibration_options*", {"method": method, "quantile": quantile, "cutoff": cutoff})
        check(lib.carnot_calibration_finish(self._c, options, ranges))


def _inputs(network: Any, profile: Any, batch_size: Optional[int]) -> List[_Input]:
    count = lib.carnot_network_input_count(network)
    return [_Input(network, lib.carnot_network_input(network, i), profile, batch_size) for i in range(count)]


def calibrate(network: Any, config: Any, calibrator: Any, profile: Any, say: Any) -> Any:
    """Ranges by a TensorRT calibrator: from its cache, else from its batches, which are then cached."""
    ranges = make_ranges()
    cache = calibrator.read_calibration_cache()
    if cache:
        data = bytes(cache)
        check(lib.carnot_ranges_read(ranges, data, len(data)))
        return ranges
    method = getattr(calibrator, "_method", None) or _METHODS[CalibrationAlgoType(calibrator.get_algorithm())]
    inputs = _inputs(network, profile, calibrator.get_batch_size())
    names = [i.name for i in inputs]
    say("Starting Calibration.")
    calibration = Calibration(network, config)
    count = 0
    while True:
        batch = calibrator.get_batch(list(names))
        if not (isinstance(batch, (list, tuple)) and len(batch)):
            break
        if len(batch) != len(inputs):
            raise _failed(f"get_batch returned {len(batch)} addresses for {len(inputs)} inputs: {', '.join(names)}")
        calibration.add([i.take(pointer) for i, pointer in zip(inputs, batch)])
        say(f"  Calibrated batch {count}.")
        count += 1
    if not count:
        raise _failed("the calibrator has neither a cache nor a batch: get_batch returned nothing at its first call")
    quantile = getattr(calibrator, "get_quantile", lambda: 0.9999)()
    cutoff = getattr(calibrator, "get_regression_cutoff", lambda: 1.0)()
    calibration.finish(ranges, method, quantile, cutoff)
    say(f"Calibration completed on {count} batches.")
    calibrator.write_calibration_cache(memoryview(print_ranges(ranges, method)))
    return ranges


class SampleCalibrator(IInt8Calibrator):
    """Calibrates on mappings from input names to arrays, by the least mean squared error."""

    _method = lib.CARNOT_CALIBRATION_MSE

    def __init__(self, samples: Iterable[Mapping[str, Any]]) -> None:
        self._samples = iter(samples)

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: List[str]) -> Any:
        sample = next(self._samples, None)
        if sample is None:
            return None
        if set(sample) != set(names):
            raise ValueError(f"a calibration sample has {', '.join(sample)}; the inputs are {', '.join(names)}")
        return [np.asarray(sample[name]) for name in names]


def add_dynamic_ranges(ranges: Any, given: Dict[str, Tuple[float, float]]) -> None:
    """ITensor's dynamic ranges over those of |ranges|: symmetric, of the larger end."""
    for name, (least, most) in given.items():
        end = max(abs(least), abs(most))
        check(lib.carnot_ranges_set(ranges, utf8(name), -end, end))
