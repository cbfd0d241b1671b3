"""Adapters: one interface over all versions of Python plugins, for the C callbacks of bridge.py."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .._carnot import lib
from ..enums import PluginCapabilityType, PluginFieldType
from ..types import to_c_dtype, volume
from .classes import (
    IPluginResourceContext,
    IPluginV2DynamicExt,
    IPluginV3,
)
from .types import (
    DimsExprs,
    DynamicPluginTensorDesc,
    IExprBuilder,
    PluginField,
    PluginTensorDesc,
)

# Fields of the bridge beside the fields of the plugin.
_SERIALIZED = "carnot.serialized"  # marks fields of get_fields_to_serialize
_BYTES = "carnot.bytes"  # the result of serialize
_PROTOTYPE = "carnot.prototype"
_TACTIC = "carnot.tactic"
SHAPE_INPUTS = "tensorrt_plugin_shape_input_indices"
_OWN = (_SERIALIZED, _BYTES, _PROTOTYPE, _TACTIC, SHAPE_INPUTS)


def _int_field(name: str, values: Sequence[int]) -> PluginField:
    return PluginField(name, np.array(values, np.int32), PluginFieldType.INT32)


class Adapter:
    """A Python plugin of any version. |shape_inputs|: the indices of inputs whose values are used, not their data."""

    name = version = name_space = ""
    output_count = 0

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        self.plugin, self.shape_inputs = plugin, tuple(shape_inputs)
        self.tactic = 0
        self.is_prototype = False
        self.token = 0
        self._keep: List[Any] = []
        self._descs: Any = None

    def own(self, items: Sequence[Any]) -> List[Any]:
        """Removes the shape inputs, which are not passed to the plugin's functions."""
        return [item for i, item in enumerate(items) if i not in self.shape_inputs]

    def again(self, plugin: Any) -> "Adapter":
        """An adapter of a copy of the plugin with the same settings."""
        made = type(self)(plugin, self.shape_inputs)
        made.set_tactic(self.tactic)
        return made

    def fields(self) -> List[PluginField]:
        fields = self.author_fields()
        if self.shape_inputs:
            fields.append(_int_field(SHAPE_INPUTS, self.shape_inputs))
        if self.is_prototype:
            fields.append(_int_field(_PROTOTYPE, [self.token]))
        if self.tactic:
            fields.append(_int_field(_TACTIC, [self.tactic]))
        return fields

    def set_tactic(self, tactic: int) -> None:
        self.tactic = tactic

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        raise NotImplementedError

    def author_fields(self) -> List[PluginField]:
        raise NotImplementedError


