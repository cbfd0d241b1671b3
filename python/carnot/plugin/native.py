"""Plugins and plugin creators of C libraries as Python objects."""

from __future__ import annotations

import ast
from typing import Any, List

from .._carnot import ffi, lib
from ..core import check, text, utf8
from ..enums import PluginCapabilityType, PluginFieldType, TensorRTPhase
from .classes import (
    IPluginCreator,
    IPluginCreatorV3One,
    IPluginV2DynamicExt,
    IPluginV3,
)
from .types import (
    PluginField,
    PluginFieldCollection,
    c_fields,
)


class NativePlugin(IPluginV2DynamicExt, IPluginV3):
    """A built-in plugin or one of a shared object; it can be added to networks."""

    def __init__(self, made: Any) -> None:
        self._c = ffi.gc(made, lib.carnot_plugin_destroy)
        self.plugin_type = self.plugin_name = text(made.name)
        self.plugin_version, self.plugin_namespace = text(made.version), text(made.name_space)
        self.num_outputs = made.output_count

    def fields(self) -> PluginFieldCollection:
        out, count, error = ffi.new("carnot_plugin_field**"), ffi.new("int32_t*"), ffi.new("carnot_plugin_error*")
        if not self._c.serialize(self._c.self, ffi.cast("carnot_plugin_field const**", out), count, error):
            raise RuntimeError(f"plugin {self.plugin_type}: serialize: {text(error.message)}")
        return PluginFieldCollection(PluginField._of_c(out[0][i]) for i in range(count[0]))

    def serialize(self) -> bytes:
        return repr([(field.name, field._plain(), field.type.value) for field in self.fields()]).encode()

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        return self.fields()

    def get_capability_interface(self, type: PluginCapabilityType) -> Any:  # noqa: A002
        return self

    def clone(self) -> Any:
        return NativeCreator(self.plugin_type, self.plugin_version, self.plugin_namespace).create_plugin(
            "", self.fields()
        )


class NativeCreator(IPluginCreator, IPluginCreatorV3One):
    """A built-in creator or one of a shared object."""

    def __init__(self, name: str, version: str, name_space: str) -> None:
        self.name, self.plugin_version, self.plugin_namespace = name, version, name_space

    def _find(self) -> Any:
        found = ffi.new("carnot_plugin_creator const**")
        check(
            lib.carnot_plugin_find(*(utf8(s) for s in (self.name, self.plugin_version, self.plugin_namespace)), found)
        )
        return found[0]

    @property
    def field_names(self) -> PluginFieldCollection:  # type: ignore[override]
        found = self._find()
        return PluginFieldCollection(PluginField._of_c(found.fields[i]) for i in range(found.field_count))

    def create_plugin(self, name: str, field_collection: Any, phase: Any = TensorRTPhase.BUILD) -> Any:
        keep: List[Any] = []
        fields, made = list(field_collection or ()), ffi.new("carnot_plugin**")
        check(lib.carnot_plugin_create(self._find(), utf8(name), c_fields(fields, keep), len(fields), made))
        return NativePlugin(made[0])

    def deserialize_plugin(self, name: str, serialized_plugin: Any) -> Any:
        parts = ast.literal_eval(bytes(serialized_plugin).decode())
        return self.create_plugin(name, [PluginField(n, data, PluginFieldType(t)) for n, data, t in parts])
