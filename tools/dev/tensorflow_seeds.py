"""Writes seeds of the fuzz targets of TensorFlow models and tensor bundles: tensorflow_seeds.py MODELS BUNDLES."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tensorflow"))

import numpy as np  # noqa: E402
from graph_writer import F32, Function, Type, add, constant, function, graph, node, placeholder  # noqa: E402
from saved_model_writer import bundle_entries, meta_graph, number, part, table  # noqa: E402
from variables import SIGNATURES, TENSORS, function_graph, reference_graph, resource_graph  # noqa: E402

models, bundles = map(pathlib.Path, sys.argv[1:])
for name, build in {"function": function_graph, "reference": reference_graph, "resource": resource_graph}.items():
    meta = meta_graph(
        build(), {"serving_default": SIGNATURES["serving_default"]}, restore=("file:0", "save/restore_all")
    )
    (models / name).write_bytes(number(1, 1) + part(2, meta))
    (models / f"{name}_meta").write_bytes(meta)
    (models / f"{name}_graph").write_bytes(build())

body = function("body", {"v": "f4"}, {"out": "f4"}, [node("s", "Mul", "v", "v", T=F32)], {"out": "s:z:0"})
less = [constant("c", 9), node("l", "Less", "v", "c:output:0", T=F32)]
cond = function("cond", {"v": "f4"}, {"out": "bool"}, less, {"out": "l:z:0"})
loop = node("w", "While", "x", T=[F32], cond=Function("cond"), body=Function("body"))
choose = node(
    "y",
    "If",
    "f",
    "w",
    Tcond=Type("bool"),
    Tin=[F32],
    Tout=[F32],
    then_branch=Function("body"),
    else_branch=Function("body"),
)
nodes = [placeholder("x", ()), placeholder("f", (), "bool"), loop, choose]
(models / "control").write_bytes(graph(*nodes, functions=[body, cond]))
conv = node("c", "Conv2D", "x", "w", T=F32, strides=[1, 2, 2, 1], padding="SAME")
pool = node("p", "MaxPool", "c", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
masks = dict(begin_mask=1, end_mask=1, ellipsis_mask=2, new_axis_mask=4, shrink_axis_mask=8)
lists = [constant(n, [0, 0, 0, 1], "i4") for n in ("b", "e", "s")]
cut = node("y", "StridedSlice", "p", "b", "e", "s", **masks)
net = [
    placeholder("x", (1, 8, 8, 3)),
    constant("w", np.ones((3, 3, 3, 4))),
    conv,
    pool,
    *lists,
    cut,
    add("z", "p", "p"),
]
(models / "conv").write_bytes(graph(*net))

(bundles / "two").write_bytes(table(bundle_entries(TENSORS, 2, {})[0]))
many = {f"layers/{n:03}/kernel": np.full((n % 5, 3), n, "f4") for n in range(40)}
(bundles / "many").write_bytes(table(bundle_entries(many, 3, {})[0]))
