"""The assertion layer."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import lib
from ...core import CarnotError, utf8
from ...enums import (
    LayerType,
)
from ..emitter import Emitter
from ..layer import ILayer, prop


class IAssertionLayer(ILayer):
    _layer_type = LayerType.ASSERTION
    _output_count = 0
    message = prop("message", str)

    def _emit(self, e: Emitter) -> List[Any]:
        try:
            e.call("add_assertion", e.value(self._inputs[0]), utf8(self.message))
        except CarnotError as error:
            if error.code != lib.CARNOT_UNSUPPORTED:
                raise
            e.network._warn(str(error))
        return []
