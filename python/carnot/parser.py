"""The ONNX parser."""

from __future__ import annotations

import mmap
import os
from typing import Any, Dict, List, Optional, Set, Tuple

from ._carnot import ffi, lib
from .core import CarnotError, ILogger, Manual, check, utf8
from .enums import OnnxParserFlag
from .network.network import INetworkDefinition
from .network.tensor import ITensor
from .parser_errors import ParserError, model_nodes  # noqa: F401 - ParserError is of this interface
from .parser_refitter import KeptModel, c_initializers, external_folder


def _partition(nodes: List[dict], bad: Set[int]) -> List[Tuple[List[int], bool]]:
    """Runs of supported neighbours; nodes in |bad| are in none."""
    runs: List[Tuple[List[int], bool]] = []
    for node in nodes:
        index = node["index"]
        if index in bad:
            continue
        if runs and runs[-1][0][-1] == index - 1:
            runs[-1][0].append(index)
        else:
            runs.append(([index], True))
    return runs


class OnnxParser(KeptModel, Manual):
    """Reads ONNX models into |network|."""

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        if not isinstance(network, INetworkDefinition):
            raise TypeError(f"OnnxParser takes an INetworkDefinition, not {type(network).__name__}")
        self._start(logger)
        self._network = network
        self._flags = 1 << OnnxParserFlag.NATIVE_INSTANCENORM.value
        self._subgraphs: List[Tuple[List[int], bool]] = []
        self._config = None
        self._model: Optional[bytes] = None
        self._model_path: Optional[str] = None
        self._initializers: Dict[str, Any] = {}

    # ---- flags ----

    @property
    def flags(self) -> int:
        return self._flags

    @flags.setter
    def flags(self, flags: int) -> None:
        self._flags = int(flags)

    def set_flag(self, flag: OnnxParserFlag) -> None:
        self._flags |= 1 << OnnxParserFlag(flag).value

    def clear_flag(self, flag: OnnxParserFlag) -> None:
        self._flags &= ~(1 << OnnxParserFlag(flag).value)

    def get_flag(self, flag: OnnxParserFlag) -> bool:
        return bool(self._flags >> OnnxParserFlag(flag).value & 1)

    def _c_flags(self) -> int:
        flags = lib.CARNOT_ONNX_NATIVE_INSTANCENORM if self.get_flag(OnnxParserFlag.NATIVE_INSTANCENORM) else 0
        if self.get_flag(OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE):
            flags |= lib.CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE
        return flags

    def set_builder_config(self, builder_config: Any) -> bool:
        self._config = builder_config
        return True

    # ---- parsing ----

    def _parse(self, call: Any, model: Any) -> bool:
        network = self._network
        try:
            network._sync(strict=True)
            before, inputs = lib.carnot_network_last_layer(network._c), lib.carnot_network_input_count(network._c)
            check(call())
        except CarnotError as error:
            self._note(error, model() if callable(model) else model)
            return False
        network._take_parsed(before, inputs)
        return True

    def parse(self, model: Any, path: Optional[str] = None) -> bool:
        """Reads a model from memory; external data is in the folder of |path|."""
        data = bytes(model)
        self._network._keep.append(data)
        return self._parse(
            lambda: lib.carnot_network_add_onnx_memory(
                self._network._c, ffi.from_buffer(data), len(data), external_folder(path), self._c_flags()
            ),
            data,
        )

    def parse_from_file(self, model: str) -> bool:
        path = os.fspath(model)

        def read() -> Any:
            try:
                with open(path, "rb") as file:
                    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                return None

        return self._parse(
            lambda: lib.carnot_network_add_onnx_file(self._network._c, utf8(path), self._c_flags()), read
        )

    def parse_with_weight_descriptors(self, model: Any) -> bool:
        return self.parse(model)

    def parse_model_proto(self) -> bool:
        """Reads the model of load_model_proto, with the elements of load_initializer."""
        if self._model is None:
            self._fail("parse_model_proto: no model was loaded; call load_model_proto first")
            return False
        self._network._keep.append((self._model, dict(self._initializers)))
        given, names = c_initializers(self._initializers)

        def read() -> Any:
            return lib.carnot_network_add_onnx_with_initializers(
                self._network._c,
                ffi.from_buffer(self._model),
                len(self._model),
                external_folder(self._model_path),
                self._c_flags(),
                given,
                len(names),
            )

        return self._parse(read, self._model)

    # ---- questions ----

    def supports_operator(self, op_name: str) -> bool:
        newest = 1 << 20
        return any(lib.carnot_onnx_supports(domain, utf8(op_name), newest) for domain in (b"", b"com.microsoft"))

    def supports_model_v2(self, model: Any, path: Optional[str] = None) -> bool:
        data = bytes(model)
        try:
            nodes = model_nodes(data)
        except CarnotError as error:
            self._note(error, None)
            return False
        bad = {node["index"] for node in nodes if not node["supported"]}
        made = ffi.new("carnot_network**")
        try:
            check(lib.carnot_onnx_parse_memory(ffi.from_buffer(data), len(data), external_folder(path), made))
            lib.carnot_network_destroy(made[0])
        except CarnotError as error:
            count = len(self._errors)
            self._note(error, data)
            bad |= {e._node for e in self._errors[count:] if e._node >= 0}
        self._subgraphs = _partition(nodes, bad)
        return not bad and not self._errors

    def supports_model(self, model: Any, path: Optional[str] = None) -> Tuple[bool, List[Tuple[List[int], bool]]]:
        return self.supports_model_v2(model, path), list(self._subgraphs)

    num_subgraphs = property(lambda self: len(self._subgraphs))

    def _subgraph(self, index: int) -> Tuple[List[int], bool]:
        if not 0 <= index < len(self._subgraphs):
            self._fail(f"there is no subgraph {index}, there are {len(self._subgraphs)}")
            return [], False
        return self._subgraphs[index]

    def is_subgraph_supported(self, index: int) -> bool:
        return self._subgraph(index)[1]

    def get_subgraph_nodes(self, index: int) -> List[int]:
        return list(self._subgraph(index)[0])

    def get_layer_output_tensor(self, name: str, i: int) -> Optional[ITensor]:
        for layer in self._network._layers:
            if layer.name == name:
                return layer.get_output(i)
        return None

    def get_used_vc_plugin_libraries(self) -> List[str]:
        return []
