"""Names of the plugin interface; the registry itself comes with the library's plugin interface."""

from __future__ import annotations

from typing import Any, List, Optional

from .enums import PluginFieldType

__all__ = [
    "PluginField",
    "PluginFieldCollection",
    "PluginFieldCollection_",
    "IPluginRegistry",
    "get_plugin_registry",
    "get_builder_plugin_registry",
]


class PluginField:
    """A named value that a plugin is made with."""

    def __init__(self, name: str = "", data: Any = None, type: PluginFieldType = PluginFieldType.UNKNOWN) -> None:  # noqa: A002
        self.name, self.data, self.type = name, data, type

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)


class PluginFieldCollection(list):
    """The fields of a plugin."""


PluginFieldCollection_ = PluginFieldCollection


class IPluginRegistry:
    """Creators of plugins by name, version and namespace."""

    error_recorder = None

    def __init__(self) -> None:
        self.parent_search_enabled = True
        self._creators: List[Any] = []

    @property
    def plugin_creator_list(self) -> List[Any]:
        return list(self._creators)

    @property
    def all_creators(self) -> List[Any]:
        return list(self._creators)

    def get_plugin_creator(self, type: str, version: str, plugin_namespace: str = "") -> Optional[Any]:  # noqa: A002
        return self.get_creator(type, version, plugin_namespace)

    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> Optional[Any]:  # noqa: A002
        for creator in self._creators:
            if (creator.name, creator.plugin_version, creator.plugin_namespace) == (type, version, plugin_namespace):
                return creator
        return None


_registry = IPluginRegistry()


def get_plugin_registry() -> IPluginRegistry:
    return _registry


def get_builder_plugin_registry(capability: Any = None) -> IPluginRegistry:
    return _registry
