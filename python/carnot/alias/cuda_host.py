"""Stand-ins of CUDA's Python modules on host memory, for scripts that run engines. All calls are synchronous."""

from __future__ import annotations

import ctypes
import enum
import sys
import time
import types
from typing import Any, Callable, Dict, List

import numpy as np

from . import cuda_types, nvrtc
from .cuda_types import cudaError_t

_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_MEMORY_BYTES = 8 << 30  # reported by mem_get_info


class CUresult(enum.IntEnum):  # CUDA's name, as all below
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_SUPPORTED = 801


class cudaDeviceProp:  # noqa: N801
    name = b"host memory (no CUDA device)"
    major, minor, multiProcessorCount, totalGlobalMem = 0, 0, 0, _MEMORY_BYTES  # noqa: N815


class _Handle(int):
    """A stream or event: a unique integer with a time stamp."""

    _last = 0

    def __new__(cls) -> "_Handle":
        _Handle._last += 1
        handle = super().__new__(cls, _Handle._last)
        handle.time = 0.0
        return handle

    def getPtr(self) -> int:  # noqa: N802
        return int(self)


def _allocate(size: int) -> int:
    memory = _libc.aligned_alloc(256, (int(size) + 255) // 256 * 256 or 256)
    if not memory:
        raise MemoryError(f"{size} bytes")
    return memory


def _address(place: Any) -> int:
    """The address of an integer, an array, a buffer, or None."""
    if place is None:
        return 0
    if isinstance(place, int):
        return place
    if hasattr(place, "__array_interface__"):
        return place.__array_interface__["data"][0]
    if hasattr(place, "data_ptr"):
        return place.data_ptr()
    if hasattr(place, "__int__"):
        return int(place)
    return np.frombuffer(place, np.uint8).__array_interface__["data"][0]


def _copy(dst: Any, src: Any, size: int) -> bool:
    to, source = _address(dst), _address(src)
    if size and not (to and source):
        return False
    ctypes.memmove(to, source, size)
    return True


def _elapsed_ms(start: _Handle, end: _Handle) -> float:
    return (end.time - start.time) * 1e3


def _make_calls(ok: Any, bad: Any, no_memory: Any, unsupported: Any) -> Dict[str, Callable]:
    """Functions that runtime and driver share; each returns a tuple that begins with a code."""

    def malloc(size: int, *rest: Any) -> tuple:
        try:
            return ok, _allocate(size)
        except MemoryError:
            return no_memory, 0

    def free(memory: Any, *rest: Any) -> tuple:
        _libc.free(_address(memory))
        return (ok,)

    def copy(dst: Any, src: Any, size: int, *rest: Any) -> tuple:
        return (ok if _copy(dst, src, int(size)) else bad,)

    def fill(memory: Any, value: int, size: int, *rest: Any) -> tuple:
        if size and not _address(memory):
            return (bad,)
        ctypes.memset(_address(memory), value, size)
        return (ok,)

    def new_handle(*rest: Any) -> tuple:
        return ok, _Handle()

    def record(event: _Handle, *rest: Any) -> tuple:
        event.time = time.perf_counter()
        return (ok,)

    def nothing(*rest: Any) -> tuple:
        return (ok,)

    def launch(*rest: Any, **keywords: Any) -> tuple:
        return (unsupported,)

    return {
        "malloc": malloc,
        "free": free,
        "copy": copy,
        "fill": fill,
        "new_handle": new_handle,
        "record": record,
        "nothing": nothing,
        "launch": launch,
        "elapsed": lambda start, end: (ok, _elapsed_ms(start, end)),
        "device": lambda *rest: (ok, 0),
        "count": lambda: (ok, 1),
        "memory": lambda: (ok, _MEMORY_BYTES, _MEMORY_BYTES),
        "version": lambda: (ok, 12000),
        "name": lambda code: (ok, code.name.encode()),
        "pool_malloc": lambda size, pool, stream: malloc(size) if _address(pool) else (bad, 0),
        "zero": lambda *rest: (ok, 0),
    }


def _module(name: str, contents: Dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name, __doc__)
    module.__dict__.update(contents)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


_RUNTIME = {
    "malloc": "cudaMalloc cudaMallocHost cudaHostAlloc cudaMallocManaged cudaMallocAsync",
    "free": "cudaFree cudaFreeHost cudaFreeAsync",
    "copy": "cudaMemcpy cudaMemcpyAsync",
    "fill": "cudaMemset cudaMemsetAsync",
    "new_handle": "cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaEventCreate "
    "cudaEventCreateWithFlags cudaMemPoolCreate cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool",
    "pool_malloc": "cudaMallocFromPoolAsync",
    "record": "cudaEventRecord",
    "elapsed": "cudaEventElapsedTime",
    "nothing": "cudaStreamSynchronize cudaStreamDestroy cudaStreamQuery cudaStreamWaitEvent cudaEventDestroy "
    "cudaEventSynchronize cudaEventQuery cudaDeviceSynchronize cudaDeviceReset cudaSetDevice cudaGetLastError "
    "cudaPeekAtLastError cudaHostRegister cudaHostUnregister cudaProfilerStart cudaProfilerStop "
    "cudaMemPoolDestroy cudaMemPoolSetAttribute cudaMemPoolTrimTo cudaDeviceSetMemPool",
    "zero": "cudaDeviceGetAttribute cudaMemPoolGetAttribute",
    "launch": "cudaLaunchKernel cudaGraphLaunch cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate",
    "device": "cudaGetDevice",
    "count": "cudaGetDeviceCount",
    "memory": "cudaMemGetInfo",
    "version": "cudaRuntimeGetVersion cudaDriverGetVersion",
    "name": "cudaGetErrorName cudaGetErrorString",
}
_DRIVER = {
    "malloc": "cuMemAlloc cuMemAllocHost cuMemHostAlloc cuMemAllocManaged cuMemAllocAsync",
    "free": "cuMemFree cuMemFreeHost cuMemFreeAsync",
    "copy": "cuMemcpy cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync "
    "cuMemcpyAsync",
    "fill": "cuMemsetD8 cuMemsetD8Async",
    "new_handle": "cuStreamCreate cuEventCreate cuCtxCreate cuDevicePrimaryCtxRetain cuCtxGetCurrent",
    "record": "cuEventRecord",
    "elapsed": "cuEventElapsedTime",
    "nothing": "cuInit cuStreamSynchronize cuStreamDestroy cuStreamQuery cuStreamWaitEvent cuEventDestroy "
    "cuEventSynchronize cuCtxDestroy cuCtxPushCurrent cuCtxPopCurrent cuCtxSetCurrent cuCtxSynchronize "
    "cuDevicePrimaryCtxRelease",
    "launch": "cuLaunchKernel cuModuleLoadData cuModuleLoad cuModuleGetFunction",
    "device": "cuDeviceGet cuDeviceGetAttribute",
    "count": "cuDeviceGetCount",
    "memory": "cuMemGetInfo",
    "version": "cuDriverGetVersion",
    "name": "cuGetErrorName cuGetErrorString",
}


def _spread(calls: Dict[str, Callable], names: Dict[str, str]) -> Dict[str, Any]:
    return {name: calls[kind] for kind, all_names in names.items() for name in all_names.split()}


# ---- pycuda ----


class DeviceAllocation(int):
    """Memory that is freed with its last reference, as in pycuda."""

    def __new__(cls, size: int) -> "DeviceAllocation":
        return super().__new__(cls, _allocate(size))

    def free(self) -> None:
        if not getattr(self, "_is_free", False):
            self._is_free = True
            _libc.free(int(self))

    def __del__(self) -> None:
        self.free()


class Stream:
    def __init__(self, flags: int = 0) -> None:
        self.handle = int(_Handle())

    def synchronize(self) -> None:
        pass

    def is_done(self) -> bool:
        return True

    def wait_for_event(self, event: "Event") -> None:
        pass


class Event:
    def __init__(self, flags: int = 0) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> "Event":
        self._time = time.perf_counter()
        return self

    def synchronize(self) -> "Event":
        return self

    def query(self) -> bool:
        return True

    def time_since(self, event: "Event") -> float:
        return (self._time - event._time) * 1e3

    def time_till(self, event: "Event") -> float:
        return event.time_since(self)


class Context:
    """The one context; scripts push and pop it."""

    def push(self) -> None:
        pass

    pop = detach = synchronize = push

    @staticmethod
    def get_device() -> "Device":
        return Device(0)


class Device:
    def __init__(self, number: int = 0) -> None:
        self._number = number

    @staticmethod
    def count() -> int:
        return 1

    def make_context(self, flags: int = 0) -> Context:
        return Context()

    retain_primary_context = make_context

    def name(self) -> str:
        return cudaDeviceProp.name.decode()

    def compute_capability(self) -> tuple:
        return (0, 0)

    def total_memory(self) -> int:
        return _MEMORY_BYTES


def _pycuda_copy(dst: Any, src: Any, size: Any = None, stream: Any = None) -> None:
    if size is None or isinstance(size, Stream):
        size = next(memoryview(side).nbytes for side in (src, dst) if not isinstance(side, int))
    if not _copy(dst, src, size):
        raise ValueError("a copy to or from a null pointer")


def _pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
    shape = tuple(shape) if hasattr(shape, "__len__") else shape
    return np.empty(shape, dtype, order)


def _no_kernels(*arguments: Any, **keywords: Any) -> None:
    raise RuntimeError("there is no CUDA device: kernels cannot be compiled or launched")


def _to_device(array: Any) -> DeviceAllocation:
    memory = DeviceAllocation(array.nbytes)
    _pycuda_copy(memory, np.ascontiguousarray(array))
    return memory


def _pycuda_driver() -> Dict[str, Any]:
    return {
        "DeviceAllocation": DeviceAllocation,
        "Stream": Stream,
        "Event": Event,
        "Context": Context,
        "Device": Device,
        "mem_alloc": DeviceAllocation,
        "to_device": _to_device,
        "pagelocked_empty": _pagelocked_empty,
        "pagelocked_zeros": lambda shape, dtype, order="C", mem_flags=0: np.zeros(shape, dtype, order),
        "pagelocked_empty_like": np.empty_like,
        "init": lambda flags=0: None,
        "get_version": lambda: (12, 0, 0),
        "mem_get_info": lambda: (_MEMORY_BYTES, _MEMORY_BYTES),
        "SourceModule": _no_kernels,
        "memset_d8": lambda memory, value, count: ctypes.memset(int(memory), value, count),
        "Error": RuntimeError,
        "LogicError": RuntimeError,
        "MemoryError": MemoryError,
        "RuntimeError": RuntimeError,
        "host_alloc_flags": types.SimpleNamespace(PORTABLE=1, DEVICEMAP=2, WRITECOMBINED=4),
        **{name: _pycuda_copy for name in ("memcpy_htod", "memcpy_dtoh", "memcpy_htod_async", "memcpy_dtoh_async")},
        **{
            name: lambda dst, src, size, stream=None: _pycuda_copy(dst, src, size)
            for name in ("memcpy_dtod", "memcpy_dtod_async")
        },
    }


def install() -> List[str]:
    """Installs the modules in sys.modules; returns their names."""
    runtime = {
        **cuda_types.contents(),
        "cudaDeviceProp": cudaDeviceProp,
        "cudaStream_t": _Handle,
        "cudaEvent_t": _Handle,
        "cudaStreamNonBlocking": 1,
        "cudaStreamDefault": 0,
        "cudaEventDefault": 0,
        "cudaHostAllocDefault": 0,
        "cudaGetDeviceProperties": lambda device: (cudaError_t.cudaSuccess, cudaDeviceProp()),
        **_spread(
            _make_calls(
                cudaError_t.cudaSuccess,
                cudaError_t.cudaErrorInvalidValue,
                cudaError_t.cudaErrorMemoryAllocation,
                cudaError_t.cudaErrorNotSupported,
            ),
            _RUNTIME,
        ),
    }
    driver = {
        "CUresult": CUresult,
        "CUstream": _Handle,
        "CUevent": _Handle,
        "CUcontext": _Handle,
        **cuda_types.INTEGERS,
        "cuDeviceGetName": lambda size, device: (CUresult.CUDA_SUCCESS, cudaDeviceProp.name),
        **_spread(
            _make_calls(
                CUresult.CUDA_SUCCESS,
                CUresult.CUDA_ERROR_INVALID_VALUE,
                CUresult.CUDA_ERROR_OUT_OF_MEMORY,
                CUresult.CUDA_ERROR_NOT_SUPPORTED,
            ),
            _DRIVER,
        ),
    }
    made = [
        _module("cuda", {"__path__": [], "__version__": "12.0"}),
        _module("cuda.bindings", {"__path__": [], "__version__": "12.0"}),
        _module("cuda.bindings.runtime", runtime),
        _module("cuda.bindings.driver", driver),
        _module("cuda.cudart", runtime),
        _module("cuda.cuda", driver),
        _module("cuda.bindings.nvrtc", nvrtc.contents()),
        _module("cuda.nvrtc", nvrtc.contents()),
        _module("pycuda", {"__path__": [], "VERSION": (2024, 1), "VERSION_TEXT": "2024.1"}),
        _module("pycuda.driver", _pycuda_driver()),
        _module("pycuda.autoinit", {"context": Context(), "device": Device(0)}),
        _module("pycuda.autoprimaryctx", {"context": Context(), "device": Device(0)}),
        _module("pycuda.compiler", {"SourceModule": _no_kernels}),
    ]
    return [module.__name__ for module in made]
