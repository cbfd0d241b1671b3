"""Shared by all modules: status checks, errors, loggers, error recorders, conversion of dimensions."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Optional

from ._carnot import ffi, lib
from .enums import ErrorCodeTRT, Severity

CODES = {
    lib.CARNOT_INVALID_ARGUMENT: ErrorCodeTRT.INVALID_ARGUMENT,
    lib.CARNOT_OUT_OF_RANGE: ErrorCodeTRT.INVALID_ARGUMENT,
    lib.CARNOT_INVALID_MODEL: ErrorCodeTRT.INVALID_ARGUMENT,
    lib.CARNOT_UNSUPPORTED: ErrorCodeTRT.UNSUPPORTED_STATE,
    lib.CARNOT_FAILED_PRECONDITION: ErrorCodeTRT.INVALID_STATE,
    lib.CARNOT_OUT_OF_MEMORY: ErrorCodeTRT.FAILED_ALLOCATION,
    lib.CARNOT_VERSION_MISMATCH: ErrorCodeTRT.FAILED_INITIALIZATION,
    lib.CARNOT_INTERNAL: ErrorCodeTRT.INTERNAL_ERROR,
}


class CarnotError(RuntimeError):
    """An error of the library with its code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def utf8(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a name must be str, not {type(name).__name__}")
    return name.encode()


class _Kept(threading.local):
    error: Optional[BaseException] = None


_kept = _Kept()


def keep_error(error: BaseException) -> None:
    """Stores the exception of a plugin's function until this thread's next check; C cannot propagate it."""
    if _kept.error is None:
        _kept.error = error


def check(status: Any) -> None:
    """Raises the stored exception of a plugin, or the error of a carnot_status."""
    error, _kept.error = _kept.error, None
    if error is not None:
        lib.carnot_status_free(status)
        raise error
    if status:
        code, message = lib.carnot_status_code(status), text(lib.carnot_status_message(status))
        lib.carnot_status_free(status)
        raise CarnotError(code, message)


def address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def to_c_dims(dims: Any) -> Any:
    values = [int(d) for d in dims]
    if len(values) > lib.CARNOT_MAX_RANK:
        raise ValueError(f"{len(values)} dimensions, at most {lib.CARNOT_MAX_RANK}")
    made = ffi.new("carnot_dims*")
    made.rank = len(values)
    for i, d in enumerate(values):
        made.d[i] = d
    return made


class ILogger:
    """The logger interface. Subclasses override log."""

    Severity = Severity

    def __init__(self) -> None:
        pass

    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError("ILogger.log must be overridden")


class Logger(ILogger):
    """Prints messages up to a severity to stderr."""

    def __init__(self, min_severity: Severity = Severity.WARNING) -> None:
        super().__init__()
        if not isinstance(min_severity, Severity):
            raise TypeError(f"min_severity must be a Logger.Severity, not {type(min_severity).__name__}")
        self.min_severity = min_severity

    def log(self, severity: Severity, msg: str) -> None:
        if severity.value <= self.min_severity.value:
            import datetime
            import sys

            stamp = datetime.datetime.now().strftime("%m/%d/%Y-%H:%M:%S")
            print(f"[{stamp}] [TRT] [{'F' if not severity.value else severity.name[0]}] {msg}", file=sys.stderr)


_global_logger: Any = None


def note_logger(logger: ILogger) -> None:
    """Registers |logger| as the process-wide logger unless one is alive."""
    global _global_logger
    if _global_logger is None or _global_logger() is None:
        _global_logger = weakref.ref(logger)


def global_logger() -> Optional[ILogger]:
    return None if _global_logger is None else _global_logger()


for _level in Severity:
    setattr(ILogger, _level.name, _level)
Severity.__qualname__ = "ILogger.Severity"


class IErrorRecorder:
    """The error recorder interface."""

    MAX_DESC_LENGTH = 127

    def __init__(self) -> None:
        pass

    def num_errors(self) -> int:
        raise NotImplementedError

    def get_error_code(self, index: int) -> ErrorCodeTRT:
        raise NotImplementedError

    def get_error_desc(self, index: int) -> str:
        raise NotImplementedError

    def has_overflowed(self) -> bool:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def report_error(self, code: ErrorCodeTRT, description: str) -> bool:
        raise NotImplementedError


class Reporter:
    """Base of objects that report failures to their logger and error recorder instead of raising."""

    _logger: Optional[ILogger] = None
    _recorder: Optional[IErrorRecorder] = None

    @property
    def error_recorder(self) -> Optional[IErrorRecorder]:
        return self._recorder

    @error_recorder.setter
    def error_recorder(self, recorder: Optional[IErrorRecorder]) -> None:
        if recorder is not None and not isinstance(recorder, IErrorRecorder):
            raise TypeError(f"error_recorder must be an IErrorRecorder, not {type(recorder).__name__}")
        self._recorder = recorder

    def _log(self, severity: Severity, message: str) -> None:
        if self._logger is not None:
            self._logger.log(severity, message)

    def _fail(self, error: Any, what: str = "") -> None:
        code = CODES.get(getattr(error, "code", None), ErrorCodeTRT.UNSPECIFIED_ERROR)
        message = f"{what}: {error}" if what else str(error)
        if self._recorder is not None:
            self._recorder.report_error(code, message)
        self._log(Severity.ERROR, message)

    def _warn(self, message: str) -> None:
        self._log(Severity.WARNING, message)


def reported(failed: Any) -> Any:
    """A decorator: a CarnotError of the method is reported to logger and recorder, and |failed| is returned."""

    def wrap(method: Any) -> Any:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **keywords: Any) -> Any:
            try:
                return method(self, *args, **keywords)
            except CarnotError as error:
                self._fail(error, f"{type(self).__name__}.{method.__name__}")
                return list(failed) if isinstance(failed, list) else failed

        return call

    return wrap


class Manual:
    """A context manager without effect; scripts use these objects in with-statements."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *what: Any) -> None:
        pass

    def __del__(self) -> None:
        pass


class Calls:
    """Stores exceptions of callbacks and raises them after the C call; C cannot propagate them.

    The handle for C and the owner are held weakly: an object that has callbacks is freed without the cycle collector.
    """

    def __init__(self, owner: Any) -> None:
        self.error: Optional[BaseException] = None
        self._owner = weakref.ref(owner)
        self.handle = ffi.new_handle(weakref.ref(self))

    owner = property(lambda self: self._owner())

    @staticmethod
    def of(handle: Any) -> Any:
        """The object behind a handle that C passes to a callback."""
        return ffi.from_handle(handle)()

    def guard(self, function: Any, *args: Any, failed: Any = None) -> Any:
        if self.error is not None:
            return failed
        try:
            return function(*args)
        except BaseException as error:  # noqa: B902 - KeyboardInterrupt too must reach the caller
            self.error = error
            return failed

    def raise_kept(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


# The number of threads that takes CARNOT_THREADS, else all CPUs.
ALL_THREADS = 0
