"""The errors of the ONNX parser: one for each node that a message names."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence

from ._carnot import ffi, lib
from .core import CarnotError, ILogger, Reporter, check, text
from .enums import ErrorCode
from .version import TENSORRT_VERSION

_CODES = {
    lib.CARNOT_UNSUPPORTED: ErrorCode.UNSUPPORTED_NODE,
    lib.CARNOT_INVALID_MODEL: ErrorCode.INVALID_GRAPH,
    lib.CARNOT_IO: ErrorCode.MODEL_DESERIALIZE_FAILED,
    lib.CARNOT_OUT_OF_MEMORY: ErrorCode.MEM_ALLOC_FAILED,
    lib.CARNOT_INTERNAL: ErrorCode.INTERNAL_ERROR,
}


_NOT_FOUND = 'creator && "Plugin not found, are the plugin name, version, and namespace correct?"'


class ParserError:
    """A parser error and its node. The text has TensorRT's form, on one line; the log says more."""

    def __init__(
        self,
        code: ErrorCode,
        desc: str,
        node: int = -1,
        name: str = "",
        operator: str = "",
        calls: Sequence[str] = (),
        func: str = "parse",
    ) -> None:
        self._code, self._desc, self._node, self._name, self._operator = code, desc, node, name, operator
        self._calls, self._func = list(calls), func

    @classmethod
    def _missing(cls, node: int, name: str, operator: str, calls: Sequence[str]) -> "ParserError":
        """There is neither an operator nor a plugin."""
        if TENSORRT_VERSION >= (10,):
            func = "checkFallbackPluginImporter"
            return cls(ErrorCode.INVALID_NODE, _NOT_FOUND, node, name, operator, calls, func)
        func, desc = "importFallbackPluginImporter", f"Assertion failed: {_NOT_FOUND}"
        return cls(ErrorCode.UNSUPPORTED_NODE, desc, node, name, operator, calls, func)

    def code(self) -> ErrorCode:
        return self._code

    def desc(self) -> str:
        return self._desc

    def file(self) -> str:
        return ""

    def func(self) -> str:
        return self._func

    def line(self) -> int:
        return 0

    def node(self) -> int:
        return self._node

    def node_name(self) -> str:
        return self._name

    def node_operator(self) -> str:
        return self._operator

    def local_function_stack(self) -> List[str]:
        """The calls of model-local functions around the node, as "call (function)", the outermost first."""
        return list(self._calls)

    def local_function_stack_size(self) -> int:
        return len(self._calls)

    def __str__(self) -> str:
        at = ""
        if self._node >= 0:
            names = f" with name: {self._name} and operator: {self._operator}" if TENSORRT_VERSION >= (10,) else ""
            at = f"In node {self._node}{names} ({self._func}): "
        return f"{at}{self._code.name}: {self._desc}"

    __repr__ = __str__


def model_nodes(model: Any) -> List[dict]:
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


_UNNAMED = "node_of_"  # and the first output: what messages call a node without a name
# A line of the message about nodes that are not supported.
_LINE = re.compile(r"^  node (.*?)(?: \(in (.*\))\))?: ([^\s,]+)(, version .*)$", re.MULTILINE)


def _of_line(code: ErrorCode, name: str, calls: str, operator: str, reason: str, nodes: Dict[str, dict]) -> ParserError:
    """The error of one line; the number is that of the node in its graph or function, 0 in a function."""
    stack = calls.split(" -> ") if calls else []
    for call in stack:
        name = name[len(call.rpartition(" (")[0]) + 1 :]
    unnamed = name[len(_UNNAMED) :] if name.startswith(_UNNAMED) else name
    node = nodes.get(name) or nodes.get(unnamed, {}) if not stack else {"index": 0}
    index, operator = node.get("index", -1), node.get("op_type", operator.rpartition(".")[2])
    name = node.get("name", "") if not stack and node else name
    if "no such operator is known" in reason:
        return ParserError._missing(index, name, operator, stack)
    return ParserError(code, operator + reason, index, name, operator, stack)


def _single(code: ErrorCode, message: str, nodes: Dict[str, dict]) -> ParserError:
    """The error of a message that may name one node."""
    at = re.search(r"node (\S+) \((\w+)\)", message)
    node = nodes.get(at.group(1), {}) if at else {}
    operator = node.get("op_type", at.group(2) if at else "")
    return ParserError(code, " ".join(message.split()), node.get("index", -1), at.group(1) if at else "", operator)


class ParserErrors(Reporter):
    """The list of errors of a parser."""

    def _start(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"{type(self).__name__} takes an ILogger, not {type(logger).__name__}")
        self._logger = logger
        self._errors: List[ParserError] = []

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index: int) -> Optional[ParserError]:
        if not 0 <= index < len(self._errors):
            self._fail(f"get_error: there is no error {index}, there are {len(self._errors)}")
            return None
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()

    def _note(self, error: CarnotError, model: Any) -> None:
        """Adds and logs a ParserError for each node in the message."""
        try:
            nodes = {node["name"] or node["output"]: node for node in model_nodes(model)} if model is not None else {}
        except CarnotError:
            nodes = {}
        code, message = _CODES.get(error.code, ErrorCode.INVALID_VALUE), str(error)
        lines = _LINE.findall(message)
        if not lines:
            self._errors.append(_single(code, message, nodes))
            self._fail(error)
        for name, calls, operator, reason in lines:
            self._errors.append(_of_line(code, name, calls, operator, reason, nodes))
            self._fail(CarnotError(error.code, f"node {name}{f' in {calls}' if calls else ''}: {operator}{reason}"))
