"""Loops and conditionals: TensorRT's flat boundary layers over the flat form of the C network API.

The body of a loop is all that depends on its recurrences and iterators. A branch of a conditional is all between its
inputs and outputs. A unit (loop or conditional) becomes one node.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set

from .._carnot import ffi, lib
from ..core import CarnotError, check
from ..enums import LayerType, LoopOutput, TripLimit
from .emitter import Emitter
from .layer import ILayer, prop


class ILoopBoundaryLayer(ILayer):
    loop = property(lambda self: self._p["loop"])


class ITripLimitLayer(ILoopBoundaryLayer):
    _layer_type = LayerType.TRIP_LIMIT
    _output_count = 0
    kind = property(lambda self: self._p["kind"])


class IRecurrenceLayer(ILoopBoundaryLayer):
    _layer_type = LayerType.RECURRENCE


class IIteratorLayer(ILoopBoundaryLayer):
    _layer_type = LayerType.ITERATOR
    axis, reverse = prop("axis", int), prop("reverse", bool)


class ILoopOutputLayer(ILoopBoundaryLayer):
    _layer_type = LayerType.LOOP_OUTPUT
    axis = prop("axis", int)
    kind = property(lambda self: self._p["kind"])


class IIfConditionalBoundaryLayer(ILayer):
    conditional = property(lambda self: self._p["conditional"])


class IConditionLayer(IIfConditionalBoundaryLayer):
    _layer_type = LayerType.CONDITION
    _output_count = 0


class IIfConditionalInputLayer(IIfConditionalBoundaryLayer):
    _layer_type = LayerType.CONDITIONAL_INPUT


class IIfConditionalOutputLayer(IIfConditionalBoundaryLayer):
    _layer_type = LayerType.CONDITIONAL_OUTPUT
    _min_inputs = 2


class _Unit:
    """Layers that become one node."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self._own: List[ILayer] = []  # its boundary layers
        self._nodes: List[Any] = []
        self.name = ""

    def _add(self, layer: ILayer) -> ILayer:
        self._own.append(layer)
        return self._network._add_layer(layer)

    def _closure(self, seeds: List[Any]) -> Set[ILayer]:
        """Layers that depend on the outputs of |seeds|, up to this unit's outputs."""
        reached: Set[ILayer] = set(seeds)
        grown = True
        while grown:
            grown = False
            for layer in self._network._layers:
                if layer in reached or layer in self._own:
                    continue
                if any(t is not None and t._producer in reached for t in layer._inputs):
                    reached.add(layer)
                    grown = True
        return reached - set(self._own)

    def _error(self, message: str) -> CarnotError:
        return CarnotError(lib.CARNOT_INVALID_MODEL, f"{type(self).__name__} {self.name}: {message}")


def _emit_members(e: Emitter, members: List[ILayer], units: List[_Unit]) -> None:
    """Nodes of |members| in the open body; inner units as a whole, each layer after those it reads."""
    left, made = list(members), set()
    inner = {
        layer: unit
        for unit in units
        for layer in (*unit._own, *unit._members())
        if any(own in members for own in unit._own)
    }
    while left:
        before = len(left)
        for layer in list(left):
            unit = inner.get(layer)
            group = [*unit._own, *unit._members()] if unit else [layer]
            reads = [t for one in group for t in one._inputs if t is not None and t._producer in members]
            if any(t._producer not in made and t._producer not in group for t in reads):
                continue
            values = unit._emit(e) if unit else dict(zip(map(id, layer._outputs), layer._emit(e)))
            e.env.update(values)
            made.update(group)
            left = [one for one in left if one not in made]
            if unit:
                break
        if len(left) == before:
            raise CarnotError(lib.CARNOT_INVALID_MODEL, f"layer {left[0]._name} depends on its own output")


