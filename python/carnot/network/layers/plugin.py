"""Plugin layers."""

from __future__ import annotations

from typing import Any, List

from ...enums import LayerType
from ...plugin.bridge import add_to_network
from ..emitter import Emitter
from ..layer import ILayer


class IPluginV2Layer(ILayer):
    _layer_type = LayerType.PLUGIN_V2
    _prototype: Any = None  # keeps the plugin alive that the nodes refer to
    plugin = property(lambda self: self._p.get("plugin"))

    def _emit(self, e: Emitter) -> List[Any]:
        count = self._p["input_count"]
        return add_to_network(e, self, self._p["plugin"], self._inputs[:count], self._inputs[count:])


class IPluginV3Layer(IPluginV2Layer):
    _layer_type = LayerType.PLUGIN_V3
