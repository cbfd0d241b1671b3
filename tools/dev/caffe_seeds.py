"""Writes seeds of the fuzz target of Caffe networks: caffe_seeds.py FOLDER. Each layer's test is one."""

import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"))

from caffe_net import caffemodel, inputs_text, layer  # noqa: E402
from test_caffe_layers import CASES  # noqa: E402

PLUGIN = layer("InstanceNormalization_TRT", "x", more='own_param { plugin_version: "1" epsilon: 0.5 }')
SCALE, BIAS = np.ones(3, np.float32), np.zeros(3, np.float32)
SEEDS = {**CASES, "plugin": (PLUGIN, {"x": (2, 3, 4, 4)}, [SCALE, BIAS], None)}

folder = pathlib.Path(sys.argv[1])
for name, (text, inputs, blobs, _) in SEEDS.items():
    net = (inputs_text(inputs) + text).encode()
    (folder / name).write_bytes(struct.pack("<H", len(net)) + net + caffemodel({"layer": blobs}))
