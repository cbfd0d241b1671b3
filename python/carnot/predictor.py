"""A plan as a function of batches, for engines that spread data over processes: Ray, Spark."""

from __future__ import annotations

import inspect
import os
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._carnot import ffi, lib
from .convenience import Model, QuietLogger
from .core import CarnotError, check
from .engine.engine import ICudaEngine
from .engine.runtime import Runtime
from .types import nptype

# The models that this process has opened, by path and threads: copies of a Predictor share one.
_models: Dict[Tuple[str, Optional[int]], Model] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    """Another thread of the parent may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class _Signature:
    """Of a Predictor, not of its class: one parameter for each input, which is how Spark counts columns."""

    def __get__(self, predictor: Optional[Predictor], owner: type) -> inspect.Signature:
        if predictor is None:
            raise AttributeError("__signature__")
        kind = inspect.Parameter.POSITIONAL_ONLY
        names = range(len(predictor.model.inputs))  # names of inputs need not be names of Python
        return inspect.Signature([inspect.Parameter(f"input{i}", kind) for i in names])


class Predictor:
    """Runs the plan at |path| on batches of rows; dimension 0 of all inputs and outputs are the rows.

    It is pickled as its path and opens the plan at the first call in each process, so that the functions that engines
    take it as: Ray Data's map_batches, Ray Serve's batches, Spark's predict_batch_udf, need no wrapper. Processes that
    open one plan share its memory, since the file is mapped: replace it by rename, as `carnot build` does, never in
    place. |threads|: how many a run is spread over; None: the threads that all models of a process share.

    Any number of rows may be given: more than the plan takes are cut into several runs, fewer are padded, and the
    padding is cut off the outputs. Any number of threads may call it.
    """

    __signature__ = _Signature()

    def __init__(self, path: Union[str, os.PathLike], threads: Optional[int] = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        self.path, self.threads = os.path.abspath(os.fspath(path)), threads

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.path, self.threads)

    def __repr__(self) -> str:
        return f"carnot.Predictor({self.path!r}, threads={self.threads})"

    @property
    def model(self) -> Model:
        """The model of this process; it is opened here. Raises CarnotError."""
        with _lock:
            key = (self.path, self.threads)
            if key not in _models:
                made = ffi.new("carnot_engine**")
                check(lib.carnot_engine_map_file(os.fsencode(self.path), made))
                _models[key] = Model(ICudaEngine(made[0], Runtime(QuietLogger())), self.threads)
            return _models[key]

    def __call__(self, *batch: Any) -> Any:
        """One mapping from input names to arrays: the outputs by name, with the columns that are no inputs as they came
        (Ray Data). Arrays in the order of the inputs: the outputs by name (Spark). One list of rows, each a mapping, or
        an array where there is one input: a list of mappings, one a row (Ray Serve).

        TypeError names an input that is missing or of another type, ValueError inputs of different numbers of rows,
        CarnotError a dimension that the plan does not take.
        """
        if len(batch) == 1 and isinstance(batch[0], Mapping):
            return self._columns(batch[0])
        if len(batch) == 1 and isinstance(batch[0], list):
            return self._rows(batch[0])
        names = list(self.model.inputs)
        if len(batch) != len(names):
            raise TypeError(f"{len(batch)} arrays given, the plan takes {len(names)}: {', '.join(names)}")
        return self._columns(dict(zip(names, batch)))

    def _rows(self, rows: List[Any]) -> List[Dict[str, Any]]:
        names = list(self.model.inputs)
        if rows and not isinstance(rows[0], Mapping):
            if len(names) != 1:
                raise TypeError(f"rows must be mappings, since the plan takes {len(names)} inputs: {', '.join(names)}")
            rows = [{names[0]: row} for row in rows]
        columns = {name: _stack(name, [row[name] for row in rows]) for name in (rows[0] if rows else ())}
        outputs = self._columns(columns) if rows else {}
        return [{name: array[i] for name, array in outputs.items()} for i in range(len(rows))]

    def _columns(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        model = self.model
        inputs = {name: np.asarray(value) for name, value in columns.items() if name in model.inputs}
        others = {name: value for name, value in columns.items() if name not in model.inputs}
        missing = [name for name in model.inputs if name not in inputs]
        if missing:
            raise TypeError(f"missing input {', '.join(missing)}; the plan takes {', '.join(model.inputs)}")
        return {**others, **self._run(model, inputs)}

    def _run(self, model: Model, inputs: Dict[str, Any]) -> Dict[str, Any]:
        counts = {name: len(array) if array.ndim else 0 for name, array in inputs.items()}
        rows = max(counts.values(), default=0)
        if any(count != rows for count in counts.values()):
            raise ValueError("the inputs have different numbers of rows: " + ", ".join(
                f"{name} {count}" for name, count in counts.items()))  # fmt: skip
        least, most = _limits(model)
        parts = [
            _run_part(model, {name: array[at : at + most] for name, array in inputs.items()}, least)
            for at in range(0, rows, most)
        ]
        if not parts:
            return {name: _empty(model, name) for name in model.outputs}
        return parts[0] if len(parts) == 1 else {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}


def _stack(name: str, values: Sequence[Any]) -> Any:
    arrays = [np.asarray(value) for value in values]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"rows of input {name} have different shapes: {', '.join(map(str, sorted(shapes)))}")
    return np.stack(arrays)


def _limits(model: Model) -> Tuple[int, int]:
    """The numbers of rows that one run takes."""
    least, most = 1, 1 << 40
    for name, dims in model.inputs.items():
        if len(dims) == 0:
            raise CarnotError(lib.CARNOT_UNSUPPORTED, f"input {name} has no dimension that rows could be along")
        low, _, high = model.engine.get_tensor_profile_shape(name, 0)
        least, most = max(least, low[0]), min(most, high[0])
    return least, max(most, 1)


def _run_part(model: Model, inputs: Dict[str, Any], least: int) -> Dict[str, Any]:
    """One run; rows that the plan needs beyond those given repeat the last one."""
    rows = len(next(iter(inputs.values())))
    padded = max(rows, least)
    if padded > rows:
        inputs = {name: np.concatenate([a, np.repeat(a[-1:], padded - rows, axis=0)]) for name, a in inputs.items()}
    outputs = model(**inputs)
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != padded:
            raise CarnotError(
                lib.CARNOT_INVALID_ARGUMENT,
                f"output {name} has shape {list(array.shape)} for {padded} rows: its first dimension is no row",
            )
    return {name: array[:rows] for name, array in outputs.items()}


def _empty(model: Model, name: str) -> Any:
    """An output of no rows."""
    dims = [max(d, 0) for d in model.outputs[name]]
    return np.empty([0, *dims[1:]], nptype(model.engine.get_tensor_dtype(name)))
