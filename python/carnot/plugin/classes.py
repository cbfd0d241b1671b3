"""Base classes of plugins and creators, in all versions of TensorRT's interface."""

from __future__ import annotations

import copy
from typing import Any, List, Optional

from ..enums import DataType, PluginCapabilityType, PluginCreatorVersion, TensorFormat, TensorRTPhase
from ..interfaces import IVersionedInterface
from .types import DimsExprs, DynamicPluginTensorDesc, IExprBuilder, PluginFieldCollection, PluginTensorDesc

__all__ = [
    "IPluginResource",
    "IPluginResourceContext",
    "IPluginV2",
    "IPluginV2Ext",
    "IPluginV2DynamicExtBase",
    "IPluginV2DynamicExt",
    "IPluginCapability",
    "IPluginV3",
    "IPluginV3OneCore",
    "IPluginV3OneBuild",
    "IPluginV3OneBuildV2",
    "IPluginV3OneRuntime",
    "IPluginV3QuickCore",
    "IPluginV3QuickBuild",
    "IPluginV3QuickAOTBuild",
    "IPluginV3QuickRuntime",
    "IPluginCreatorInterface",
    "IPluginCreator",
    "IPluginCreatorV3One",
    "IPluginCreatorV3Quick",
]


def _absent(self: Any, name: str) -> Any:
    raise NotImplementedError(f"{type(self).__name__}.{name} must be overridden")


class IPluginResource(IVersionedInterface):
    """A resource that plugins share by key; see IPluginRegistry.acquire_plugin_resource."""

    def __init__(self) -> None:
        pass

    def clone(self) -> "IPluginResource":
        return _absent(self, "clone")

    def release(self) -> None:
        return _absent(self, "release")


class IPluginResourceContext:
    """The resources of a context for its plugins."""

    error_recorder: Any = None
    gpu_allocator: Any = None


# ---- version 2 ----


class IPluginV2:
    """A plugin of TensorRT 8; only subclasses of IPluginV2DynamicExt run here."""

    num_outputs = 1
    plugin_type = ""
    plugin_version = "1"
    plugin_namespace = ""
    tensorrt_version = property(lambda self: 100300)
    serialization_size = property(lambda self: len(self.serialize()))

    def __init__(self) -> None:
        pass

    def initialize(self) -> Any:
        return 0

    def terminate(self) -> None:
        pass

    def destroy(self) -> None:
        pass

    def serialize(self) -> bytes:
        return b""

    def clone(self) -> Any:
        return copy.copy(self)

    def get_output_shape(self, index: int, input_shapes: Any) -> Any:
        return _absent(self, "get_output_shape")

    def supports_format(self, dtype: DataType, format: TensorFormat) -> bool:  # noqa: A002
        return dtype == DataType.FLOAT and format == TensorFormat.LINEAR

    def configure_with_format(
        self,
        input_shapes: Any,
        output_shapes: Any,
        dtype: DataType,
        format: TensorFormat,  # noqa: A002
        max_batch_size: int,
    ) -> None:
        pass

    def get_workspace_size(self, max_batch_size: int) -> int:
        return 0

    def execute_async(self, batch_size: int, inputs: Any, outputs: Any, workspace: int, stream_handle: int) -> int:
        return _absent(self, "execute_async")


class IPluginV2Ext(IPluginV2):
    """A plugin with output types."""

    def get_output_data_type(self, index: int, input_types: Any) -> DataType:
        return input_types[0]

    def configure_plugin(
        self,
        input_shapes: Any,
        output_shapes: Any,
        input_types: Any,
        output_types: Any,
        input_is_broadcasted: Any,
        output_is_broacasted: Any,
        format: TensorFormat,  # noqa: A002
        max_batch_size: int,
    ) -> None:
        pass

    def attach_to_context(self, cudnn: Any, cublas: Any, allocator: Any) -> None:
        pass

    def detach_from_context(self) -> None:
        pass


class IPluginV2DynamicExtBase(IPluginV2):
    """Base of IPluginV2DynamicExt."""


class IPluginV2DynamicExt(IPluginV2DynamicExtBase):
    """A plugin of version 2 with dynamic shapes."""

    FORMAT_COMBINATION_LIMIT = 100

    def get_output_datatype(self, index: int, input_types: List[DataType]) -> DataType:
        return input_types[0]

    def get_output_dimensions(
        self, output_index: int, inputs: List[DimsExprs], expr_builder: IExprBuilder
    ) -> DimsExprs:
        return _absent(self, "get_output_dimensions")

    def supports_format_combination(self, pos: int, in_out: List[PluginTensorDesc], num_inputs: int) -> bool:
        return _absent(self, "supports_format_combination")

    def configure_plugin(self, pos: List[DynamicPluginTensorDesc], in_out: List[DynamicPluginTensorDesc]) -> None:  # type: ignore[override]
        """The inputs, then the outputs."""

    def get_serialization_size(self) -> int:
        return len(self.serialize())

    def enqueue(
        self,
        input_desc: List[PluginTensorDesc],
        output_desc: List[PluginTensorDesc],
        inputs: List[int],
        outputs: List[int],
        workspace: int,
        stream: int,
    ) -> Any:
        return _absent(self, "enqueue")


