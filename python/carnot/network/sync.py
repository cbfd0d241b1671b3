"""Synchronization of layers with the C graph: emits the nodes of new and changed layers."""

from __future__ import annotations

from typing import Any, List

from .._carnot import ffi, lib
from ..core import CarnotError, check, utf8
from ..enums import LayerType
from ..types import Weights, to_c_dtype
from .emitter import Emitter


def mark_readers(network: Any, tensor: Any) -> None:
    """Marks the layers below |tensor| as dirty, except imported ones."""
    seen, waiting = set(), [tensor]
    while waiting:
        one = waiting.pop()
        for layer in network._layers:
            if one not in layer._inputs or layer in seen:
                continue
            seen.add(layer)
            if not layer._imported:
                layer._dirty = True
            waiting += [t for t in layer._outputs if t is not None]


def mark_weights(network: Any, weights: Weights) -> None:
    at = weights._array.__array_interface__["data"][0]
    for layer in network._layers:
        for value in layer._p.values():
            if (
                isinstance(value, Weights)
                and value._array is not None
                and value._array.__array_interface__["data"][0] == at
            ):
                layer._dirty = True


def make_dirty(network: Any, strict: bool) -> None:
    """Emits the nodes of dirty layers in dependency order. Strict: raises where a layer cannot be emitted."""
    units = (
        {layer: unit for unit in reversed(network._loops) for layer in (*unit._own, *unit._members())}
        if network._loops
        else {}
    )
    if not any(layer._dirty for layer in network._layers):
        return
    busy: List[Any] = []

    def make(layer: Any) -> None:
        unit = units.get(layer)
        group = [*unit._own, *unit._members()] if unit else [layer]
        if not any(one._dirty for one in group) or (unit and not strict and not unit._is_complete()):
            return
        if layer in busy:
            raise CarnotError(lib.CARNOT_INVALID_MODEL, f"layer {layer._name} depends on its own output")
        if unit is None and any(t is not None and t._producer is layer for t in layer._inputs):
            raise CarnotError(lib.CARNOT_INVALID_MODEL, f"layer {layer._name} depends on its own output")
        busy.extend(group)
        for one in group:
            for tensor in one._inputs:
                if tensor is not None and tensor._producer is not None and tensor._producer not in group:
                    make(tensor._producer)
        _make_nodes(network, layer, unit, group)
        del busy[-len(group) :]

    for layer in list(network._layers):
        try:
            make(layer)
        except CarnotError as error:
            busy.clear()
            if strict:
                raise CarnotError(error.code, f"layer {layer._name}: {error}") from None
            lib.carnot_status_free(lib.carnot_network_insert_before(network._c, ffi.NULL))


def _nodes_between(network: Any, before: Any, position: Any) -> List[Any]:
    node = lib.carnot_layer_next(before) if before else lib.carnot_network_first_layer(network._c)
    found = []
    while node and node != position:
        found.append(node)
        node = lib.carnot_layer_next(node)
    return found


def _remove(network: Any, before: Any, position: Any) -> None:
    for node in reversed(_nodes_between(network, before, position)):
        check(lib.carnot_layer_remove(network._c, node))


def _make_nodes(network: Any, layer: Any, unit: Any, group: List[Any]) -> None:
    owner = unit or layer
    position = owner._nodes[0] if owner._nodes else ffi.NULL
    check(lib.carnot_network_insert_before(network._c, position))
    before = lib.carnot_layer_previous(position) if position else lib.carnot_network_last_layer(network._c)
    emitter = Emitter(network)
    try:
        if unit:
            network._inner_values = {}
            values = unit._emit(emitter)
            made = [(t, values.get(id(t), network._inner_values.get(id(t)))) for one in group for t in one._outputs]
        else:
            made = list(zip(layer._outputs, layer._emit(emitter)))
    except (IndexError, KeyError) as error:
        _remove(network, before, position)
        raise CarnotError(lib.CARNOT_INVALID_ARGUMENT, f"its inputs or properties do not fit: {error!r}") from error
    except Exception:
        _remove(network, before, position)
        raise
    finally:
        lib.carnot_status_free(lib.carnot_network_insert_before(network._c, ffi.NULL))
    nodes = _nodes_between(network, before, position)
    inner = {id(t) for t, _ in made} - {id(t) for one in (unit._own if unit else group) for t in one._outputs}
    for tensor, value in made:
        old, tensor._value = tensor._value, value
        if value is None or id(tensor) in inner or (unit and tensor._producer._type not in _UNIT_OUTPUTS):
            continue
        if old is not None:
            check(lib.carnot_network_replace_value(network._c, old, value))
        check(lib.carnot_value_set_name(value, utf8(tensor._name)))
    for node in reversed(owner._nodes):
        check(lib.carnot_layer_remove(network._c, node))
    if owner._nodes:
        network._stale = True
    is_new = not owner._nodes
    owner._nodes = nodes
    layer._imported = False
    for one in group:
        one._dirty = False
        if not is_new:
            for tensor in one._outputs:
                mark_readers(network, tensor)
    name_nodes(layer, nodes)
    set_precision(layer)
    if any(t in network._outputs or t in network._debug for t, _ in made):
        network._outputs_changed = True


_UNIT_OUTPUTS = (LayerType.LOOP_OUTPUT, LayerType.CONDITIONAL_OUTPUT)


def name_nodes(layer: Any, nodes: List[Any]) -> None:
    """Names the nodes of a layer: the last one as the layer, the others with a number."""
    for i, node in enumerate(nodes):
        name = layer._name if i == len(nodes) - 1 else f"{layer._name} [{i}]"
        check(lib.carnot_layer_set_name(node, utf8(name or "layer")))


def set_precision(layer: Any) -> None:
    c_type = lib.CARNOT_DTYPE_INVALID if layer._precision is None else to_c_dtype(layer._precision)
    for node in layer._nodes:
        check(lib.carnot_layer_set_precision(node, c_type))
    for i, tensor in enumerate(layer._outputs):
        producer = lib.carnot_value_layer(tensor._value) if tensor is not None and tensor._value is not None else None
        if not producer:
            continue
        dtype = layer._output_types.get(i)
        for k in range(lib.carnot_layer_output_count(producer)):
            if lib.carnot_layer_output(producer, k) == tensor._value:
                check(
                    lib.carnot_layer_set_output_type(
                        producer, k, lib.CARNOT_DTYPE_INVALID if dtype is None else to_c_dtype(dtype)
                    )
                )
