"""Runs scripts written for TensorRT unchanged: python -m carnot.alias script.py, or -m module.

`import tensorrt` imports carnot in this process. Without a CUDA driver, stand-ins on host memory replace the CUDA
modules that such scripts import (cuda.bindings, cuda.cudart, cuda.cuda, pycuda) and libcudart.so.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import runpy
import sys
from typing import Any, List, Optional

import carnot
import carnot.plugin


def has_driver() -> bool:
    """Whether there is a CUDA driver with a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


class _Distribution(importlib.metadata.Distribution):
    """Presents the alias as a distribution called tensorrt."""

    def read_text(self, filename: str) -> Optional[str]:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: tensorrt\nVersion: {carnot.__version__}\n"
        return None

    def locate_file(self, path: Any) -> Any:
        return os.path.join(os.path.dirname(carnot.__file__), path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the installed modules for importlib.util.find_spec and metadata."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None

    def find_distributions(self, context: Any = None) -> List[_Distribution]:
        return [_Distribution()] if getattr(context, "name", None) in (None, "tensorrt") else []


def install(stand_ins: Optional[bool] = None) -> None:
    """Makes `import tensorrt` import carnot in this process. |stand_ins| None: only without a driver."""
    sys.modules["tensorrt"] = sys.modules["tensorrt.tensorrt"] = sys.modules["tensorrt_bindings"] = carnot
    sys.modules["tensorrt.plugin"] = carnot.plugin
    carnot.tensorrt = carnot
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if has_driver() if stand_ins is None else not stand_ins:
        return
    from . import cuda_host

    cuda_host.install()
    folder = os.path.join(os.path.dirname(carnot.__file__), "stand_in")
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))


def _run_module(name: str) -> None:
    """Runs a module, or the console script of a package without __main__."""
    if importlib.util.find_spec(name) is None:
        raise SystemExit(f"carnot.alias: there is no module {name}")
    has_main = (
        importlib.util.find_spec(name).submodule_search_locations is None
        or importlib.util.find_spec(name + ".__main__") is not None
    )
    if has_main:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    scripts = importlib.metadata.entry_points()
    scripts = scripts.select(group="console_scripts") if hasattr(scripts, "select") else scripts["console_scripts"]
    for script in scripts:
        if script.name == name:
            sys.argv[0] = name
            sys.exit(script.load()())
    raise SystemExit(f"carnot.alias: {name} has neither a __main__ nor a console script of its name")


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m carnot.alias SCRIPT [ARGUMENTS] | -m MODULE [ARGUMENTS] | -c COMMAND [ARGUMENTS]")
        raise SystemExit(0 if arguments else 2)
    install()
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        raise SystemExit(f"carnot.alias: {arguments[0]} needs an argument")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        _run_module(arguments[1])
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
