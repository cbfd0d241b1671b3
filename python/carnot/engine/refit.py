"""Refitter: new weights for a refittable engine."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from .._carnot import ffi, lib
from ..core import ALL_THREADS, ILogger, Manual, Reporter, check, reported, text, to_c_dims, utf8
from ..enums import TensorLocation, WeightsRole
from ..types import Dims, Weights, from_c_dtype, nptype, to_c_dtype
from .engine import ICudaEngine


class Refitter(Reporter, Manual):
    """Collects new weights and commits them together."""

    def __init__(self, engine: ICudaEngine, logger: ILogger) -> None:
        if not isinstance(engine, ICudaEngine):
            raise TypeError(f"Refitter takes an ICudaEngine, not {type(engine).__name__}")
        self._engine, self._logger = engine, logger
        self.max_threads = ALL_THREADS
        self.weights_validation = True
        self._given: set = set()
        self._begin()

    def _begin(self) -> None:
        made = ffi.new("carnot_refit**")
        check(lib.carnot_refit_begin(self._engine._c, made))
        self._c = ffi.gc(made[0], lib.carnot_refit_free)
        self._given.clear()

    logger = property(lambda self: self._logger)

    # ---- names ----

    def get_all_weights(self) -> List[str]:
        names, i = [], 0
        while True:
            name = lib.carnot_refit_name(self._c, i)
            if not name:
                return names
            names.append(text(name))
            i += 1

    def get_missing_weights(self) -> List[str]:
        return [name for name in self.get_all_weights() if self._weight(name)[2] == ffi.NULL]

    @staticmethod
    def _split(names: List[str]) -> Tuple[List[str], List[WeightsRole]]:
        """Splits weight names of the form "layer ROLE" into layers and roles.

        Other names, as of ONNX initializers, count as CONSTANT layers of that name.
        """
        layers, roles = [], []
        for name in names:
            layer, _, role = name.rpartition(" ")
            is_split = bool(layer) and role in WeightsRole.__members__
            layers.append(layer if is_split else name)
            roles.append(WeightsRole[role] if is_split else WeightsRole.CONSTANT)
        return layers, roles

    def get_all(self) -> Tuple[List[str], List[WeightsRole]]:
        return self._split(self.get_all_weights())

    def get_missing(self) -> Tuple[List[str], List[WeightsRole]]:
        return self._split(self.get_missing_weights())

    # ---- weights ----

    def _weight(self, name: str) -> Tuple[Any, Dims, Any]:
        dtype, dims, data = ffi.new("carnot_dtype*"), ffi.new("carnot_dims*"), ffi.new("const void**")
        check(lib.carnot_refit_weight(self._c, utf8(name), dtype, dims, data))
        return from_c_dtype(dtype[0]), Dims._of_c(dims), data[0]

    def _set(self, name: str, dtype: Any, dims: Any, data: Any) -> None:
        check(lib.carnot_refit_set_weights(self._c, utf8(name), to_c_dtype(dtype), to_c_dims(dims), data))
        self._given.add(name)

    @reported(False)
    def set_named_weights(self, name: str, weights: Any, location: TensorLocation = TensorLocation.HOST) -> bool:
        weights = Weights.of(weights)
        dtype, dims, _ = self._weight(name)
        if weights.size != int(np.prod(list(dims), dtype=np.int64)):
            self._fail(f"set_named_weights: {name} has shape {dims}, got {weights.size} elements")
            return False
        self._set(name, weights.dtype, dims, ffi.cast("void*", weights._array.__array_interface__["data"][0]))
        return True

    def set_weights(self, layer_name: str, role: WeightsRole, weights: Any) -> bool:
        name = f"{layer_name} {WeightsRole(role).name}"
        is_initializer = role == WeightsRole.CONSTANT and name not in self.get_all_weights()
        return self.set_named_weights(layer_name if is_initializer else name, weights)

    @reported(None)
    def get_named_weights(self, weights_name: str) -> Optional[Weights]:
        """Weights that are set but not committed; empty if there are none."""
        dtype, dims, data = self._weight(weights_name)
        if weights_name not in self._given:
            return Weights(dtype)
        count = int(np.prod(list(dims), dtype=np.int64))
        size = lib.carnot_dtype_bytes(to_c_dtype(dtype), count)
        return Weights(np.frombuffer(ffi.buffer(data, size), nptype(dtype), count).copy())

    @reported(TensorLocation.HOST)
    def get_weights_location(self, weights_name: str) -> TensorLocation:
        self._weight(weights_name)
        return TensorLocation.HOST

    @reported(None)
    def get_weights_prototype(self, weights_name: str) -> Weights:
        dtype, dims, _ = self._weight(weights_name)
        return Weights(dtype, 0, int(np.prod(list(dims), dtype=np.int64)))

    @reported(False)
    def unset_named_weights(self, weights_name: str) -> bool:
        if weights_name not in self._given:
            return False
        kept = []
        for name in self._given - {weights_name}:
            dtype, dims, data = self._weight(name)
            size = lib.carnot_dtype_bytes(to_c_dtype(dtype), int(np.prod(list(dims), dtype=np.int64)))
            kept.append((name, dtype, dims, bytes(ffi.buffer(data, size))))
        self._begin()
        for name, dtype, dims, data in kept:
            self._set(name, dtype, dims, ffi.from_buffer(data))
        return True

    @reported(False)
    def refit_cuda_engine(self) -> bool:
        check(lib.carnot_refit_commit(self._c))
        self._begin()
        return True

    def refit_cuda_engine_async(self, stream_handle: int) -> bool:
        return self.refit_cuda_engine()

    # ---- dynamic ranges belong to INT8 ----

    def set_dynamic_range(self, tensor_name: str, range: Any) -> bool:  # noqa: A002
        self._fail("set_dynamic_range: the engine was not built with dynamic ranges")
        return False

    def get_dynamic_range(self, tensor_name: str) -> Tuple[float, float]:
        return (0.0, 0.0)

    def get_tensors_with_dynamic_range(self) -> List[str]:
        return []
