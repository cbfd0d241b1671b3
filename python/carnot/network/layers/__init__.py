"""The layer classes: their properties, and the nodes of the C graph that each emits."""

from __future__ import annotations

from ..layer import ILayer
from . import (
    assertion,
    attention,
    convolution,
    data_movement,
    fill,
    matmul,
    moe,
    nms,
    normalization,
    plugin,
    pointwise,
    quantization,
    recurrent,
    reduction,
    resize,
    unsupported,
)
from .convolution import window_defaults

_MODULES = (
    moe,
    unsupported,
    data_movement,
    plugin,
    pointwise,
    matmul,
    normalization,
    reduction,
    attention,
    recurrent,
    resize,
    nms,
    fill,
    quantization,
    assertion,
    convolution,
)
_CLASSES = {
    name: kind
    for module in _MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, ILayer) and not name.startswith("_")
}
globals().update(_CLASSES)
__all__ = [*_CLASSES]
