"""The refit of engines from ONNX models."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from ._carnot import ffi, lib
from .core import CarnotError, ILogger, check, reported, utf8
from .enums import ErrorCode
from .network.weights import visit_weights
from .parser_errors import ParserError, ParserErrors


def external_folder(path: Optional[str]) -> Any:
    """The folder of external data: that of |path|."""
    return ffi.NULL if not path else (os.path.dirname(os.path.abspath(os.fspath(path))) or ".").encode()


def checked_initializer(model: bytes, name: str, data: Any, size: int) -> Tuple[Any, int]:
    """Address or buffer and size, checked against the model."""
    wanted = ffi.new("size_t*")
    check(lib.carnot_onnx_initializer_size(ffi.from_buffer(model), len(model), utf8(name), wanted))
    if int(size) != wanted[0]:
        raise CarnotError(
            lib.CARNOT_INVALID_ARGUMENT, f"initializer {name}: {size} bytes were given, the model needs {wanted[0]}"
        )
    kept = data if isinstance(data, int) else ffi.from_buffer(data)
    if not isinstance(data, int) and len(kept) < wanted[0]:
        raise CarnotError(
            lib.CARNOT_INVALID_ARGUMENT, f"initializer {name}: the buffer has {len(kept)} bytes, {wanted[0]} are needed"
        )
    return kept, wanted[0]


def c_initializers(given: Dict[str, Any]) -> Tuple[Any, List[Any]]:
    """The C array, and the names that it borrows."""
    made, names = ffi.new("carnot_onnx_initializer[]", len(given)), [ffi.new("char[]", utf8(name)) for name in given]
    for c, name, (data, size) in zip(made, names, given.values()):
        c.name, c.data, c.size = name, ffi.cast("void*", data), size
    return made, names


class KeptModel(ParserErrors):
    """A model that is loaded first and read later, with initializers apart from it."""

    _model: Optional[bytes]
    _model_path: Optional[str]
    _initializers: Dict[str, Any]

    def load_model_proto(self, model: Any, path: Optional[str] = None) -> bool:
        """Keeps a model for parse_model_proto or refit_model_proto."""
        self._model, self._model_path = bytes(model), path
        self._initializers.clear()
        return True

    @reported(False)
    def load_initializer(self, name: str, data: Any, size: int) -> bool:
        """The elements of an initializer, |size| bytes at the address or in the buffer |data|, which must stay."""
        if self._model is None:
            raise CarnotError(lib.CARNOT_FAILED_PRECONDITION, "no model was loaded; call load_model_proto first")
        self._initializers[name] = checked_initializer(self._model, name, data, size)
        return True


class OnnxParserRefitter(KeptModel):
    """Passes the weights of an ONNX model to a refitter."""

    def __init__(self, refitter: Any, logger: ILogger) -> None:
        self._start(logger)
        self._refitter = refitter
        self._model: Optional[bytes] = None
        self._model_path: Optional[str] = None
        self._initializers: Dict[str, Any] = {}

    def _refit(self, network: Any, keep: Any) -> bool:
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
        return self._refit(ffi.gc(made[0], lib.carnot_network_destroy), model)

    def refit_from_bytes(self, model: Any, path: Optional[str] = None) -> bool:
        return self._refit_bytes(bytes(model), path, {})

    def _refit_bytes(self, data: bytes, path: Optional[str], initializers: Dict[str, Any]) -> bool:
        made = ffi.new("carnot_network**")
        given, names = c_initializers(initializers)
        try:
            check(lib.carnot_network_create(made))
            network = ffi.gc(made[0], lib.carnot_network_destroy)
            check(
                lib.carnot_network_add_onnx_with_initializers(
                    network,
                    ffi.from_buffer(data),
                    len(data),
                    external_folder(path),
                    lib.CARNOT_ONNX_NATIVE_INSTANCENORM,
                    given,
                    len(names),
                )
            )
        except CarnotError as error:
            self._note(error, data)
            return False
        return self._refit(network, data)

    def refit_model_proto(self) -> bool:
        """Refits from the model of load_model_proto, with the elements of load_initializer."""
        if self._model is None:
            self._fail("refit_model_proto: no model was loaded; call load_model_proto first")
            return False
        return self._refit_bytes(self._model, self._model_path, self._initializers)
