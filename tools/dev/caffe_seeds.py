"""Writes seeds of the fuzz target of Caffe networks: caffe_seeds.py FOLDER. Each layer's test is one."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"))

from caffe_net import caffemodel, inputs_text  # noqa: E402
from test_caffe_layers import CASES  # noqa: E402

folder = pathlib.Path(sys.argv[1])
for name, (text, inputs, blobs, _) in CASES.items():
    net = (inputs_text(inputs) + text).encode()
    (folder / name).write_bytes(struct.pack("<H", len(net)) + net + caffemodel({"layer": blobs}))
