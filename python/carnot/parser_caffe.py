"""The Caffe parser of TensorRT 8."""

from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np

from ._carnot import ffi, lib
from .core import ILogger, Manual, Reporter, check, reported, utf8
from .enums import DataType
from .network.network import INetworkDefinition
from .network.tensor import ITensor


class IBlobNameToTensor:
    """Finds tensors of a parsed network by the names of blobs."""

    def __init__(self, network: INetworkDefinition) -> None:
        self._network = network

    def find(self, name: str) -> Optional[ITensor]:
        """The tensor that blob |name| is at the end of the network; None where there is none."""
        value = lib.carnot_caffe_find_tensor(self._network._c, utf8(name))
        return self._network._wrap(value) if value else None


class ICaffePluginFactoryV2:
    """Makes plugins for layers; subclass it."""

    def is_plugin_v2(self, layer_name: str) -> bool:
        raise NotImplementedError("is_plugin_v2 must be overridden")

    def create_plugin(self, layer_name: str, weights: Any) -> Any:
        raise NotImplementedError("create_plugin must be overridden")


class CaffeParser(Manual, Reporter):
    """Reads Caffe networks. Batches are explicit: dimension 0 of the inputs is the batch of the prototxt."""

    def __init__(self) -> None:
        self._logger: Optional[ILogger] = None
        self.plugin_namespace = ""
        self.protobuf_buffer_size = 0  # has no effect: files of any size are read in place
        self._factory: Optional[ICaffePluginFactoryV2] = None

    @property
    def plugin_factory_v2(self) -> Optional[ICaffePluginFactoryV2]:
        return self._factory

    @plugin_factory_v2.setter
    def plugin_factory_v2(self, factory: Optional[ICaffePluginFactoryV2]) -> None:
        if factory is not None:
            raise NotImplementedError(
                "plugin_factory_v2: plugins by layer name are not made; the layers that can be read are listed in "
                "docs/how-to-import-caffe.md"
            )
        self._factory = None

    def _parse(self, network: INetworkDefinition, dtype: DataType, call: Any) -> IBlobNameToTensor:
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"CaffeParser takes an INetworkDefinition, not {type(network).__name__}")
        if DataType(dtype) not in (DataType.FLOAT, DataType.HALF):
            raise ValueError(f"dtype is {dtype}; DataType.FLOAT or DataType.HALF is required")
        self._logger = network._logger
        network._sync(strict=True)
        before, inputs = lib.carnot_network_last_layer(network._c), lib.carnot_network_input_count(network._c)
        options = ffi.new("carnot_caffe_options*", {"marks_no_outputs": True, "seed": 1})
        check(call(options))
        network._take_parsed(before, inputs)
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
            lambda options: lib.carnot_network_add_caffe_files(
                network._c, utf8(os.fspath(deploy)), weights, options
            ),
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
