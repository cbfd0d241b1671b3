"""The ONNX parser, and the refit of engines from ONNX models."""

from __future__ import annotations

import mmap
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ._carnot import ffi, lib
from .core import CarnotError, ILogger, Manual, Reporter, check, text, utf8
from .enums import ErrorCode, OnnxParserFlag
from .network.network import INetworkDefinition
from .network.tensor import ITensor
from .network.weights import visit_weights

_CODES = {
    lib.CARNOT_UNSUPPORTED: ErrorCode.UNSUPPORTED_NODE,
    lib.CARNOT_INVALID_MODEL: ErrorCode.INVALID_GRAPH,
    lib.CARNOT_IO: ErrorCode.MODEL_DESERIALIZE_FAILED,
    lib.CARNOT_OUT_OF_MEMORY: ErrorCode.MEM_ALLOC_FAILED,
    lib.CARNOT_INTERNAL: ErrorCode.INTERNAL_ERROR,
}


class ParserError:
    """A parser error and its node."""

    def __init__(self, code: ErrorCode, desc: str, node: int = -1, name: str = "", operator: str = "") -> None:
        self._code, self._desc, self._node, self._name, self._operator = code, desc, node, name, operator

    def code(self) -> ErrorCode:
        return self._code

    def desc(self) -> str:
        return self._desc

    def file(self) -> str:
        return ""

    def func(self) -> str:
        return ""

    def line(self) -> int:
        return 0

    def node(self) -> int:
        return self._node

    def node_name(self) -> str:
        return self._name

    def node_operator(self) -> str:
        return self._operator

    def local_function_stack(self) -> List[str]:
        return []

    def local_function_stack_size(self) -> int:
        return 0

    def __str__(self) -> str:
        at = f" at node {self._node} {self._name} ({self._operator})" if self._node >= 0 else ""
        return f"{self._code.name}{at}: {self._desc}"

    __repr__ = __str__


def _nodes(model: Any) -> List[dict]:
    """The nodes of a model's main graph."""
    found: List[dict] = []
    handle = ffi.new_handle(found)
    check(lib.carnot_onnx_visit_nodes(ffi.from_buffer(model), len(model), lib.carnot_py_onnx_node, handle))
    return found


@ffi.def_extern()
def carnot_py_onnx_node(user: Any, node: Any) -> bool:
    is_supported = node.is_function or lib.carnot_onnx_supports(node.domain, node.op_type, node.version)
    ffi.from_handle(user).append(
        {
            "index": node.index,
            "name": text(node.name),
            "op_type": text(node.op_type),
            "output": text(node.output),
            "supported": bool(is_supported),
        }
    )
    return True


def _folder(path: Optional[str]) -> Any:
    """The folder of external data: that of |path|."""
    return ffi.NULL if not path else (os.path.dirname(os.path.abspath(os.fspath(path))) or ".").encode()


class _Errors(Reporter):
    """The list of errors of a parser."""

    def _start(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"{type(self).__name__} takes an ILogger, not {type(logger).__name__}")
        self._logger = logger
        self._errors: List[ParserError] = []

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()

    def _note(self, error: CarnotError, model: Any) -> None:
        """Adds a ParserError for each node in the message."""
        try:
            nodes = {node["name"] or node["output"]: node for node in _nodes(model)} if model is not None else {}
        except CarnotError:
            nodes = {}
        code, message = _CODES.get(error.code, ErrorCode.INVALID_VALUE), str(error)
        lines = re.findall(r"^  node (.*?): (.*)$", message, re.MULTILINE)
        if not lines:
            at = re.search(r"node (\S+) \((\w+)\)", message)
            node = nodes.get(at.group(1), {}) if at else {}
            self._errors.append(
                ParserError(
                    code,
                    message,
                    node.get("index", -1),
                    at.group(1) if at else "",
                    node.get("op_type", at.group(2) if at else ""),
                )
            )
        for name, reason in lines:
            node = nodes.get(name, {})
            self._errors.append(ParserError(code, reason, node.get("index", -1), name, node.get("op_type", "")))
        self._fail(error)


