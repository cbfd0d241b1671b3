"""The Caffe parser of TensorRT 8."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any, Dict, Optional

import numpy as np

from ._carnot import ffi, lib
from .core import ILogger, Manual, Reporter, check, keep_error, reported, text, utf8
from .enums import DataType
from .network.network import INetworkDefinition
from .network.tensor import ITensor
from .plugin.bridge import Prototype
from .plugin.native import NativePlugin
from .types import Weights


class IBlobNameToTensor:
    """Finds tensors of a parsed network by the names of blobs."""

    def __init__(self, network: INetworkDefinition) -> None:
        self._network = network

    def find(self, name: str) -> Optional[ITensor]:
        """The tensor that blob |name| is at the end of the network; None where there is none."""
        value = lib.carnot_caffe_find_tensor(self._network._c, utf8(name))
        return self._network._wrap(value) if value else None


class ICaffePluginFactoryV2:
    """Makes plugins for layers by their names; subclass it."""

    def is_plugin_v2(self, layer_name: str) -> bool:
        """Whether a plugin computes the layer, whatever its type means otherwise."""
        raise NotImplementedError("is_plugin_v2 must be overridden")

    def create_plugin(self, layer_name: str, weights: Any) -> Any:
        """The plugin of the layer; |weights|: a list of Weights, the layer's blobs in the caffemodel.

        Its creator must be registered. It has as many outputs as the layer has tops.
        """
        raise NotImplementedError("create_plugin must be overridden")


class _Plugins:
    """The plugins that a factory makes while one network is read, by the names of their layers."""

    def __init__(self, factory: ICaffePluginFactoryV2, name_space: str) -> None:
        self._factory, self._name_space = factory, name_space
        self._handle = ffi.new_handle(self)
        self._block = contextlib.ExitStack()
        self.made: Dict[str, Prototype] = {}
        members = {"user": self._handle, "computes": lib.carnot_py_caffe_computes, "create": lib.carnot_py_caffe_create}
        self.c = ffi.new("carnot_caffe_plugins*", members)

    def __enter__(self) -> "_Plugins":
        return self

    def __exit__(self, *_: Any) -> None:
        self._block.close()

    def computes(self, name: str) -> bool:
        return bool(self._factory.is_plugin_v2(name))

    def create(self, name: str, weights: Any, count: int) -> Any:
        given = []
        for one in weights[0:count]:
            size = math.prod(one.dims.d[0 : one.dims.rank])
            given.append(Weights(np.frombuffer(ffi.buffer(one.values, 4 * size), np.float32).copy()))
        plugin = self._factory.create_plugin(name, given)
        if plugin is None:
            return ffi.NULL
        if self._name_space and not isinstance(plugin, NativePlugin) and not plugin.plugin_namespace:
            plugin.plugin_namespace = self._name_space
        self.made[name] = self._block.enter_context(Prototype(plugin))
        return self.made[name].c

    def attach(self, network: INetworkDefinition) -> None:
        """Gives the layers their plugin objects."""
        for layer in network:
            prototype = self.made.get(layer.name)
            if prototype is not None:
                layer._p["plugin"], layer._prototype = prototype.plugin, prototype.adapter


@ffi.def_extern()
def carnot_py_caffe_computes(user: Any, name: Any) -> bool:
    try:
        return ffi.from_handle(user).computes(text(name))
    except BaseException as raised:  # noqa: B902 - KeyboardInterrupt too must reach the caller
        keep_error(raised)
        return False


@ffi.def_extern()
def carnot_py_caffe_create(user: Any, name: Any, weights: Any, count: int, error: Any) -> Any:
    try:
        return ffi.from_handle(user).create(text(name), weights, count)
    except BaseException as raised:  # noqa: B902
        keep_error(raised)
        return ffi.NULL


class CaffeParser(Manual, Reporter):
    """Reads Caffe networks. Batches are explicit: dimension 0 of the inputs is the batch of the prototxt."""

    def __init__(self) -> None:
        self._logger: Optional[ILogger] = None
        self.plugin_namespace = ""  # of the plugins of plugin_factory_v2 that have none
        self.protobuf_buffer_size = 0  # has no effect: files of any size are read in place
        self._factory: Optional[ICaffePluginFactoryV2] = None

    @property
    def plugin_factory_v2(self) -> Optional[ICaffePluginFactoryV2]:
        """What makes plugins for layers by their names; None: nothing does."""
        return self._factory

    @plugin_factory_v2.setter
    def plugin_factory_v2(self, factory: Optional[ICaffePluginFactoryV2]) -> None:
        if factory is not None and not isinstance(factory, ICaffePluginFactoryV2):
            raise TypeError(f"plugin_factory_v2 takes an ICaffePluginFactoryV2, not {type(factory).__name__}")
        self._factory = factory

    def _parse(self, network: INetworkDefinition, dtype: DataType, call: Any) -> IBlobNameToTensor:
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"CaffeParser takes an INetworkDefinition, not {type(network).__name__}")
        if DataType(dtype) not in (DataType.FLOAT, DataType.HALF):
            raise ValueError(f"dtype is {dtype}; DataType.FLOAT or DataType.HALF is required")
        self._logger = network._logger
        network._sync(strict=True)
        before, inputs = lib.carnot_network_last_layer(network._c), lib.carnot_network_input_count(network._c)
        options = ffi.new("carnot_caffe_options*", {"marks_no_outputs": True, "seed": 1})
        with contextlib.ExitStack() as block:
            plugins = None
            if self._factory is not None:
                plugins = block.enter_context(_Plugins(self._factory, self.plugin_namespace))
                options.plugins = plugins.c
            check(call(options))
            network._take_parsed(before, inputs)
            if plugins is not None:
                plugins.attach(network)
        return IBlobNameToTensor(network)

    @reported(None)
    def parse(
        self, deploy: str, model: Optional[str], network: INetworkDefinition, dtype: DataType
    ) -> Optional[IBlobNameToTensor]:
        """Reads the network in file |deploy| with the weights in file |model|. Marks no outputs.

        |dtype| is what TensorRT stores weights in; here the builder chooses by its flags. None after an error.
        """
        weights = ffi.NULL if model is None else utf8(os.fspath(model))
        return self._parse(
            network,
            dtype,
            lambda options: lib.carnot_network_add_caffe_files(network._c, utf8(os.fspath(deploy)), weights, options),
        )

    @reported(None)
    def parse_buffer(
        self, deploy_buffer: Any, model_buffer: Any, network: INetworkDefinition, dtype: DataType
    ) -> Optional[IBlobNameToTensor]:
        """The same for files in memory."""
        deploy, model = bytes(deploy_buffer), bytes(model_buffer)

        def add(options: Any) -> Any:
            network._keep.append(model)
            return lib.carnot_network_add_caffe_memory(
                network._c, ffi.from_buffer(deploy), len(deploy), ffi.from_buffer(model), len(model), options
            )

        return self._parse(network, dtype, add)

    @reported(None)
    def parse_binary_proto(self, filename: str) -> Optional[np.ndarray]:
        """The blob in a .binaryproto file (a mean image) as an array; None after an error."""
        with open(filename, "rb") as file:
            data = file.read()
        out = ffi.new("carnot_data**")
        check(lib.carnot_caffe_read_blob(ffi.from_buffer(data), len(data), out))
        try:
            dims = lib.carnot_data_dims(out[0])
            shape = [dims.d[i] for i in range(dims.rank)]
            size = int(np.prod(shape, dtype=np.int64)) * 4
            return np.frombuffer(ffi.buffer(lib.carnot_data_numbers(out[0]), size), np.float32).reshape(shape).copy()
        finally:
            lib.carnot_data_destroy(out[0])
