"""Types of tensors inside loops and conditionals that are still being built.

A loop becomes a node when it is complete. Before that the layers of its body are emitted on placeholders (the initial
value of a recurrence, a slice of an iterator's tensor), asked for their types, and removed again.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from .._carnot import ffi, lib
from ..core import CarnotError, check
from ..enums import LayerType
from .emitter import Emitter

_NO_VALUE = (LayerType.TRIP_LIMIT, LayerType.LOOP_OUTPUT, LayerType.CONDITION, LayerType.CONDITIONAL_OUTPUT)


def _emit(e: Emitter, layer: Any) -> Any:
    if layer.type == LayerType.RECURRENCE:
        return [e.add("loop_recurrence", e.value(layer._inputs[0]))]
    if layer.type == LayerType.ITERATOR:
        return [e.add("loop_iterator", e.value(layer._inputs[0]), layer.axis, layer.reverse)]
    if layer.type == LayerType.CONDITIONAL_INPUT:
        return [e.add("conditional_input", e.value(layer._inputs[0]))]
    return layer._emit(e)


def _find(network: Any, tensor: Any) -> Optional[Tuple[Any, Any]]:
    e = Emitter(network)
    for layer in network._layers:
        if layer.type in _NO_VALUE or all(t is None or t._value is not None for t in layer._outputs):
            continue
        try:
            values: Dict[int, Any] = dict(zip(map(id, layer._outputs), _emit(e, layer)))
        except CarnotError:
            continue  # it reads what is not known yet
        e.env.update(values)
        if id(tensor) in values:
            value = values[id(tensor)]
            return lib.carnot_value_dtype(value), lib.carnot_value_dims(value)
    return None


def find_inner_type(network: Any, tensor: Any) -> Optional[Tuple[Any, Any]]:
    """The C data type and dimensions of |tensor|, which has no value yet; None where they are not known."""
    if not network._loops:
        return None
    check(lib.carnot_network_insert_before(network._c, ffi.NULL))
    before = lib.carnot_network_last_layer(network._c)
    try:
        return _find(network, tensor)
    finally:
        while True:
            last = lib.carnot_network_last_layer(network._c)
            if not last or last == before:
                break
            check(lib.carnot_layer_remove(network._c, last))