class AdapterV2(Adapter):
    """The adapter of an IPluginV2DynamicExt."""

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        super().__init__(plugin, shape_inputs)
        self.name, self.version = plugin.plugin_type, plugin.plugin_version
        self.name_space, self.output_count = plugin.plugin_namespace, plugin.num_outputs
        self._is_ready = False

    def output_dtypes(self, inputs: List[Any]) -> List[Any]:
        return [self.plugin.get_output_datatype(i, inputs) for i in range(self.output_count)]

    def output_shapes(self, inputs: List[DimsExprs], values: List[DimsExprs], builder: IExprBuilder) -> List[Any]:
        return [
            self.plugin.get_output_dimensions(i, [DimsExprs(d) for d in inputs], builder)
            for i in range(self.output_count)
        ]

    def supports(self, position: int, operands: List[PluginTensorDesc], input_count: int) -> bool:
        return bool(self.plugin.supports_format_combination(position, operands, input_count))

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.plugin.configure_plugin(inputs, outputs)

    def on_shape_change(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.start()

    def workspace_bytes(self, inputs: List[Any], outputs: List[Any]) -> int:
        return self.plugin.get_workspace_size(inputs, outputs)

    def enqueue(self, *arguments: Any) -> Any:
        return self.plugin.enqueue(*arguments)

    def start(self) -> None:
        if not self._is_ready:
            _refuse_code(self.plugin.initialize(), "initialize")
        self._is_ready = True

    def author_fields(self) -> List[PluginField]:
        data = self.plugin.serialize()
        return [PluginField(_BYTES, data.encode() if isinstance(data, str) else bytes(data), PluginFieldType.CHAR)]

    def copy(self, for_context: bool) -> Adapter:
        return self.again(self.plugin.clone())

    def destroy(self) -> None:
        if self._is_ready:
            self.plugin.terminate()
        self.plugin.destroy()

    def aliased_input(self, output: int) -> int:
        return -1

    def timing_key(self) -> Optional[str]:
        return None


class AdapterV3(Adapter):
    """The adapter of an IPluginV3."""

    def __init__(self, plugin: Any, shape_inputs: Sequence[int] = ()) -> None:
        super().__init__(plugin, shape_inputs)
        self.core = self._capability(PluginCapabilityType.CORE)
        self.build = self._capability(PluginCapabilityType.BUILD)
        self.runtime = self._capability(PluginCapabilityType.RUNTIME)
        self.name, self.version = self.core.plugin_name, self.core.plugin_version
        self.name_space, self.output_count = self.core.plugin_namespace, self.build.num_outputs

    def _capability(self, kind: PluginCapabilityType) -> Any:
        found = self.plugin.get_capability_interface(kind)
        if found is None:
            raise TypeError(f"{type(self.plugin).__name__}.get_capability_interface gave no {kind.name} capability")
        return found

    def output_dtypes(self, inputs: List[Any]) -> List[Any]:
        return list(self.build.get_output_data_types(inputs))

    def output_shapes(self, inputs: List[DimsExprs], values: List[DimsExprs], builder: IExprBuilder) -> List[Any]:
        return list(self.build.get_output_shapes(inputs, values, builder))

    def supports(self, position: int, operands: List[PluginTensorDesc], input_count: int) -> bool:
        described = [DynamicPluginTensorDesc._of_desc(operand) for operand in operands]
        return bool(self.build.supports_format_combination(position, described, input_count))

    def configure(self, inputs: List[Any], outputs: List[Any]) -> None:
        self.build.configure_plugin(inputs, outputs)
        tactics = [int(tactic) for tactic in self.build.get_valid_tactics() or ()]
        if any(tactic <= 0 for tactic in tactics):
            raise ValueError(f"{self.name}: get_valid_tactics gave {tactics}; tactics are numbers above 0")
        if tactics:
            self.set_tactic(_fastest(self, tactics, inputs, outputs))

    def on_shape_change(self, inputs: List[Any], outputs: List[Any]) -> None:
        _refuse_code(self.runtime.on_shape_change(inputs, outputs), "on_shape_change")

    def workspace_bytes(self, inputs: List[Any], outputs: List[Any]) -> int:
        described = [[DynamicPluginTensorDesc._of_desc(desc) for desc in part] for part in (inputs, outputs)]
        return self.build.get_workspace_size(*described)

    def enqueue(self, *arguments: Any) -> Any:
        return self.runtime.enqueue(*arguments)

    def set_tactic(self, tactic: int) -> None:
        self.tactic = tactic
        if tactic:
            self.runtime.set_tactic(tactic)

    def author_fields(self) -> List[PluginField]:
        return [*(self.runtime.get_fields_to_serialize() or ()), _int_field(_SERIALIZED, [1])]

    def copy(self, for_context: bool) -> Adapter:
        made = self.runtime.attach_to_context(IPluginResourceContext()) if for_context else None
        return self.again(self.plugin.clone() if made is None else made)

    def destroy(self) -> None:
        self.plugin.destroy()

    def aliased_input(self, output: int) -> int:
        ask = getattr(self.build, "get_aliased_input", None)
        return -1 if ask is None else int(ask(output))

    def timing_key(self) -> Optional[str]:
        return self.build.timing_cache_id or None


def _refuse_code(code: Any, function: str) -> None:
    """Raises if a plugin function returned a nonzero status, as in C++."""
    if isinstance(code, int) and code:
        raise RuntimeError(f"{function} gave status {int(code)}")


def adapt(plugin: Any, shape_inputs: Sequence[int] = ()) -> Adapter:
    if isinstance(plugin, IPluginV3):
        return AdapterV3(plugin, shape_inputs)
    if isinstance(plugin, IPluginV2DynamicExt):
        return AdapterV2(plugin, shape_inputs)
    raise TypeError(f"a plugin must be an IPluginV3 or an IPluginV2DynamicExt, not {type(plugin).__name__}")


def _fastest(adapter: AdapterV3, tactics: List[int], inputs: List[Any], outputs: List[Any]) -> int:
    """The fastest tactic at the optimum shapes; the first one if they are unknown."""
    operands = [[_at_optimum(one) for one in part] for part in (inputs, outputs)]
    if len(tactics) == 1 or any(-1 in desc.dims for part in operands for desc in part):
        return tactics[0]
    memory = [[np.zeros(max(1, _bytes_of(desc)), np.uint8) for desc in part] for part in operands]
    pointers = [[array.ctypes.data for array in part] for part in memory]
    best: Dict[int, float] = {}
    for tactic in tactics:
        trial = adapter.again(adapter.plugin.clone())
        trial.set_tactic(tactic)
        trial.on_shape_change(*operands)
        workspace = np.zeros(max(1, trial.workspace_bytes(*operands)), np.uint8)
        for _ in range(3):
            start = time.perf_counter()
            _refuse_code(trial.enqueue(*operands, *pointers, workspace.ctypes.data, 0), "enqueue")
            best[tactic] = min(best.get(tactic, float("inf")), time.perf_counter() - start)
    return min(best, key=lambda tactic: best[tactic])


def _at_optimum(operand: DynamicPluginTensorDesc) -> PluginTensorDesc:
    desc = PluginTensorDesc()
    desc.type, desc.format, desc.dims = operand.desc.type, operand.desc.format, operand.opt
    return desc


def _bytes_of(desc: PluginTensorDesc) -> int:
    return lib.carnot_dtype_bytes(to_c_dtype(desc.type), volume(desc.dims))
