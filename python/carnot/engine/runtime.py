"""The runtime: loads engines from memory, streams and files."""

from __future__ import annotations

from typing import Any, Optional

from .._carnot import ffi, lib
from ..core import ALL_THREADS, CarnotError, ILogger, Manual, Reporter, check, note_logger, reported
from ..enums import SeekPosition, TempfileControlFlag
from ..interfaces import IStreamReader, IStreamReaderV2
from ..plugin.registry import get_plugin_registry
from .engine import ICudaEngine


def _read_all(reader: Any) -> bytes:
    """Reads a stream reader to its end."""
    parts = []
    if isinstance(reader, IStreamReaderV2):
        reader.seek(0, SeekPosition.SET)
    while True:
        part = reader.read(1 << 20, 0) if isinstance(reader, IStreamReaderV2) else reader.read(1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(bytes(part))


def _is_foreign(data: Any) -> bool:
    """Whether |data| is a TensorRT plan, possibly behind the JSON header that some exporters add."""
    head = bytes(memoryview(data).cast("B")[:4])
    if head in (b"ftrt", b"ptrt"):
        return True
    size = int.from_bytes(head, "little")
    rest = bytes(memoryview(data).cast("B")[4 : 4 + size + 4]) if 2 <= size < 1 << 20 else b""
    return rest[:1] == b"{" and rest[-4:] in (b"ftrt", b"ptrt")


class Runtime(Reporter, Manual):
    """Deserializes engines."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Runtime takes an ILogger, not {type(logger).__name__}")
        note_logger(logger)
        self._logger = logger
        self.DLA_core = -1
        self._host_code = False
        self.gpu_allocator = None
        self.max_threads = ALL_THREADS
        self.temporary_directory = ""
        self.tempfile_control_flags = (
            1 << TempfileControlFlag.ALLOW_IN_MEMORY_FILES.value | 1 << TempfileControlFlag.ALLOW_TEMPORARY_FILES.value
        )

    @property
    def engine_host_code_allowed(self) -> bool:
        """Whether plugin libraries inside engines may be loaded; a setting of the process."""
        return self._host_code

    @engine_host_code_allowed.setter
    def engine_host_code_allowed(self, allowed: bool) -> None:
        self._host_code = bool(allowed)
        lib.carnot_plugin_allow_engine_code(self._host_code)

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: 0)

    def _deserialize(self, data: Any) -> "ICudaEngine":
        size = memoryview(data).nbytes
        if _is_foreign(data):
            raise CarnotError(lib.CARNOT_UNSUPPORTED, "this is a TensorRT engine; rebuild from ONNX")
        made = ffi.new("carnot_engine**")
        check(lib.carnot_engine_load_memory(ffi.from_buffer(data), size, ffi.NULL, ffi.NULL, made))
        return ICudaEngine(made[0], self)

    @reported(None)
    def deserialize_cuda_engine(self, serialized_engine: Any) -> Optional["ICudaEngine"]:
        data = serialized_engine
        return self._deserialize(_read_all(data) if isinstance(data, (IStreamReader, IStreamReaderV2)) else data)

    def get_plugin_registry(self) -> Any:
        return get_plugin_registry()

    def load_runtime(self, path: str) -> "Runtime":
        self._warn(f"load_runtime: {path} is not loaded; this runtime reads engines of all versions it knows")
        return self
