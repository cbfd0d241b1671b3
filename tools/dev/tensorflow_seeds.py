"""Writes seeds of the fuzz targets of TensorFlow models and tensor bundles: tensorflow_seeds.py MODELS BUNDLES."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tensorflow"))

import numpy as np  # noqa: E402
from graph_writer import F32, Function, Type, add, constant, function, graph, node, placeholder  # noqa: E402
from saved_model_writer import bundle_entries, meta_graph, number, part, signature, table  # noqa: E402
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
lists = [constant("b", [0, 0, 0, 0], "i4"), constant("e", [0, 0, 0, 1], "i4"), constant("s", [1, 1, 1, 1], "i4")]
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
keys = {"serving_default": signature({"in": ("x:0", "f4", (1, 8, 8, 3))}, {"out": ("z:0", "f4", (1, 2, 2, 4))})}
(models / "signature").write_bytes(number(1, 1) + part(2, meta_graph(graph(*net), keys)))

# A loop and conditionals of TensorFlow 1.
frame = dict(T=F32, frame_name="frame")
nodes = [
    placeholder("x", (2, 3)),
    placeholder("n", (), "i4"),
    node("enter", "Enter", "x", **frame),
    node("merge", "Merge", "enter", "next", T=F32, N=2),
    constant("most", 9),
    node("limit", "Enter", "most", is_constant=True, **frame),
    node("less", "Less", "merge", "limit", T=F32),
    constant("axes", [0, 1], "i4"),
    node("all", "All", "less", "axes", keep_dims=False),
    node("cond", "LoopCond", "all"),
    node("switch", "Switch", "merge", "cond", T=F32),
    add("step", "switch:1", "switch:1"),
    node("next", "NextIteration", "step", T=F32),
    node("exit", "Exit", "switch", T=F32),
    node("pick", "_SwitchN", "exit", "n", num_outs=3, T=F32),
    node("a", "Neg", "pick", T=F32),
    node("b", "Abs", "pick:1", T=F32),
    node("c", "Exp", "pick:2", T=F32),
    node("y", "Merge", "a", "b", "c", T=F32, N=3),
]
(models / "loop_v1").write_bytes(graph(*nodes))

resource, ids = Type(20), Type("i8")
arguments = dict(Tin=[resource, ids, ids], Tout=[ids])
fill = [node("fill", "LookupTableImportV2", "t", "k", "v"), node("done", "Identity", "k", "^fill", T=ids)]
fills = function("fills", {"t": 20, "k": "i8", "v": "i8"}, {"r": "i8"}, fill, {"r": "done:output:0"})
find = [node("find", "LookupTableFindV2", "t", "x", "d")]
finds = function("finds", {"x": "i8", "t": 20, "d": "i8"}, {"r": "i8"}, find, {"r": "find:values:0"})
nodes = [
    node("table", "HashTableV2", key_dtype=ids, value_dtype=ids, shared_name="17"),
    constant("k", [5, 3, 9, -1], "i8"),
    constant("d", 7, "i8"),
    constant("v", [1, 2, 3, 4], "i8"),
    placeholder("x", (-1, 2), "i8"),
    node("init", "StatefulPartitionedCall", "table", "k", "v", f=Function("fills"), **arguments),
    node("y", "StatefulPartitionedCall", "x", "table", "d", f=Function("finds"), **arguments),
    placeholder("number", (), "i4"),
    node("case", "Case", "number", "x", branches=[Function("same")] * 3, Tin=[ids], Tout=[ids]),
]
same = function("same", {"v": "i8"}, {"out": "i8"}, [node("s", "Neg", "v", T=ids)], {"out": "s:y:0"})
(models / "table").write_bytes(graph(*nodes, functions=[fills, finds, same]))

pair = dict(T=Type(8))
nodes = [
    placeholder("x", (2, 8)),
    constant("length", [6], "i4"),
    node("z", "RFFT", "x", "length", Treal=F32, Tcomplex=Type(8)),
    node("p", "Mul", "z", "z", **pair),
    constant("axis", [1], "i4"),
    node("turned", "ReverseV2", "p", "axis", **pair),
    node("back", "IRFFT", "turned", "length", Treal=F32, Tcomplex=Type(8)),
    node("angle", "Angle", "p", T=Type(8), Tout=F32),
]
(models / "complex").write_bytes(graph(*nodes))

(bundles / "two").write_bytes(table(bundle_entries(TENSORS, 2, {})[0]))
many = {f"layers/{n:03}/kernel": np.full((n % 5, 3), n, "f4") for n in range(40)}
(bundles / "many").write_bytes(table(bundle_entries(many, 3, {})[0]))
