"""The layer classes: what a user may read and set of each, and how it becomes nodes of the C graph."""

from __future__ import annotations

from . import experts, later, movement, plugin, pointwise, products, recurrent, sample, windows
from .base import Emitter, ILayer
from .windows import window_defaults

_CLASSES = {
    name: kind
    for part in (experts, later, movement, plugin, pointwise, products, recurrent, sample, windows)
    for name, kind in vars(part).items()
    if isinstance(kind, type) and issubclass(kind, ILayer) and not name.startswith("_")
}
globals().update(_CLASSES)
__all__ = [*_CLASSES]
