"""Networks with data-dependent sizes (selected boxes, tokens of an expert, kept rows) against ONNX Runtime in float32.

All but the computation of sizes must run on the device. With the stand-in driver only the tactics of
CARNOT_CUDA_TACTICS run on its device, so tensors of unknown size are copied back and forth; only results are
checked there.
"""

import functools
import re

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Case, Device, compare
from net import Net
from onnx import TensorProto


def ints(net: Net, *values: int) -> str:
    return net.constant(np.array(values, np.int64))


def floats(net: Net, x: str) -> str:
    return net.add("Cast", x, to=TensorProto.FLOAT)


def indices_of(net: Net, flags: str) -> str:
    """The indices [n, rank] of true elements."""
    return net.add("Transpose", net.add("NonZero", flags), perm=[1, 0])


def positive(net: Net, x: str) -> str:
    return net.add("Greater", x, net.constant(np.float32(0)))


def selected_elements(*dims: int) -> onnx.ModelProto:
    net = Net(x=[*dims], mask=[*dims])
    y = net.add("GatherND", "x", indices_of(net, "mask"))
    return net.model(net.add("Mul", net.add("Exp", y), net.constant(np.float32(0.5))))


def indices(*dims: int) -> onnx.ModelProto:
    net = Net(mask=[*dims])
    return net.model(floats(net, net.add("NonZero", "mask")))


def kept_rows(rows: int, columns: int, axis: int) -> onnx.ModelProto:
    """Rows selected by a condition, through a layer."""
    net = Net(x=[rows, columns], mask=[[rows, columns][axis]])
    y = net.add("Compress", "x", net.add("Cast", "mask", to=TensorProto.BOOL), axis=axis)
    y = net.add("Add", y, net.add("ReduceMean", y, ints(net, 1 - axis), keepdims=1))
    return net.model(net.add("Tanh", y))


def experts(tokens: int, width: int, count: int) -> onnx.ModelProto:
    """Each token through the layer of the expert that the gate selects."""
    net = Net(x=[tokens, width])
    gate = net.add("ArgMax", net.add("MatMul", "x", net.weight(width, count)), axis=1, keepdims=0)
    y = net.add("Mul", "x", net.constant(np.float32(0)))
    for e in range(count):
        at = indices_of(net, net.add("Equal", gate, net.constant(np.array(e))))
        own = net.add("GatherND", "x", at)
        own = net.add("Add", net.add("MatMul", own, net.weight(width, width, scale=width**-0.5)), net.weight(width))
        y = net.add("ScatterND", y, at, net.add("Relu", own))
    return net.model(net.add("Add", y, "x"))


def detections(batch: int, boxes: int, classes: int, most: int, centre: bool) -> onnx.ModelProto:
    """Selected boxes [n, 4], beside their scores and classes."""
    net = Net(x=[batch, boxes, 4], z=[batch, classes, boxes])
    low = net.add("Sigmoid", net.add("Slice", "x", ints(net, 0), ints(net, 2), ints(net, 2)))
    size = net.add("Sigmoid", net.add("Slice", "x", ints(net, 2), ints(net, 4), ints(net, 2)))
    corners = net.add("Concat", low, size if centre else net.add("Add", low, size), axis=2)
    scores = net.add("Sigmoid", "z")
    kept = net.add(
        "NonMaxSuppression",
        corners,
        scores,
        ints(net, most),
        net.constant(np.array([0.4], np.float32)),
        net.constant(np.array([0.55], np.float32)),
        center_point_box=int(centre),
    )
    batch_box = net.add("Gather", kept, ints(net, 0, 2), axis=1)
    rows = net.add("Mul", floats(net, kept), net.constant(np.float32(1 / boxes)))
    y = net.add(
        "Concat",
        net.add("GatherND", corners, batch_box),
        net.add("Unsqueeze", net.add("GatherND", scores, kept), ints(net, 1)),
        rows,
        axis=1,
    )
    return net.model(y)


