"""A stand-in of NVRTC's Python module: programs can be created, compiling one fails and its log says why."""

from __future__ import annotations

import enum
from typing import Any, Dict

_REASON = b"there is no CUDA device: kernels cannot be compiled"


class nvrtcResult(enum.IntEnum):  # noqa: N801 - NVRTC's name, as all below
    NVRTC_SUCCESS = 0
    NVRTC_ERROR_OUT_OF_MEMORY = 1
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2
    NVRTC_ERROR_INVALID_INPUT = 3
    NVRTC_ERROR_INVALID_PROGRAM = 4
    NVRTC_ERROR_INVALID_OPTION = 5
    NVRTC_ERROR_COMPILATION = 6
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7
    NVRTC_ERROR_INTERNAL_ERROR = 11


class nvrtcProgram:  # noqa: N801
    """A program that was never compiled."""


def _done(*results: Any) -> tuple:
    return (nvrtcResult.NVRTC_SUCCESS, *results)


def _log(program: Any, log: Any) -> tuple:
    memoryview(log)[: len(_REASON)] = _REASON
    return _done()


def _failed(*arguments: Any) -> tuple:
    return (nvrtcResult.NVRTC_ERROR_COMPILATION,)


def _failed_size(*arguments: Any) -> tuple:
    return nvrtcResult.NVRTC_ERROR_COMPILATION, 0


def contents() -> Dict[str, Any]:
    """The names of the module."""
    return {
        "nvrtcResult": nvrtcResult,
        "nvrtcProgram": nvrtcProgram,
        "nvrtcGetErrorString": lambda result: _done(nvrtcResult(result).name.encode()),
        "nvrtcVersion": lambda: _done(12, 0),
        "nvrtcGetNumSupportedArchs": lambda: _done(0),
        "nvrtcGetSupportedArchs": lambda: _done([]),
        "nvrtcCreateProgram": lambda *arguments: _done(nvrtcProgram()),
        "nvrtcDestroyProgram": lambda program: _done(),
        "nvrtcAddNameExpression": lambda program, name: _done(),
        "nvrtcGetProgramLogSize": lambda program: _done(len(_REASON)),
        "nvrtcGetProgramLog": _log,
        "nvrtcCompileProgram": _failed,
        "nvrtcGetPTX": _failed,
        "nvrtcGetCUBIN": _failed,
        "nvrtcGetLoweredName": _failed_size,
        "nvrtcGetPTXSize": _failed_size,
        "nvrtcGetCUBINSize": _failed_size,
    }
