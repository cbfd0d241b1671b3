"""EngineModule: an engine on torch tensors, as a torch module."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .._carnot import ffi, lib
from ..convenience import QuietLogger
from ..core import CarnotError, check, to_c_dims, utf8
from ..engine.context import IExecutionContext
from ..engine.pool import ContextPool, default_limit
from ..engine.runtime import Runtime

_DTYPES = {
    "FLOAT": torch.float32, "HALF": torch.float16, "BF16": torch.bfloat16, "INT64": torch.int64, "INT32": torch.int32,
    "INT8": torch.int8, "UINT8": torch.uint8, "BOOL": torch.bool, "FLOAT64": torch.float64, "DOUBLE": torch.float64,
}  # fmt: skip


class _OnDevice:
    """Device memory that torch can view; the engine keeps ownership."""

    _KINDS = {torch.float32: "<f4", torch.float16: "<f2", torch.float64: "<f8", torch.int64: "<i8", torch.int32: "<i4",
              torch.int8: "|i1", torch.uint8: "|u1", torch.bool: "|b1"}  # fmt: skip

    def __init__(self, address: int, shape: Sequence[int], dtype: torch.dtype) -> None:
        kind = self._KINDS[torch.float16 if dtype == torch.bfloat16 else dtype]  # two bytes either way
        self.__cuda_array_interface__ = {"shape": tuple(shape), "typestr": kind, "data": (address, False), "version": 3}


class EngineModule(torch.nn.Module):
    """An engine on torch tensors without copies, in host memory or on one GPU, there in torch's current stream.

    |weights| are the engine's refittable weights by name. After one is changed in place or replaced, the next run
    refits the engine first. Any number of threads may call it at the same time.
    """

    def __init__(self, plan: Any, weights: Dict[str, torch.Tensor], device: torch.device) -> None:
        super().__init__()
        self.device = device
        logger = QuietLogger()
        self.engine = Runtime(logger).deserialize_cuda_engine(plan)
        if self.engine is None:
            raise CarnotError(lib.CARNOT_INVALID_MODEL, "\n".join(logger.errors))
        self._pools: Dict[int, ContextPool] = {}  # by stream: a context's memory is for one stream
        self._lock = threading.Lock()
        self._pool()
        self._held = weights
        self._seen = self._versions()
        tensors = list(self.engine._tensors.values())
        self._inputs = [t for t in tensors if t.is_input]
        self._outputs = [t for t in tensors if not t.is_input]
        self._names = {t.name: i for i, t in enumerate(self._inputs)}

    def _pool(self) -> ContextPool:
        """The contexts for the current stream."""
        is_cuda = self.device.type == "cuda"
        stream = torch.cuda.current_stream(self.device).cuda_stream if is_cuda else 0
        engine, device = self.engine, str(self.device) if is_cuda else None
        with self._lock:
            if stream not in self._pools:
                pool = ContextPool(lambda: IExecutionContext(engine, device=device), 1 if is_cuda else default_limit())
                with pool.use():  # what a context refuses is an error now
                    self._pools[stream] = pool
            return self._pools[stream]

    def _versions(self) -> List[Tuple[int, int]]:
        return [(w.data_ptr(), w._version) for w in self._held.values()]

    def refit(self) -> None:
        """Refits the engine with the current weights."""
        with self._lock:
            self._refit()

    def _refit(self) -> None:
        now = self._versions()
        if now == self._seen:
            return
        made = ffi.new("carnot_refit**")
        check(lib.carnot_refit_begin(self.engine._c, made))
        refit = ffi.gc(made[0], lib.carnot_refit_free)
        kept = []
        for (name, weight), old, new in zip(self._held.items(), self._seen, now):
            if old == new:
                continue
            dtype, dims, data = ffi.new("carnot_dtype*"), ffi.new("carnot_dims*"), ffi.new("const void**")
            check(lib.carnot_refit_weight(refit, utf8(name), dtype, dims, data))
            kept.append(weight.detach().cpu().contiguous())
            check(
                lib.carnot_refit_set_weights(refit, utf8(name), dtype[0], dims, ffi.cast("void*", kept[-1].data_ptr()))
            )
        check(lib.carnot_refit_commit(refit))
        self._seen = now

    def forward(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        self.refit()
        with self._pool().use() as context:
            try:
                return self._run(context._c, inputs)
            finally:
                check(lib.carnot_context_clear_addresses(context._c))

    def _run(self, context: Any, inputs: Tuple[torch.Tensor, ...]) -> Tuple[torch.Tensor, ...]:
        keep = []
        for tensor, value in zip(self._inputs, inputs):
            if value.device != self.device:
                raise RuntimeError(f"input {tensor.name} is on {value.device}; this engine runs on {self.device}")
            value = (
                value.detach().to("cpu" if tensor.is_shape else self.device, _DTYPES[tensor.dtype.name]).contiguous()
            )
            keep.append(value)
            check(
                lib.carnot_context_set_input(
                    context, tensor.c_name, to_c_dims(value.shape), ffi.cast("void*", value.data_ptr())
                )
            )
        check(lib.carnot_context_infer_shapes(context))
        made: List[Optional[torch.Tensor]] = []
        for tensor in self._outputs:
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context, tensor.c_name, dims))
            shape = [dims.d[i] for i in range(dims.rank)]
            if dims.rank < 0 or -1 in shape:
                made.append(None)
                continue
            out = torch.empty(shape, dtype=_DTYPES[tensor.dtype.name], device=self.device)
            made.append(out)
            check(
                lib.carnot_context_set_tensor_address(
                    context, tensor.c_name, ffi.cast("void*", out.data_ptr()), out.numel() * out.element_size()
                )
            )
        if self.device.type == "cuda":
            stream = torch.cuda.current_stream(self.device).cuda_stream
            check(lib.carnot_context_enqueue(context, ffi.cast("void*", stream)))
        else:
            check(lib.carnot_context_run(context))
        for i, tensor in enumerate(self._outputs):  # data-dependent outputs are in the context's memory
            if made[i] is not None:
                continue
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context, tensor.c_name, dims))
            out = torch.empty(
                [dims.d[k] for k in range(dims.rank)], dtype=_DTYPES[tensor.dtype.name], device=self.device
            )
            source = lib.carnot_context_output_data(context, tensor.c_name)
            if out.numel() and self.device.type == "cuda":
                there = _OnDevice(int(ffi.cast("uintptr_t", source)), out.shape, out.dtype)
                out.copy_(torch.as_tensor(there, device=self.device).view(out.dtype))
            elif out.numel():
                ffi.memmove(ffi.cast("void*", out.data_ptr()), source, out.numel() * out.element_size())
            made[i] = out
        return tuple(made)
