"""Algorithm selectors: a build's tactics in the form of TensorRT's interface."""

from __future__ import annotations

import hashlib
from typing import Any, List, Tuple

from .._carnot import ffi, lib
from ..core import Calls, CarnotError, text
from ..enums import TensorFormat
from ..interfaces import IAlgorithm, IAlgorithmContext, IAlgorithmIOInfo, IAlgorithmVariant
from ..types import Dims, from_c_dtype


def _number(name: str) -> int:
    """A number that stands for a tactic in files of all builds: tactics are known by their names."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def _io_info(tensor: Any) -> IAlgorithmIOInfo:
    info = IAlgorithmIOInfo()
    info._dtype = from_c_dtype(tensor.dtype)
    info._strides = Dims(tuple(tensor.strides[0 : max(tensor.dims.rank, 0)]))
    info._format = TensorFormat.LINEAR
    return info


def _algorithm(choice: Any, tensor_count: int) -> IAlgorithm:
    made, variant = IAlgorithm(), IAlgorithmVariant()
    variant._name = text(choice.tactic)
    variant._implementation, variant._tactic = _number(variant._name), 0
    made._variant, made._ms = variant, choice.ms
    made._infos = [_io_info(choice.tensors[i]) for i in range(tensor_count)]
    return made


def _describe(layer: Any) -> Tuple[IAlgorithmContext, List[IAlgorithm]]:
    """The context and the choices of a layer."""
    context, count = IAlgorithmContext(), layer.input_count + layer.output_count
    tensors = layer.choices[0].tensors
    shapes = [Dims._of_c(tensors[i].dims) for i in range(count)]
    context._name = text(layer.layer)
    context._input_shapes, context._output_shapes = shapes[: layer.input_count], shapes[layer.input_count :]
    return context, [_algorithm(layer.choices[i], count) for i in range(layer.choice_count)]


class SelectorCalls:
    """Calls an IAlgorithmSelector during one build."""

    def __init__(self, selector: Any, rejects_empty: bool) -> None:
        self._selector, self._rejects_empty = selector, rejects_empty
        self.calls = Calls(self)

    def select(self, layer: Any, keep: Any) -> bool:
        context, choices = _describe(layer)
        chosen = [int(index) for index in self._selector.select_algorithms(context, choices)]
        for index in chosen:
            if not 0 <= index < len(choices):
                raise CarnotError(
                    lib.CARNOT_OUT_OF_RANGE,
                    f"select_algorithms: choice {index} for layer {context.name}, must be in [0, {len(choices)})",
                )
        if not chosen and self._rejects_empty:
            raise CarnotError(
                lib.CARNOT_CANCELLED,
                f"select_algorithms chose nothing for layer {context.name}, and REJECT_EMPTY_ALGORITHMS is set",
            )
        for index in range(len(choices)):
            keep[index] = index in chosen
        return True

    def report(self, layers: Any, count: int) -> bool:
        described = [_describe(layers[i]) for i in range(count)]
        self._selector.report_algorithms([context for context, _ in described], [chosen[0] for _, chosen in described])
        return True


@ffi.def_extern()
def carnot_py_select_tactics(user: Any, layer: Any, keep: Any) -> bool:
    calls = Calls.of(user)
    return bool(calls.guard(calls.owner.select, layer, keep, failed=False))


@ffi.def_extern()
def carnot_py_report_tactics(user: Any, layers: Any, count: int) -> bool:
    calls = Calls.of(user)
    return bool(calls.guard(calls.owner.report, layers, count, failed=False))
