"""The UFF parser of TensorRT 8, over frozen graphs of TensorFlow: the files that .uff files are made from."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from ._carnot import ffi, lib
from .core import ILogger, Manual, Reporter, check, reported, to_c_dims, utf8
from .enums import DataType, UffInputOrder
from .network.network import INetworkDefinition


class UffParser(Manual, Reporter):
    """Reads frozen graphs (GraphDef). Batches are explicit: dimension 0 of the inputs is the batch of the graph.

    A .uff file is refused: give the frozen graph that it was made from.
    """

    uff_required_version_major = property(lambda self: 0)
    uff_required_version_minor = property(lambda self: 6)
    uff_required_version_patch = property(lambda self: 9)

    def __init__(self) -> None:
        self._logger: Optional[ILogger] = None
        self.plugin_namespace = ""
        self._inputs: Dict[str, Tuple[Any, UffInputOrder]] = {}
        self._output_names: List[str] = []

    def register_input(self, name: str, shape: Any, order: UffInputOrder = UffInputOrder.NCHW) -> bool:
        """Sets the dimensions of placeholder |name|, without the batch, in the order of the data.

        NCHW: where the graph has channels last, the data is (C, H, W) all the same. False after an error.
        """
        if not isinstance(order, UffInputOrder):
            raise TypeError(f"order is {order}; a UffInputOrder is required")
        utf8(name)
        sizes = to_c_dims(shape)
        if not sizes.rank or any(sizes.d[i] < 1 for i in range(sizes.rank)):
            self._fail(f"input {name}: shape is {tuple(shape)}; sizes of 1 or more are required", "register_input")
            return False
        self._inputs[name] = (sizes, order)
        return True

    def register_output(self, name: str) -> bool:
        """Marks node |name| as an output; without any, the nodes that no other reads. False after an error."""
        if not utf8(name):
            self._fail("an output needs a name", "register_output")
            return False
        self._output_names.append(name)
        return True

    def _options(self, keep: List[Any]) -> Any:
        outputs = [ffi.new("char[]", utf8(name)) for name in self._output_names]
        names = [ffi.new("char[]", utf8(name)) for name in self._inputs]
        listed = ffi.new("char*[]", outputs)
        registered = ffi.new("carnot_tensorflow_registered_input[]", len(names))
        for made, name, (sizes, order) in zip(registered, names, self._inputs.values()):
            made.name, made.dims, made.is_channels_first = name, sizes[0], order == UffInputOrder.NCHW
        keep += [outputs, names, listed, registered]
        members = {"outputs": listed, "output_count": len(outputs)}
        members.update({"registered": registered, "registered_count": len(names)})
        return ffi.new("carnot_tensorflow_options*", members)

    def _parse(self, network: INetworkDefinition, weights_type: DataType, call: Any) -> bool:
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"UffParser takes an INetworkDefinition, not {type(network).__name__}")
        if DataType(weights_type) not in (DataType.FLOAT, DataType.HALF):
            raise ValueError(f"weights_type is {weights_type}; DataType.FLOAT or DataType.HALF is required")
        self._logger = network._logger
        network._sync(strict=True)
        before, inputs = lib.carnot_network_last_layer(network._c), lib.carnot_network_input_count(network._c)
        keep: List[Any] = []
        check(call(self._options(keep)))
        network._take_parsed(before, inputs)
        return True

    @reported(False)
    def parse(self, file: str, network: INetworkDefinition, weights_type: DataType = DataType.FLOAT) -> bool:
        """Reads the frozen graph at |file| and marks the registered outputs. False after an error.

        |weights_type| is what TensorRT stores weights in; here the builder chooses by its flags.
        """
        path = utf8(os.fspath(file))
        return self._parse(
            network, weights_type, lambda options: lib.carnot_network_add_tensorflow(network._c, path, options)
        )

    @reported(False)
    def parse_buffer(self, buffer: Any, network: INetworkDefinition, weights_type: DataType = DataType.FLOAT) -> bool:
        """The same for the bytes of a GraphDef."""
        data = bytes(buffer)

        def add(options: Any) -> Any:
            network._keep.append(data)
            return lib.carnot_network_add_tensorflow_memory(network._c, ffi.from_buffer(data), len(data), options)

        return self._parse(network, weights_type, add)