def computed_shapes(rows: int, columns: int) -> onnx.ModelProto:
    """Data-dependent sizes in a slice, a range, a shape and a top-k."""
    net = Net(x=[rows, columns])
    y = net.add("GatherND", "x", indices_of(net, positive(net, "x")))
    count = net.add("Shape", y)
    half = net.add("Div", count, ints(net, 2))
    first = net.add("Slice", y, ints(net, 0), half)
    best = net.add("TopK", first, half, axis=0)
    net.nodes[-1].output.append("best_indices")
    steps = net.add("Range", net.constant(np.array(0)), net.add("Squeeze", half), net.constant(np.array(1)))
    y = net.add("Add", net.add("Mul", best, floats(net, steps)), floats(net, "best_indices"))
    y = net.add("Reshape", y, net.add("Concat", ints(net, 1), half, ints(net, 1), axis=0))
    y = net.add("Expand", y, net.add("Concat", ints(net, 3), half, ints(net, 2), axis=0))
    return net.model(net.add("Concat", y, net.add("Neg", y), axis=1))


def branches(rows: int) -> onnx.ModelProto:
    """An If whose branches read a data-dependent tensor, and a sum over an empty one."""
    net = Net(x=[rows, 3])
    y = net.add("GatherND", "x", indices_of(net, positive(net, "x")))
    some = net.add("Greater", net.add("Squeeze", net.add("Shape", y)), net.constant(np.array(2 * rows)))
    bodies = {}
    for name, op in (("then_branch", "Neg"), ("else_branch", "Sqrt")):
        out = onnx.helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        node = onnx.helper.make_node(op, [y], [f"{name}_y"])
        bodies[name] = onnx.helper.make_graph([node], name, [], [out])
    y = net.add("If", some, **bodies)
    none = net.add("GatherND", "x", indices_of(net, net.add("Greater", "x", net.constant(np.float32(1e9)))))
    return net.model(net.add("Add", y, net.add("ReduceSum", none, keepdims=0)))


CASES = [
    *[("elements", selected_elements, c, "cuda_non_zero") for c in [(37,), (64, 129), (3, 5, 7, 11), (700, 1031)]],
    *[("places", indices, c, "cuda_non_zero") for c in [(2, 3), (5000,), (9, 64, 65)]],
    *[("rows", kept_rows, c, "cuda_compress") for c in [(40, 24, 0), (24, 40, 1), (1000, 65, 0)]],
    *[("experts", experts, c, "cuda_non_zero") for c in [(50, 32, 4), (5, 24, 8), (300, 64, 3)]],
    *[
        ("detections", detections, c, "cuda_non_max_suppression")
        for c in [(1, 50, 3, 10, False), (2, 700, 2, 40, True), (1, 3000, 5, 100, False)]
    ],
    ("computed shapes", computed_shapes, (20, 31), "cuda_non_zero"),
    *[("branches", branches, (c,), "cuda_non_zero") for c in (20, 21)],
]
# A selection must not depend on rounding: in half precision only the networks that select by sign.
BY_SIGN = ("elements", "rows", "branches")
JOBS = [
    pytest.param(
        kind, Case(f"{kind} {c}", functools.partial(make, *c), tactic), precision, id=f"{kind} {c} {precision}"
    )
    for kind, make, c, tactic in CASES
    for precision in ("float32", *HALF_TYPES)
    if precision == "float32" or kind in BY_SIGN
]


@pytest.mark.parametrize("kind, case, precision", JOBS)
def test_data_dependent(device: Device, kind: str, case: Case, precision: str) -> None:
    error, profile = compare(device, case.make(), precision)
    line = f"{case.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1200:]}"
    # The stand-in leaves the computation of most conditions, and so the selection, to the CPU.
    if not device.is_stand_in or kind in ("elements", "places"):
        assert case.tactic in profile, f"{line}: not by {case.tactic}: {profile[-1200:]}"
    if not device.is_stand_in and kind not in ("branches", "computed shapes"):
        assert not re.findall(r"\bcpu_\w+", profile), f"{line}: {profile[-1200:]}"
    print(line)
