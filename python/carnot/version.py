"""The version of the package, and the TensorRT version that scripts see; 10.x has weak typing."""

from __future__ import annotations

import os
import re

CARNOT_VERSION = "0.1.0"
_TEXT = os.environ.get("CARNOT_TRT_VERSION", "10.3.0")
if not re.fullmatch(r"(8|10|11)\.\d+(\.\d+){0,2}", _TEXT):
    raise ImportError(f"CARNOT_TRT_VERSION is {_TEXT!r}, must be a version of TensorRT as 8.6.1, 10.3.0 or 11.1.0")
TENSORRT_VERSION = tuple(map(int, _TEXT.split(".")))
VERSION = f"{_TEXT}+carnot{CARNOT_VERSION}"
