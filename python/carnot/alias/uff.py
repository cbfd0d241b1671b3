"""The package uff of TensorRT 8: converters whose result is the frozen graph itself, which UffParser reads."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

__version__ = "0.6.9"


def _checked(data: Any) -> bytes:
    """The bytes of a GraphDef: of bytes, or of an object that serializes itself."""
    if hasattr(data, "as_graph_def"):
        data = data.as_graph_def()
    if hasattr(data, "SerializeToString"):
        data = data.SerializeToString()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a GraphDef or its bytes are required, not {type(data).__name__}")
    from carnot._carnot import ffi, lib

    data = bytes(data)
    if not lib.carnot_tensorflow_is_graph(ffi.from_buffer(data), len(data)):
        raise ValueError("the data is no GraphDef of TensorFlow")
    return data


def from_tensorflow(
    graphdef: Any,
    output_nodes: Optional[Sequence[str]] = None,
    preprocessor: Optional[str] = None,
    output_filename: Optional[str] = None,
    **options: Any,
) -> bytes:
    """The bytes of |graphdef|, written to |output_filename| as well where it is given.

    |output_nodes| and further options have no effect: UffParser.register_output names the outputs. A preprocessor,
    which edits the graph by means of graphsurgeon, is refused.
    """
    if preprocessor is not None:
        raise NotImplementedError("preprocessor: edit the frozen graph before it is read")
    data = _checked(graphdef)
    if output_filename is not None:
        with open(output_filename, "wb") as file:
            file.write(data)
    return data


def from_tensorflow_frozen_model(
    frozen_file: Any, output_nodes: Optional[Sequence[str]] = None, **options: Any
) -> bytes:
    """The same for the frozen graph in a file."""
    with open(os.fspath(frozen_file), "rb") as file:
        return from_tensorflow(file.read(), output_nodes, **options)
