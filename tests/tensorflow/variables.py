"""Graphs with variables: y = x * scale + shift, with the restore graph in each of its forms."""

import numpy as np
from graph_writer import F32, RESOURCE, Function, Shape, Type, constant, function, graph, node, placeholder
from saved_model_writer import signature

SCALE, SHIFT = np.array([2, -3, 0.5], np.float32), np.array([10, 20, 30], np.float32)
TENSORS = {"shift/.ATTRIBUTES/VARIABLE_VALUE": SCALE, "z/0": SHIFT}  # keys do not tell which variable is which
KEYS = {"scale": "shift/.ATTRIBUTES/VARIABLE_VALUE", "shift": "z/0"}
SIGNATURES = {
    "serving_default": signature({"image": ("x:0", "f4", (-1, 3))}, {"result": ("y:0", "f4", (-1, 3))}),
    "other": signature({"image": ("x:0", "f4", (-1, 3))}, {"product": ("product:0", "f4", (-1, 3))}),
}


def arithmetic(scale: str, shift: str) -> list[bytes]:
    return [
        placeholder("x", (-1, 3)),
        node("product", "Mul", "x", scale, T=F32),
        node("y", "AddV2", "product", shift, T=F32),
    ]


def texts(name: str, *values: str) -> bytes:
    return constant(name, np.array([v.encode() for v in values]), "S")


def restore(prefix: str = "save/Const") -> list[bytes]:
    """RestoreV2 of all keys."""
    keys = list(KEYS.values())
    return [
        texts("save/names", *keys),
        texts("save/slices", *[""] * len(keys)),
        node("save/RestoreV2", "RestoreV2", prefix, "save/names", "save/slices", dtypes=[F32] * len(keys)),
    ]


def handle(name: str, sizes: tuple = (3,)) -> bytes:
    return node(name, "VarHandleOp", dtype=F32, shape=Shape(sizes), shared_name=name, container="")


def resource_graph() -> bytes:
    """TensorFlow 1 with resource variables: AssignVariableOp in the graph."""
    nodes = [constant("save/Const", np.array(b"model"), "S"), *restore()]
    for n, name in enumerate(KEYS):
        nodes += [
            handle(name),
            node(name + "/Read", "ReadVariableOp", name, dtype=F32),
            node(f"save/Identity_{n}", "Identity", f"save/RestoreV2:{n}", T=F32),
            node(f"save/Assign_{n}", "AssignVariableOp", name, f"save/Identity_{n}", dtype=F32),
        ]
    nodes.append(node("save/restore_all", "NoOp", "^save/Assign_0", "^save/Assign_1"))
    return graph(*nodes, *arithmetic("scale/Read", "shift/Read"))


def reference_graph() -> bytes:
    """TensorFlow 1 with variables by reference: VariableV2 and Assign."""
    nodes = [constant("save/Const", np.array(b"model"), "S"), *restore()]
    for n, name in enumerate(KEYS):
        nodes += [
            node(name, "VariableV2", dtype=F32, shape=Shape((3,)), shared_name="", container=""),
            node(name + "/read", "Identity", name, T=F32),
            node(f"save/Assign_{n}", "Assign", name, f"save/RestoreV2:{n}", T=F32),
        ]
    nodes.append(node("save/restore_all", "NoOp", "^save/Assign_0", "^save/Assign_1"))
    return graph(*nodes, *arithmetic("scale/read", "shift/read"))


def function_graph(sizes: tuple = (3,)) -> bytes:
    """TensorFlow 2: the restore graph and the network are functions that get the variables as arguments."""
    resource = Type(RESOURCE)
    inner = [
        texts("names", *KEYS.values()),
        texts("slices", *[""] * len(KEYS)),
        node("RestoreV2", "RestoreV2", "file", "names:output:0", "slices:output:0", dtypes=[F32] * 2),
    ]
    for n, name in enumerate(KEYS):
        inner.append(node(f"Identity_{n}", "Identity", f"RestoreV2:tensors:{n}", T=F32))
        inner.append(node(f"Assign_{n}", "AssignVariableOp", name, f"Identity_{n}:output:0", dtype=F32))
    inner.append(node("done", "Identity", "file", "^Assign_0", "^Assign_1", T=Type("S")))
    arguments = {"file": "S", "scale": RESOURCE, "shift": RESOURCE}
    restores = function("traced_restore", arguments, {"out": "S"}, inner, {"out": "done:output:0"})
    body = [
        node("read_scale", "ReadVariableOp", "scale", dtype=F32),
        node("read_shift", "ReadVariableOp", "shift", dtype=F32),
        node("product", "Mul", "image", "read_scale:value:0", T=F32),
        node("sum", "AddV2", "product:z:0", "read_shift:value:0", T=F32),
    ]
    arguments = {"image": "f4", "scale": RESOURCE, "shift": RESOURCE}
    network = function("network", arguments, {"out": "f4"}, body, {"out": "sum:z:0"})
    call = "StatefulPartitionedCall"
    nodes = [
        handle("kernel", sizes),
        handle("kernel_1"),
        placeholder("x", (-1, 3)),
        node("y", call, "x", "kernel", "kernel_1", Tin=[F32, resource, resource], Tout=[F32], f=Function("network")),
        placeholder("saver_filename", (), "S"),
        node(
            "save/restore_all",
            call,
            "saver_filename",
            "kernel",
            "kernel_1",
            Tin=[Type("S"), resource, resource],
            Tout=[Type("S")],
            f=Function("traced_restore"),
        ),
    ]
    return graph(*nodes, functions=[restores, network])
