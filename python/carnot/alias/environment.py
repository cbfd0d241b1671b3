"""Installs the alias in a Python environment, for child processes, console scripts and notebooks."""

from __future__ import annotations

import os
import shutil
import sysconfig
from typing import List

import carnot

_MODULE = "carnot_tensorrt_hook"
_PTH = "carnot_tensorrt.pth"


def _folder() -> str:
    return sysconfig.get_path("purelib")


def _lines() -> str:
    """The .pth file: the folder of carnot where it is not installed in this environment, and the hook."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(carnot.__file__)))
    known = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return ("" if os.path.realpath(home) in known else home + "\n") + f"import {_MODULE}\n"


def install_everywhere() -> List[str]:
    """Writes the hook and its .pth file into the environment's site-packages; returns their paths."""
    module, pth = os.path.join(_folder(), _MODULE + ".py"), os.path.join(_folder(), _PTH)
    shutil.copyfile(os.path.join(os.path.dirname(__file__), "hook.py"), module)
    with open(pth, "w") as file:
        file.write(_lines())
    return [module, pth]


def uninstall_everywhere() -> List[str]:
    """Removes what install_everywhere wrote; returns the paths that were there."""
    removed = []
    for name in (_PTH, _MODULE + ".py"):
        path = os.path.join(_folder(), name)
        if os.path.exists(path):
            os.remove(path)
            removed.append(path)
    return removed