class OnnxParser(_Errors, Manual):
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
        self._initializers: Dict[str, bytes] = {}

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
                self._network._c, ffi.from_buffer(data), len(data), _folder(path), self._c_flags()
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

    def load_model_proto(self, model: Any, path: Optional[str] = None) -> bool:
        self._model, self._model_path = bytes(model), path
        return True

    def load_initializer(self, name: str, data: Any, size: int) -> bool:
        self._fail(
            "load_initializer: initializers apart from the model are not available in this version; "
            "give them as external data beside the model's path"
        )
        return False

    def parse_model_proto(self) -> bool:
        if self._model is None:
            self._fail("parse_model_proto: no model was loaded; call load_model_proto first")
            return False
        return self.parse(self._model, self._model_path)

    # ---- questions ----

    def supports_operator(self, op_name: str) -> bool:
        newest = 1 << 20
        return any(lib.carnot_onnx_supports(domain, utf8(op_name), newest) for domain in (b"", b"com.microsoft"))

    def supports_model_v2(self, model: Any, path: Optional[str] = None) -> bool:
        data = bytes(model)
        try:
            nodes = _nodes(data)
        except CarnotError as error:
            self._note(error, None)
            return False
        bad = {node["index"] for node in nodes if not node["supported"]}
        made = ffi.new("carnot_network**")
        try:
            check(lib.carnot_onnx_parse_memory(ffi.from_buffer(data), len(data), _folder(path), made))
            lib.carnot_network_destroy(made[0])
        except CarnotError as error:
            count = len(self._errors)
            self._note(error, data)
            bad |= {e._node for e in self._errors[count:] if e._node >= 0}
        self._subgraphs = []
        for node in nodes:
            is_supported = node["index"] not in bad
            if self._subgraphs and self._subgraphs[-1][1] == is_supported:
                self._subgraphs[-1][0].append(node["index"])
            else:
                self._subgraphs.append(([node["index"]], is_supported))
        return not bad and not self._errors

    def supports_model(self, model: Any, path: Optional[str] = None) -> Tuple[bool, List[Tuple[List[int], bool]]]:
        return self.supports_model_v2(model, path), list(self._subgraphs)

    num_subgraphs = property(lambda self: len(self._subgraphs))

    def is_subgraph_supported(self, index: int) -> bool:
        return self._subgraphs[index][1]

    def get_subgraph_nodes(self, index: int) -> List[int]:
        return self._subgraphs[index][0]

    def get_layer_output_tensor(self, name: str, i: int) -> Optional[ITensor]:
        for layer in self._network._layers:
            if layer.name == name:
                return layer.get_output(i)
        return None

    def get_used_vc_plugin_libraries(self) -> List[str]:
        return []


class OnnxParserRefitter(_Errors):
    """Passes the weights of an ONNX model to a refitter."""

    def __init__(self, refitter: Any, logger: ILogger) -> None:
        self._start(logger)
        self._refitter = refitter
        self._model: Optional[bytes] = None
        self._model_path: Optional[str] = None

    def _refit(self, made: Any, keep: Any) -> bool:
        network = ffi.gc(made, lib.carnot_network_destroy)
        wanted = set(self._refitter.get_all_weights())
        for name, dtype, dims, data in visit_weights(network):
            if name not in wanted:
                continue
            try:
                self._refitter._set(name, dtype, dims, data)
            except CarnotError as error:
                self._errors.append(ParserError(ErrorCode.REFIT_FAILED, str(error)))
                self._fail(error)
                return False
        return keep is not None

    def refit_from_file(self, model: str) -> bool:
        made = ffi.new("carnot_network**")
        try:
            check(lib.carnot_onnx_parse_file(utf8(os.fspath(model)), made))
        except CarnotError as error:
            self._note(error, None)
            return False
        return self._refit(made[0], model)

    def refit_from_bytes(self, model: Any, path: Optional[str] = None) -> bool:
        data, made = bytes(model), ffi.new("carnot_network**")
        try:
            check(lib.carnot_onnx_parse_memory(ffi.from_buffer(data), len(data), _folder(path), made))
        except CarnotError as error:
            self._note(error, data)
            return False
        return self._refit(made[0], data)

    def load_model_proto(self, model: Any, path: Optional[str] = None) -> bool:
        self._model, self._model_path = bytes(model), path
        return True

    def load_initializer(self, name: str, data: Any, size: int) -> bool:
        self._fail("load_initializer is not available in this version; set_named_weights gives single weights")
        return False

    def refit_model_proto(self) -> bool:
        if self._model is None:
            self._fail("refit_model_proto: no model was loaded; call load_model_proto first")
            return False
        return self.refit_from_bytes(self._model, self._model_path)
