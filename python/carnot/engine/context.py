"""Execution contexts: each runs an engine, one run at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .._carnot import ffi, lib
from ..core import ALL_THREADS, Calls, CarnotError, Manual, Reporter, check, reported, text, to_c_dims
from ..enums import ProfilingVerbosity, TensorFormat, TensorLocation
from ..interfaces import IDebugListener, IOutputAllocator, IProfiler
from ..types import Dims
from .config import IRuntimeConfig

if TYPE_CHECKING:
    from .engine import ICudaEngine, _Tensor

_ANY_SIZE = (1 << 63) - 1
_executor: Any = None
_executor_lock = threading.Lock()


def _shared_executor() -> Any:
    """The executor (thread pool) of all contexts of this process."""
    global _executor
    with _executor_lock:
        if _executor is None:
            made = ffi.new("carnot_executor**")
            check(lib.carnot_executor_create(ALL_THREADS, made))
            _executor = made[0]
        return _executor


def new_executor(threads: int) -> Any:
    """An executor of |threads| threads, the caller included; 0 takes one for each CPU."""
    made = ffi.new("carnot_executor**")
    check(lib.carnot_executor_create(threads, made))
    return ffi.gc(made[0], lib.carnot_executor_destroy)


class IExecutionContext(Reporter, Manual):
    """Runs an engine, one run at a time. CPU engines run synchronously.

    A context is for one thread at a time; a call while another thread's call is in progress fails. |host_tensors|:
    tensors of a CUDA engine are in host memory; each run copies them. |device|: the GPU, as "cuda:1". |executor|: the
    threads of runs; None takes those that all contexts of the process share.
    """

    def __init__(
        self, engine: ICudaEngine, host_tensors: bool = False, device: Optional[str] = None, executor: Any = None
    ) -> None:
        executor = executor or _shared_executor()
        config = ffi.new("carnot_context_config*", {"executor": executor, "host_tensors": host_tensors})
        name = ffi.NULL if device is None else ffi.new("char[]", device.encode())
        config.device = name
        self._in_streams = engine._on_device and not host_tensors
        self._stream = 0
        made = ffi.new("carnot_context**")
        check(lib.carnot_context_create(engine._c, config, made))
        # The destructor holds the executor, which must outlive the context.
        self._c = ffi.gc(made[0], lambda context, executor=executor: lib.carnot_context_destroy(context))
        self._engine = engine
        self._logger, self._recorder = engine._logger, engine._recorder
        self._calls = Calls(self)
        self._profile = 0
        self._shapes: Dict[str, Dims] = {
            t.name: t.dims for t in self._inputs() if t.dims._d is not None and -1 not in t.dims
        }
        self._addresses: Dict[str, int] = {}
        self._waiting: set = set()  # inputs whose address is not passed to C yet
        self._values: Dict[str, Any] = {}  # of shape inputs set by TensorRT 8.6's functions
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

    def _close(self) -> None:
        """Frees the context now."""
        ffi.release(self._c)

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
            except CarnotError:  # data-dependent shapes, or shape values that are not set yet
                pass
        dims = ffi.new("carnot_dims*")
        check(lib.carnot_context_tensor_dims(self._c, tensor.c_name, dims))
        return Dims._of_c(dims)

    @reported(None)
    def get_tensor_strides(self, name: str) -> Optional[Dims]:
        """Strides in elements; of vectorized formats in vectors. -1 where the shape is not known."""
        shape, tensor = self.get_tensor_shape(name), self._engine._find(name)
        if tensor.format != TensorFormat.LINEAR and -1 not in shape:
            return Dims(list(tensor.layout(shape).strides[0 : len(shape)]))
        if tensor.format != TensorFormat.LINEAR:
            return Dims([-1] * len(shape))
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
        check(
            lib.carnot_context_set_tensor_address(
                self._c, tensor.c_name, ffi.cast("void*", int(memory or 0)), _ANY_SIZE if memory else 0
            )
        )
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def _give_addresses(self, outputs: bool = True) -> None:
        """Passes the addresses of inputs to C, which needs the shapes first."""
        for name in list(self._waiting):
            tensor = self._engine._tensors[name]
            if name not in self._shapes:
                continue
            check(
                lib.carnot_context_set_input(
                    self._c, tensor.c_name, to_c_dims(self._shapes[name]), ffi.cast("void*", self._addresses[name])
                )
            )
            self._waiting.discard(name)
        for tensor in self._inputs():
            if outputs and not self._addresses.get(tensor.name) and 0 not in self._shapes.get(tensor.name, (0,)):
                raise CarnotError(
                    lib.CARNOT_FAILED_PRECONDITION, f"input {tensor.name} has no address: call set_tensor_address first"
                )

    @property
    def all_binding_shapes_specified(self) -> bool:
        return all(t.name in self._shapes for t in self._inputs())

    @property
    def all_shape_inputs_specified(self) -> bool:
        return all(t.name in self._addresses for t in self._inputs() if t.is_shape)

    def infer_shapes(self) -> List[str]:
        missing = [
            t.name
            for t in self._inputs()
            if t.name not in self._shapes or (t.is_shape and not self._addresses.get(t.name))
        ]
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
        """Bytes of output |name| at the current shapes; -1 if the size is data-dependent."""
        shape = self.get_tensor_shape(name)
        if shape is None or shape._d is None or -1 in shape:
            return -1
        return self._engine._find(name).layout(shape).bytes

    def update_device_memory_size_for_shapes(self) -> int:
        return self._engine.device_memory_size

    def set_device_memory(self, memory: int, size: int) -> None:
        self.device_memory = memory

    # ---- bindings by index (TensorRT 8.6) ----

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

        from ..types import nptype

        name = self._name(binding)
        self._values[name] = np.ascontiguousarray(shape, nptype(self._engine._tensors[name].dtype))
        return self.set_tensor_address(name, self._values[name].ctypes.data)

    def get_shape(self, binding: Any) -> List[int]:
        return [int(v) for v in self._values.get(self._name(binding), [])]

    # ---- data-dependent outputs ----

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
        check(
            lib.carnot_context_set_output_allocator(
                self._c, tensor.c_name, lib.carnot_py_allocate, lib.carnot_py_notify, self._calls.handle
            )
        )
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

    def record_timeline(self, runs: int = 4) -> str:
        """Runs |runs| times and returns the timeline of the last run as JSON in Chrome's trace format.

        Perfetto (ui.perfetto.dev), chrome://tracing and `carnot report --profile` read it: the layers on the calling
        thread, the share of each worker, and on a GPU the stream with its layers, graphs and copies. Addresses of all
        tensors must be set. Raises CarnotError.
        """
        self._give_addresses()
        return self._record_timeline(runs)

    def _record_timeline(self, runs: int) -> str:
        text = ffi.new("char**")
        check(lib.carnot_context_record_timeline(self._c, runs, text))
        try:
            return ffi.string(text[0]).decode("utf-8", "replace")
        finally:
            lib.carnot_memory_free(text[0])

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
            data = int(ffi.cast("uintptr_t", lib.carnot_context_output_data(self._c, tensor.c_name)))
            place = TensorLocation.DEVICE if self._in_streams else TensorLocation.HOST
            if self._listener.process_debug_tensor(data, place, tensor.dtype, Dims._of_c(dims), name, stream) is False:
                return False
        return True

    # ---- running ----

    def _run(self, emits: bool, stream: int = 0, wait: bool = False) -> bool:
        self._stream = stream
        try:
            self._give_addresses()
            self._times = []
            if self._in_streams:
                check(lib.carnot_context_enqueue(self._c, ffi.cast("void*", stream)))
                if wait:
                    check(lib.carnot_context_wait(self._c, ffi.cast("void*", stream)))
            else:
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
        return self._bind(bindings) and self._run(emits=True, wait=True)

    def execute_async_v2(self, bindings: Any, stream_handle: int, input_consumed: Any = None) -> bool:
        return self._bind(bindings) and self._run(self.enqueue_emits_profile, int(stream_handle))

    def execute(self, batch_size: int = 1, bindings: Any = ()) -> bool:
        return self.execute_v2(bindings)

    def execute_async(
        self, batch_size: int = 1, bindings: Any = (), stream_handle: int = 0, input_consumed: Any = None
    ) -> bool:
        return self.execute_async_v2(bindings, stream_handle)

    def execute_async_v3(self, stream_handle: int = 0) -> bool:
        return self._run(self.enqueue_emits_profile, int(stream_handle))

    # ---- streams ----

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
    return allocator.reallocate_output_async(name, current, size, 64, context._stream) or 0


@ffi.def_extern()
def carnot_py_allocate(user: Any, name: Any, current: Any, size: int) -> Any:
    calls = Calls.of(user)
    got = calls.guard(_allocate, calls.owner, text(name), int(ffi.cast("uintptr_t", current)), size, failed=0)
    return ffi.cast("void*", got or 0)


@ffi.def_extern()
def carnot_py_notify(user: Any, name: Any, dims: Any) -> None:
    calls = Calls.of(user)
    calls.guard(calls.owner._allocators[text(name)].notify_shape, text(name), Dims._of_c(dims))


@ffi.def_extern()
def carnot_py_profile(user: Any, step: Any, time_ns: int) -> None:
    Calls.of(user).owner._times.append((text(step), time_ns / 1e6))


@ffi.def_extern()
def carnot_py_cancel(user: Any) -> bool:
    calls = Calls.of(user)
    return calls.error is not None or bool(calls.guard(calls.owner._cancel, failed=True))
