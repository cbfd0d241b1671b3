"""Runs scripts written for TensorRT unchanged: python -m carnot.alias script.py, or -m module.

`import tensorrt` imports carnot in this process; --install makes it so in every process of the environment. The
libraries that scripts open by name (libnvinfer.so, libnvinfer_plugin.so, ...) are empty stand-ins. Without a CUDA
driver, stand-ins on host memory replace the CUDA modules that such scripts import (cuda.bindings, cuda.cudart,
cuda.cuda, pycuda) and libcudart.so.
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
        return distributions(context)


def distributions(context: Any) -> List[_Distribution]:
    """What importlib.metadata finds for the name in |context|; all names where it has none."""
    return [_Distribution()] if getattr(context, "name", None) in (None, "tensorrt") else []


def _add_libraries(folder: str) -> None:
    """Makes the stand-in libraries in |folder| known to child processes."""
    folders = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part and part != folder]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join([folder, *folders])


_opened: List[Any] = []  # the dynamic linker finds an open library by its name


def _open_libraries(folder: str) -> None:
    if not _opened:
        _opened.extend(ctypes.CDLL(os.path.join(folder, name)) for name in sorted(os.listdir(folder)))


def install(stand_ins: Optional[bool] = None) -> None:
    """Makes `import tensorrt` import carnot in this process. |stand_ins| None: only without a driver."""
    sys.modules["tensorrt"] = sys.modules["tensorrt.tensorrt"] = sys.modules["tensorrt_bindings"] = carnot
    sys.modules["tensorrt.plugin"] = carnot.plugin
    sys.modules["uff"] = importlib.import_module("carnot.alias.uff")
    carnot.tensorrt = carnot
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    libraries = os.path.join(os.path.dirname(carnot.__file__), "stand_in")
    _add_libraries(os.path.join(libraries, "nvinfer"))
    _open_libraries(os.path.join(libraries, "nvinfer"))
    if has_driver() if stand_ins is None else not stand_ins:
        return
    from . import cuda_host

    cuda_host.install()
    _add_libraries(libraries)


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


_USAGE = """usage: python -m carnot.alias SCRIPT [ARGUMENTS] | -m MODULE [ARGUMENTS] | -c COMMAND [ARGUMENTS]
       python -m carnot.alias --install    every process of this environment, until
       python -m carnot.alias --uninstall"""


def _change_environment(option: str) -> None:
    from .environment import install_everywhere, uninstall_everywhere

    try:
        paths = install_everywhere() if option == "--install" else uninstall_everywhere()
    except OSError as error:
        raise SystemExit(f"carnot.alias {option}: {error}") from None
    for path in paths:
        print("wrote" if option == "--install" else "removed", path)
    if not paths:
        print("the alias is not installed in this environment")


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        raise SystemExit(0 if arguments else 2)
    if arguments[0] in ("--install", "--uninstall"):
        if len(arguments) > 1:
            raise SystemExit(f"carnot.alias: {arguments[0]} takes no argument, '{arguments[1]}' was given")
        _change_environment(arguments[0])
        return
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
