"""The named weights of a C network."""

from __future__ import annotations

from typing import Any, List

from .._carnot import ffi, lib
from ..core import check, text
from ..types import from_c_dtype


def visit_weights(network: Any) -> List[tuple]:
    """Name, type, dimensions and pointer of every named weight of a C network."""
    found: List[tuple] = []
    handle = ffi.new_handle(found)
    check(lib.carnot_network_visit_weights(network, lib.carnot_py_weight, handle))
    return found


@ffi.def_extern()
def carnot_py_weight(user: Any, name: Any, dtype: int, dims: Any, data: Any) -> None:
    ffi.from_handle(user).append((text(name), from_c_dtype(dtype), [dims.d[i] for i in range(dims.rank)], data))