class ILoop(_Unit):
    """A loop: trip limits, recurrences, iterators and outputs around the layers between them."""

    def add_recurrence(self, initial_value: Any) -> IRecurrenceLayer:
        return self._add(IRecurrenceLayer(self._network, [initial_value, None], loop=self))

    def add_trip_limit(self, tensor: Any, kind: TripLimit) -> ITripLimitLayer:
        return self._add(ITripLimitLayer(self._network, [tensor], loop=self, kind=kind))

    def add_iterator(self, tensor: Any, axis: int = 0, reverse: bool = False) -> IIteratorLayer:
        return self._add(IIteratorLayer(self._network, [tensor], loop=self, axis=axis, reverse=reverse))

    def add_loop_output(self, tensor: Any, kind: LoopOutput, axis: int = 0) -> ILoopOutputLayer:
        return self._add(ILoopOutputLayer(self._network, [tensor], loop=self, kind=kind, axis=axis))

    def _of(self, kind: Any) -> List[Any]:
        return [layer for layer in self._own if isinstance(layer, kind)]

    def _members(self) -> Set[ILayer]:
        return self._closure(self._of((IRecurrenceLayer, IIteratorLayer)))

    def _is_complete(self) -> bool:
        return bool(self._of(ITripLimitLayer) and self._of(ILoopOutputLayer)) and all(
            r._inputs[1] is not None for r in self._of(IRecurrenceLayer)
        )

    def _check(self) -> None:
        if not self._of(ITripLimitLayer):
            raise self._error("no trip limit")
        for recurrence in self._of(IRecurrenceLayer):
            if recurrence._inputs[1] is None:
                raise self._error(f"recurrence {recurrence._name} has no next value: set its input 1")
        if not self._of(ILoopOutputLayer):
            raise self._error("no output")

    def _emit(self, e: Emitter) -> Dict[int, Any]:
        """Emits the loop in the open block; returns the values of its outputs by id of the tensor."""
        self._check()
        limits = {layer.kind: layer._inputs[0] for layer in self._of(ITripLimitLayer)}
        recurrences, iterators = self._of(IRecurrenceLayer), self._of(IIteratorLayer)
        outputs = self._of(ILoopOutputLayer)
        body = Emitter(self._network, dict(e.env))
        for layer in recurrences:
            body.env[id(layer._outputs[0])] = e.add("loop_recurrence", e.value(layer._inputs[0]))
        for layer in iterators:
            value = e.add("loop_iterator", e.value(layer._inputs[0]), layer.axis, layer.reverse)
            body.env[id(layer._outputs[0])] = value
        members = self._members()
        _emit_members(body, [layer for layer in self._network._layers if layer in members], self._network._loops)
        flat = ffi.new("carnot_flat_loop*")
        if TripLimit.COUNT in limits:
            flat.trip_count = body.value(limits[TripLimit.COUNT])
        if TripLimit.WHILE in limits:
            flat.condition = body.value(limits[TripLimit.WHILE])
        carried = ffi.new("carnot_loop_recurrence[]", len(recurrences))
        for c, layer in zip(carried, recurrences):
            c.value, c.next = body.value(layer._outputs[0]), body.value(layer._inputs[1])
        slices = ffi.new("carnot_value*[]", [body.value(layer._outputs[0]) for layer in iterators])
        results = ffi.new("carnot_loop_output[]", len(outputs))
        for c, layer in zip(results, outputs):
            c.value, c.kind, c.axis = body.value(layer._inputs[0]), int(layer.kind), layer.axis
        flat.recurrences, flat.recurrence_count = carried, len(carried)
        flat.iterators, flat.iterator_count = slices, len(slices)
        flat.outputs, flat.output_count = results, len(results)
        made = ffi.new("carnot_value*[]", len(outputs))
        check(lib.carnot_network_close_flat_loop(e.c, flat, made))
        self._network._inner_values.update(body.env)
        return {id(layer._outputs[0]): made[i] for i, layer in enumerate(outputs)}


class IIfConditional(_Unit):
    """An if: condition, inputs that the branches read, and a pair of values for each output."""

    def set_condition(self, condition: Any) -> IConditionLayer:
        return self._add(IConditionLayer(self._network, [condition], conditional=self))

    def add_input(self, input: Any) -> IIfConditionalInputLayer:  # noqa: A002
        return self._add(IIfConditionalInputLayer(self._network, [input], conditional=self))

    def add_output(self, true_subgraph_output: Any, false_subgraph_output: Any) -> IIfConditionalOutputLayer:
        return self._add(
            IIfConditionalOutputLayer(self._network, [true_subgraph_output, false_subgraph_output], conditional=self)
        )

    def _of(self, kind: Any) -> List[Any]:
        return [layer for layer in self._own if isinstance(layer, kind)]

    def _members(self) -> Set[ILayer]:
        return self._closure(self._of(IIfConditionalInputLayer))

    def _is_complete(self) -> bool:
        return bool(self._of(IConditionLayer) and self._of(IIfConditionalOutputLayer))

    def _emit(self, e: Emitter) -> Dict[int, Any]:
        """Emits the conditional in the open block; returns the values of its outputs by id of the tensor."""
        conditions, outputs = self._of(IConditionLayer), self._of(IIfConditionalOutputLayer)
        if not conditions or not outputs:
            raise self._error("needs a condition and an output")
        body = Emitter(self._network, dict(e.env))
        inputs = self._of(IIfConditionalInputLayer)
        for layer in inputs:
            body.env[id(layer._outputs[0])] = e.add("conditional_input", e.value(layer._inputs[0]))
        members = self._members()
        _emit_members(body, [layer for layer in self._network._layers if layer in members], self._network._loops)
        values = [body.value(layer._outputs[0]) for layer in inputs]
        placeholders = ffi.new("carnot_value*[]", values)
        branches = [ffi.new("carnot_value*[]", [body.value(o._inputs[i]) for o in outputs]) for i in (0, 1)]
        flat = ffi.new("carnot_flat_conditional*")
        flat.condition = e.value(conditions[-1]._inputs[0])
        flat.inputs, flat.input_count = placeholders, len(placeholders)
        flat.true_values, flat.false_values = branches
        flat.output_count = len(outputs)
        made = ffi.new("carnot_value*[]", len(outputs))
        check(lib.carnot_network_close_flat_conditional(e.c, flat, made))
        self._network._inner_values.update(body.env)
        return {id(layer._outputs[0]): made[i] for i, layer in enumerate(outputs)}
