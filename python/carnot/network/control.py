"""Loops and conditionals: converts TensorRT's flat boundary layers into nodes with bodies.

The body of a loop is all that depends on its recurrences and iterators. A branch of a conditional is all between its
inputs and outputs. A unit (loop or conditional) becomes one node.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

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
    inner = {layer: unit for unit in units for layer in (*unit._own, *unit._members()) if unit._own[0] in members}
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

    def _condition(self, e: Emitter, tensor: Any, state: Dict[int, Any]) -> Any:
        """The condition |tensor| with the recurrences at |state|."""
        members = self._members()
        needed: List[ILayer] = []

        def visit(t: Any) -> None:
            if t is not None and t._producer in members and t._producer not in needed:
                for read in t._producer._inputs:
                    visit(read)
                needed.append(t._producer)

        visit(tensor)
        inner = Emitter(self._network, {**e.env, **state})
        _emit_members(inner, needed, self._network._loops)
        return inner.scalar(inner.value(tensor))

    def _emit(self, e: Emitter) -> Dict[int, Any]:
        """Emits the loop in the open block; returns the values of its outputs by id of the tensor."""
        self._check()
        limits = {layer.kind: layer._inputs[0] for layer in self._of(ITripLimitLayer)}
        recurrences, iterators = self._of(IRecurrenceLayer), self._of(IIteratorLayer)
        initial = {id(r._outputs[0]): e.value(r._inputs[0]) for r in recurrences}
        count = e.scalar(e.int64(e.value(limits[TripLimit.COUNT]))) if TripLimit.COUNT in limits else ffi.NULL
        go_on = limits.get(TripLimit.WHILE)
        first = self._condition(e, go_on, initial) if go_on is not None else ffi.NULL
        made = ffi.new("carnot_loop**")
        check(lib.carnot_network_begin_loop(e.c, count, first, made))
        loop = made[0]
        body = Emitter(self._network, dict(e.env))
        inside = {}
        for recurrence in recurrences:
            out = ffi.new("carnot_value**")
            check(lib.carnot_loop_add_recurrence(loop, initial[id(recurrence._outputs[0])], out))
            inside[recurrence] = body.env[id(recurrence._outputs[0])] = out[0]
        for iterator in iterators:
            out = ffi.new("carnot_value**")
            check(
                lib.carnot_loop_add_iterator(loop, e.value(iterator._inputs[0]), iterator.axis, iterator.reverse, out)
            )
            body.env[id(iterator._outputs[0])] = out[0]
        members = [layer for layer in self._network._layers if layer in self._members()]
        _emit_members(body, members, self._network._loops)
        following = {id(r._outputs[0]): body.value(r._inputs[1]) for r in recurrences}
        if go_on is not None:
            check(lib.carnot_loop_set_condition(loop, self._condition(body, go_on, following)))
        for recurrence in recurrences:
            check(lib.carnot_loop_set_next(loop, inside[recurrence], following[id(recurrence._outputs[0])]))
        results = {}
        for output in self._of(ILoopOutputLayer):
            results[output] = ffi.new("carnot_value**")
            tensor = output._inputs[0]
            if output.kind != LoopOutput.LAST_VALUE:
                check(lib.carnot_loop_add_stacked_output(loop, body.value(tensor), results[output]))
            elif tensor._producer in inside:
                check(lib.carnot_loop_add_last_output(loop, inside[tensor._producer], results[output]))
            else:
                raise self._error(f"output {output._name}: LAST_VALUE needs the output of a recurrence")
        check(lib.carnot_loop_end(loop))
        for tensor_id, value in body.env.items():
            self._network._inner_values[tensor_id] = value
        return {id(output._outputs[0]): self._placed(e, output, out[0]) for output, out in results.items()}

    @staticmethod
    def _placed(e: Emitter, output: Any, value: Any) -> Any:
        """The stacked values of all iterations, reversed or along another axis as requested."""
        if output.kind == LoopOutput.REVERSE:
            value = e.add("slice_dynamic", value, e.ints([-1]), e.ints([-(1 << 62)]), e.ints([0]), e.ints([-1]))
        if output.kind != LoopOutput.LAST_VALUE and output.axis:
            order = list(range(1, len(e.shape(value))))
            order.insert(output.axis, 0)
            value = e.transpose(value, order)
        return value


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

    def _branch(self, tensors: List[Any]) -> List[ILayer]:
        members, found = self._members(), set()

        def visit(tensor: Optional[Any]) -> None:
            if tensor is not None and tensor._producer in members and tensor._producer not in found:
                found.add(tensor._producer)
                for read in tensor._producer._inputs:
                    visit(read)

        for tensor in tensors:
            visit(tensor)
        return [layer for layer in self._network._layers if layer in found]

    def _emit(self, e: Emitter) -> Dict[int, Any]:
        conditions, outputs = self._of(IConditionLayer), self._of(IIfConditionalOutputLayer)
        if not conditions or not outputs:
            raise self._error("needs a condition and an output")
        made = ffi.new("carnot_conditional**")
        check(lib.carnot_network_begin_if(e.c, e.scalar(e.value(conditions[-1]._inputs[0])), made))
        results = ffi.new("carnot_value*[]", len(outputs))
        for branch in (0, 1):
            body = Emitter(self._network, dict(e.env))
            for layer in self._of(IIfConditionalInputLayer):
                body.env[id(layer._outputs[0])] = e.value(layer._inputs[0])
            tensors = [output._inputs[branch] for output in outputs]
            _emit_members(body, self._branch(tensors), self._network._loops)
            values = [body.value(t) for t in tensors]
            if branch == 0:
                check(lib.carnot_conditional_else(made[0], values, len(values)))
            else:
                check(lib.carnot_conditional_end(made[0], values, len(values), results))
            self._network._inner_values.update(body.env)
        return {id(output._outputs[0]): results[i] for i, output in enumerate(outputs)}
