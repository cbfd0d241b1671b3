"""Matrix multiplication and Einsum."""

from __future__ import annotations

from typing import Any, List

from ...core import utf8
from ...enums import (
    LayerType,
    MatrixOperation,
)
from ..emitter import Emitter
from ..layer import ILayer, enum_prop, prop


class IMatrixMultiplyLayer(ILayer):
    _layer_type = LayerType.MATRIX_MULTIPLY
    _min_inputs = 2
    op0, op1 = enum_prop("op0", MatrixOperation), enum_prop("op1", MatrixOperation)

    def _emit(self, e: Emitter) -> List[Any]:
        return [
            e.add("matrix_multiply", e.value(self._inputs[0]), int(self.op0), e.value(self._inputs[1]), int(self.op1))
        ]


class IEinsumLayer(ILayer):
    _layer_type = LayerType.EINSUM
    equation = prop("equation", str)

    def _emit(self, e: Emitter) -> List[Any]:
        values = [e.value(t) for t in self._inputs]
        return [e.add("einsum", utf8(self.equation), values, len(values))]
