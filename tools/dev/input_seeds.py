"""Seeds for the fuzz target of input files: one small file of each kind. Usage: input_seeds.py DIR"""
import io
import pathlib
import sys

import numpy as np
import onnx.numpy_helper
from PIL import Image

folder = pathlib.Path(sys.argv[1])
array = np.arange(24, dtype=np.float32).reshape(1, 3, 1, 8)
picture = Image.fromarray(np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3))


def encoded(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "npy":
        np.save(out, array)
    elif kind == "pb":
        out.write(onnx.numpy_helper.from_array(array, "x").SerializeToString())
    elif kind == "raw":
        out.write(array.tobytes())
    else:
        picture.save(out, format=kind)
    return out.getvalue()


for index, kind in enumerate(["npy", "pb", "png", "jpeg", "raw"]):
    (folder / kind).write_bytes(bytes([index]) + encoded(kind))