# ---- version 3: what a plugin is, how it is built, how it runs ----


class IPluginCapability(IVersionedInterface):
    """One of the interfaces of a plugin of version 3."""

    def __init__(self) -> None:
        pass


class IPluginV3OneCore(IPluginCapability):
    """The core capability: name, version and namespace of a plugin."""

    plugin_name = ""
    plugin_version = "1"
    plugin_namespace = ""


class IPluginV3OneBuild(IPluginCapability):
    """The build capability."""

    DEFAULT_FORMAT_COMBINATION_LIMIT = 100
    format_combination_limit = DEFAULT_FORMAT_COMBINATION_LIMIT
    metadata_string: Optional[str] = None
    timing_cache_id: Optional[str] = None
    num_outputs = 1

    def get_output_data_types(self, input_types: List[DataType]) -> List[DataType]:
        return [input_types[0]] * self.num_outputs

    def get_output_shapes(
        self, inputs: List[DimsExprs], shape_inputs: List[DimsExprs], expr_builder: IExprBuilder
    ) -> List[DimsExprs]:
        return _absent(self, "get_output_shapes")

    def supports_format_combination(self, pos: int, in_out: List[DynamicPluginTensorDesc], num_inputs: int) -> bool:
        return _absent(self, "supports_format_combination")

    def configure_plugin(self, inputs: List[DynamicPluginTensorDesc], outputs: List[DynamicPluginTensorDesc]) -> None:
        pass

    def get_workspace_size(self, inputs: List[DynamicPluginTensorDesc], outputs: List[DynamicPluginTensorDesc]) -> int:
        return 0

    def get_valid_tactics(self) -> List[int]:
        """Positive ids of the tactics, which the builder times."""
        return []


class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """The build capability with outputs that alias inputs."""

    def get_aliased_input(self, output_index: int) -> int:
        """The input that the output aliases, or -1."""
        return -1


class IPluginV3OneRuntime(IPluginCapability):
    """The runtime capability."""

    def on_shape_change(self, inputs: List[PluginTensorDesc], outputs: List[PluginTensorDesc]) -> None:
        pass

    def set_tactic(self, tactic: int) -> None:
        pass

    def enqueue(
        self,
        input_desc: List[PluginTensorDesc],
        output_desc: List[PluginTensorDesc],
        inputs: List[int],
        outputs: List[int],
        workspace: int,
        stream: int,
    ) -> Any:
        return _absent(self, "enqueue")

    def attach_to_context(self, resource_context: IPluginResourceContext) -> Any:
        """A copy for one context; None selects a clone."""

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        return PluginFieldCollection()


class IPluginV3(IVersionedInterface):
    """A plugin of version 3. It returns its capabilities, often itself."""

    def __init__(self) -> None:
        pass

    def get_capability_interface(self, type: PluginCapabilityType) -> Any:  # noqa: A002
        return _absent(self, "get_capability_interface")

    def clone(self) -> "IPluginV3":
        return copy.copy(self)

    def destroy(self) -> None:
        pass


class IPluginV3QuickCore(IPluginV3OneCore):
    """The core capability of a plugin defined by functions; see carnot.plugin."""


class IPluginV3QuickBuild(IPluginV3OneBuildV2):
    """The build capability of a plugin defined by functions."""


class IPluginV3QuickAOTBuild(IPluginV3QuickBuild):
    """The build capability of a plugin with an ahead-of-time compiled kernel."""


class IPluginV3QuickRuntime(IPluginV3OneRuntime):
    """The runtime capability of a plugin defined by functions."""


# ---- creators ----


class IPluginCreatorInterface(IVersionedInterface):
    """Creates plugins of one name, version and namespace; registered at the plugin registry."""

    name = ""
    plugin_version = "1"
    plugin_namespace = ""
    field_names: Any = PluginFieldCollection()

    def __init__(self) -> None:
        pass


class IPluginCreator(IPluginCreatorInterface):
    """Creates plugins of version 2."""

    tensorrt_version = property(lambda self: 100300)
    creator_version = PluginCreatorVersion.V1_PYTHON

    def create_plugin(self, name: str, field_collection: PluginFieldCollection) -> Any:
        return _absent(self, "create_plugin")

    def deserialize_plugin(self, name: str, serialized_plugin: bytes) -> Any:
        return _absent(self, "deserialize_plugin")


class IPluginCreatorV3One(IPluginCreatorInterface):
    """Creates plugins of version 3."""

    def create_plugin(self, name: str, field_collection: PluginFieldCollection, phase: TensorRTPhase) -> Any:
        return _absent(self, "create_plugin")


class IPluginCreatorV3Quick(IPluginCreatorInterface):
    """Creates plugins defined by functions."""

    def create_plugin(
        self,
        name: str,
        namespace: str,
        field_collection: PluginFieldCollection,
        phase: TensorRTPhase,
        quickPluginType: Any = None,  # noqa: N803 - TensorRT's name
    ) -> Any:
        return _absent(self, "create_plugin")
