"""The process-wide registry of plugin creators: Python, shared objects, built-in."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from .._carnot import ffi, lib
from ..core import CarnotError, Reporter, check, global_logger, reported, text, utf8
from .bridge import c_creator
from .classes import IPluginCreator, IPluginCreatorInterface, IPluginResource
from .native import NativeCreator

__all__ = ["IPluginRegistry", "get_plugin_registry", "get_builder_plugin_registry"]


class IPluginRegistry(Reporter):
    """Creators of plugins by name, version and namespace."""

    def __init__(self) -> None:
        self.parent_search_enabled = True
        # By id: the creator, its C struct, and what the struct borrows.
        self._held: Dict[int, Tuple[Any, Any, List[Any]]] = {}
        self._resources: Dict[str, List[Any]] = {}

    _logger = property(lambda self: global_logger())

    # ---- finding ----

    @property
    def all_creators(self) -> List[Any]:
        found = []
        for i in range(lib.carnot_plugin_creator_count()):
            c = lib.carnot_plugin_creator_at(i)
            if c.create == lib.carnot_py_plugin_create:
                creator = ffi.from_handle(c.user)
            else:
                creator = NativeCreator(text(c.name), text(c.version), text(c.name_space))
            found.append(creator)
        return found

    all_creators_recursive = all_creators
    plugin_creator_list = property(lambda self: [c for c in self.all_creators if isinstance(c, IPluginCreator)])

    @reported(None)
    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> Optional[Any]:  # noqa: A002
        found = ffi.new("carnot_plugin_creator const**")
        check(lib.carnot_plugin_find(utf8(type), utf8(version), utf8(plugin_namespace), found))
        if found[0].create == lib.carnot_py_plugin_create:
            return ffi.from_handle(found[0].user)
        return NativeCreator(type, version, plugin_namespace)

    def get_plugin_creator(self, type: str, version: str, plugin_namespace: str = "") -> Optional[Any]:  # noqa: A002
        return self.get_creator(type, version, plugin_namespace)

    # ---- registering ----

    @reported(False)
    def register_creator(self, creator: IPluginCreatorInterface, plugin_namespace: str = "") -> bool:
        if not isinstance(creator, IPluginCreatorInterface):
            raise TypeError(f"register_creator takes a plugin creator, not {type(creator).__name__}")
        if isinstance(creator, NativeCreator):
            raise CarnotError(lib.CARNOT_INVALID_ARGUMENT, f"creator {creator.name} is registered already")
        creator.plugin_namespace = plugin_namespace or creator.plugin_namespace
        made, keep = c_creator(creator, creator.plugin_namespace)
        check(lib.carnot_plugin_register(made))
        self._held[id(creator)] = (creator, made, keep)
        return True

    @reported(False)
    def deregister_creator(self, creator: IPluginCreatorInterface) -> bool:
        if id(creator) not in self._held:
            raise CarnotError(lib.CARNOT_NOT_FOUND, f"creator {getattr(creator, 'name', creator)} was not registered")
        check(lib.carnot_plugin_deregister(self._held[id(creator)][1]))
        del self._held[id(creator)]
        return True

    @reported(None)
    def load_library(self, plugin_path: str) -> Optional[Any]:
        """Registers the creators of a shared object; returns a handle for deregister_library."""
        made = ffi.new("carnot_plugin_library**")
        check(lib.carnot_plugin_library_load(utf8(os.fspath(plugin_path)), ffi.NULL, made))
        return made[0]

    @reported(False)
    def deregister_library(self, handle: Any) -> bool:
        check(lib.carnot_plugin_library_unload(handle))
        return True

    # ---- what plugins share ----

    @reported(None)
    def acquire_plugin_resource(self, key: str, resource: IPluginResource) -> Optional[IPluginResource]:
        """The resource of |key|; a clone of |resource| becomes it if there is none. Reference-counted."""
        utf8(key)
        if not isinstance(resource, IPluginResource):
            raise TypeError(f"acquire_plugin_resource takes an IPluginResource, not {type(resource).__name__}")
        held = self._resources.setdefault(key, [None, 0])
        if held[0] is None:
            held[0] = resource.clone()
        held[1] += 1
        return held[0]

    @reported(False)
    def release_plugin_resource(self, key: str) -> bool:
        if key not in self._resources:
            raise CarnotError(lib.CARNOT_NOT_FOUND, f"no plugin resource {key} is held")
        held = self._resources[key]
        held[1] -= 1
        if not held[1]:
            del self._resources[key]
            held[0].release()
        return True


_registry = IPluginRegistry()


def get_plugin_registry() -> IPluginRegistry:
    return _registry


def get_builder_plugin_registry(capability: Any = None) -> IPluginRegistry:
    return _registry
