"""libcarnot_runtime.so by ctypes: engines and contexts whose tensors and streams are PyTorch's."""

from __future__ import annotations

import ctypes
from typing import Any


class Dims(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("d", ctypes.c_int64 * 8)]


class Info(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("is_input", ctypes.c_bool),
        ("is_shape", ctypes.c_bool),
        ("dtype", ctypes.c_int),
        ("format", ctypes.c_int),
        ("dims", Dims),
        ("dim_names", ctypes.c_char_p * 8),
    ]


class Runtime:
    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.carnot_status_message.restype = ctypes.c_char_p

    def call(self, name: str, *args: object) -> None:
        function = getattr(self.lib, name)
        function.restype = ctypes.c_void_p
        status = function(*args)
        if status:
            raise RuntimeError(f"{name}: {self.lib.carnot_status_message(ctypes.c_void_p(status)).decode()}")

    def load(self, path: str) -> ctypes.c_void_p:
        engine = ctypes.c_void_p()
        self.call("carnot_engine_load_file", path.encode(), ctypes.byref(engine))
        return engine


class Context:
    """One context whose inputs and outputs are PyTorch tensors."""

    def __init__(self, runtime: Runtime, engine: ctypes.c_void_p) -> None:
        self.runtime, self.handle = runtime, ctypes.c_void_p()
        runtime.call("carnot_context_create", engine, None, ctypes.byref(self.handle))

    def set(self, name: str, t: Any, shape: bool = False) -> None:
        if shape:
            dims = Dims(t.dim(), tuple(t.shape))
            self.runtime.call("carnot_context_set_input_shape", self.handle, name.encode(), ctypes.byref(dims))
        self.runtime.call(
            "carnot_context_set_tensor_address",
            self.handle,
            name.encode(),
            ctypes.c_void_p(t.data_ptr()),
            ctypes.c_size_t(t.numel() * t.element_size()),
        )

    def bind(self, x: Any, y: Any, output: str) -> None:
        self.set("x", x, shape=True)
        self.set(output, y)

    def enqueue(self, stream: Any) -> None:
        self.runtime.call("carnot_context_enqueue", self.handle, ctypes.c_void_p(stream.cuda_stream))
