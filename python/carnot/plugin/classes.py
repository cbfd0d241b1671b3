"""Plugins and their creators as classes to subclass, in the generations that TensorRT has had."""

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
    """State that plugins share by key; see IPluginRegistry.acquire_plugin_resource."""

    def __init__(self) -> None:
        pass

    def clone(self) -> "IPluginResource":
        return _absent(self, "clone")

    def release(self) -> None:
        return _absent(self, "release")


class IPluginResourceContext:
    """What a context offers to its plugins."""

    error_recorder: Any = None
    gpu_allocator: Any = None


# ---- version 2 ----


class IPluginV2:
    """A plugin of TensorRT 8; those that run here are subclasses of IPluginV2DynamicExt."""

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
    """A plugin that says the types of its outputs."""

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
    """What IPluginV2DynamicExt has beyond IPluginV2."""


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
    """Who a plugin is."""

    plugin_name = ""
    plugin_version = "1"
    plugin_namespace = ""


class IPluginV3OneBuild(IPluginCapability):
    """What the builder asks of a plugin."""

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
        """Numbers above 0 of the ways to compute, which the builder times."""
        return []


class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """A plugin whose outputs may take the place of inputs."""

    def get_aliased_input(self, output_index: int) -> int:
        """The input in whose place the output is written, or -1."""
        return -1


class IPluginV3OneRuntime(IPluginCapability):
    """How a plugin runs."""

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
        """A copy for one context; None: a clone."""

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        return PluginFieldCollection()


class IPluginV3(IVersionedInterface):
    """A plugin of version 3: gives its capabilities, often itself for each."""

    def __init__(self) -> None:
        pass

    def get_capability_interface(self, type: PluginCapabilityType) -> Any:  # noqa: A002
        return _absent(self, "get_capability_interface")

    def clone(self) -> "IPluginV3":
        return copy.copy(self)

    def destroy(self) -> None:
        pass


class IPluginV3QuickCore(IPluginV3OneCore):
    """Who a plugin of functions is; see carnot.plugin."""


class IPluginV3QuickBuild(IPluginV3OneBuildV2):
    """What the builder asks of a plugin of functions."""


class IPluginV3QuickAOTBuild(IPluginV3QuickBuild):
    """A plugin that hands a compiled kernel over, for GPUs."""


class IPluginV3QuickRuntime(IPluginV3OneRuntime):
    """How a plugin of functions runs."""


# ---- creators ----


class IPluginCreatorInterface(IVersionedInterface):
    """Makes plugins of one name, version and namespace; register it at the plugin registry."""

    name = ""
    plugin_version = "1"
    plugin_namespace = ""
    field_names: Any = PluginFieldCollection()

    def __init__(self) -> None:
        pass


class IPluginCreator(IPluginCreatorInterface):
    """Makes plugins of version 2."""

    tensorrt_version = property(lambda self: 100300)
    creator_version = PluginCreatorVersion.V1_PYTHON

    def create_plugin(self, name: str, field_collection: PluginFieldCollection) -> Any:
        return _absent(self, "create_plugin")

    def deserialize_plugin(self, name: str, serialized_plugin: bytes) -> Any:
        return _absent(self, "deserialize_plugin")


class IPluginCreatorV3One(IPluginCreatorInterface):
    """Makes plugins of version 3."""

    def create_plugin(self, name: str, field_collection: PluginFieldCollection, phase: TensorRTPhase) -> Any:
        return _absent(self, "create_plugin")


class IPluginCreatorV3Quick(IPluginCreatorInterface):
    """Makes plugins of functions."""

    def create_plugin(
        self,
        name: str,
        namespace: str,
        field_collection: PluginFieldCollection,
        phase: TensorRTPhase,
        quickPluginType: Any = None,  # noqa: N803 - TensorRT's name
    ) -> Any:
        return _absent(self, "create_plugin")
