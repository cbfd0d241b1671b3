"""Fusion of patterns that exporters write in parts: tanh GELU, reshapes between GEMM and residual, unread rows."""

import pathlib

import numpy as np
import pytest
from harness import passes
from small_net import Net, layers, run_plan

ROOT, CUBE = float(np.sqrt(2 / np.pi)), 0.044715


def inner_pow(net: Net) -> str:
    cube = net.add("Mul", net.add("Pow", "x", net.number(3)), net.number(CUBE))
    return net.add("Mul", net.add("Add", "x", cube), net.number(ROOT))


def inner_products(net: Net) -> str:
    cube = net.add("Mul", net.number(CUBE), net.add("Mul", "x", net.add("Mul", "x", "x")))
    return net.add("Mul", net.number(ROOT), net.add("Add", cube, "x"))


def inner_square(net: Net) -> str:
    one = net.add("Add", net.add("Mul", net.add("Mul", net.number(CUBE), "x"), "x"), net.number(1))
    return net.add("Mul", net.add("Mul", "x", net.number(ROOT)), one)


def inner_wrong(net: Net) -> str:
    cube = net.add("Mul", net.add("Pow", "x", net.number(2)), net.number(CUBE))
    return net.add("Mul", net.add("Add", "x", cube), net.number(ROOT))


@pytest.mark.parametrize("order", ["half x", "half last", "half core"])
@pytest.mark.parametrize("inner", [inner_pow, inner_products, inner_square, inner_wrong])
def test_gelu_by_tanh(inner: object, order: str, tmp_path: pathlib.Path) -> None:
    net = Net()
    core = net.add("Add", net.number(1), net.add("Tanh", inner(net)))
    half = net.number(0.5)
    if order == "half x":
        y = net.add("Mul", net.add("Mul", "x", half), core)
    elif order == "half last":
        y = net.add("Mul", net.add("Mul", "x", core), half)
    else:
        y = net.add("Mul", "x", net.add("Mul", half, core))
    model, plan = net.save(tmp_path / "m.onnx", y, x=[3, 50]), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    x = np.random.default_rng(4).standard_normal((3, 50)).astype(np.float32) * 3
    x[0, :4] = [0, -0.0, 40, -40]
    power = 2 if inner is inner_wrong else 3
    wanted = 0.5 * x * (1 + np.tanh(ROOT * (x.astype(np.float64) + CUBE * x.astype(np.float64) ** power)))
    assert np.abs(run_plan(plan, tmp_path, x=x) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    operators = [op["Operator"] for layer in layers(plan) for op in layer["Operators"]]
    assert (operators == ["gelu_tanh"]) == (inner is not inner_wrong), operators


@pytest.mark.parametrize("dims", [[3, 7, 24], ["batch", 7, 24], ["batch", "steps", 24]])
def test_shapes_between_a_product_and_its_residual(dims: list, tmp_path: pathlib.Path) -> None:
    """Two layers as GPT-2 exports them: rank-2 GEMMs, all other operators at rank 3."""
    rng, net, y = np.random.default_rng(6), Net(), "x"
    shape = net.add("Shape", "x")
    wide = net.add("Concat", net.add("Slice", shape, net.constant([0]), net.constant([2])), net.constant([40]), axis=0)
    x = rng.standard_normal((3, 7, 24)).astype(np.float32)
    wanted = x.astype(np.float64)
    for _ in range(2):
        a, b = (rng.standard_normal(s).astype(np.float32) * 0.2 for s in ((24, 40), (40, 24)))
        bias, scale = rng.standard_normal(40).astype(np.float32), rng.standard_normal((1, 1, 24)).astype(np.float32)
        flat = net.add("Reshape", y, net.constant(np.array([-1, 24])))
        z = net.add("Reshape", net.add("Gemm", flat, net.constant(a)), wide)
        z = net.add("Relu", net.add("Add", z, net.constant(bias)))
        z = net.add("Gemm", net.add("Reshape", z, net.constant(np.array([-1, 40]))), net.constant(b))
        z = net.add("Mul", net.add("Reshape", z, shape), net.constant(scale))
        y = net.add("Add", y, z)
        wanted = wanted + (np.maximum(wanted @ a + bias, 0) @ b) * scale
    model, plan = net.save(tmp_path / "m.onnx", y, x=dims), tmp_path / "m.plan"
    passes("build", model, "--output", plan, "--optShapes=x:3x7x24")
    found = run_plan(plan, tmp_path, x=x)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert len(layers(plan)) == 4, [layer["Name"] for layer in layers(plan)]
    plain = tmp_path / "plain.plan"
    passes("build", model, "--output", plain, "--optShapes=x:3x7x24", "--disablePasses=sink_reshapes")
    assert len(layers(plain)) > 4


def block(net: Net, x: str, weights: dict, flat: bool) -> str:
    """The feed-forward half of a transformer layer. |flat|: rank-2 GEMMs, with batch and steps swapped."""
    y = net.add("LayerNormalization", x, net.constant(weights["g"]), net.constant(weights["h"]), axis=-1)
    y = net.add("Relu", net.add("Add", net.add("MatMul", y, net.constant(weights["a"])), net.constant(weights["c"])))
    if flat:
        y = net.add("Reshape", net.add("Transpose", y, perm=[1, 0, 2]), net.constant(np.array([-1, 40])))
        y = net.add("Gemm", y, net.constant(weights["b"].T.copy()), net.constant(weights["d"]), transB=1)
        y = net.add("Transpose", net.add("Reshape", y, net.constant(np.array([7, -1, 24]))), perm=[1, 0, 2])
    else:
        y = net.add("Add", net.add("MatMul", y, net.constant(weights["b"])), net.constant(weights["d"]))
    return net.add("Add", x, y)


def block_of(x: np.ndarray, w: dict) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w["g"] + w["h"]
    return x + np.maximum(y @ w["a"] + w["c"], 0) @ w["b"] + w["d"]


TAKES = {
    "first": lambda y: y[:, 0],
    "last": lambda y: y[:, -1:],
    "some": lambda y: y[:, [5, 0, 5]],
    "columns": lambda y: y[:, :, 3],
}


@pytest.mark.parametrize("dims", [[3, 7, 24], ["batch", 7, 24]])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("what", TAKES)
def test_rows_that_nobody_reads(what: str, flat: bool, dims: list, tmp_path: pathlib.Path) -> None:
    rng, net, y = np.random.default_rng(8), Net(), "x"
    shapes = {"g": 24, "h": 24, "a": (24, 40), "c": 40, "b": (40, 24), "d": 24}
    layers_of = [{n: (rng.standard_normal(s) * 0.3).astype(np.float32) for n, s in shapes.items()} for _ in range(2)]
    x = rng.standard_normal((3, 7, 24)).astype(np.float32)
    wanted = x.astype(np.float64)
    for weights in layers_of:
        y, wanted = block(net, y, weights, flat), block_of(wanted, weights)
    if what == "last":
        y = net.add("Slice", y, *[net.constant(np.array([n])) for n in (-1, 1 << 40, 1)])
    else:
        index = {"first": 0, "some": [5, 0, 5], "columns": 3}[what]
        y = net.add("Gather", y, net.constant(np.array(index)), axis=2 if what == "columns" else 1)
    wanted = TAKES[what](wanted)
    model, plan, plain = net.save(tmp_path / "m.onnx", y, x=dims), tmp_path / "m.plan", tmp_path / "plain.plan"
    passes("build", model, "--output", plan, "--optShapes=x:3x7x24")
    passes("build", model, "--output", plain, "--optShapes=x:3x7x24", "--disablePasses=hoist_slices")
    found = run_plan(plan, tmp_path, x=x)
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    work, all_work = (sum(layer["Flops"] for layer in layers(p)) for p in (plan, plain))
    share = {"first": 1, "last": 1, "some": 3, "columns": 7}[what] / 7  # rows that are read
    assert work <= all_work * (share + 0.05), (work, all_work)


def test_rows_that_others_read_stay(tmp_path: pathlib.Path) -> None:
    rng, net = np.random.default_rng(9), Net()
    a = rng.standard_normal((24, 40)).astype(np.float32)
    product = net.add("MatMul", "x", net.constant(a))
    y = net.add("Concat", net.add("Gather", product, net.constant(np.array([2])), axis=1), product, axis=1)
    model, plan = net.save(tmp_path / "m.onnx", y, x=[3, 7, 24]), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    x = rng.standard_normal((3, 7, 24)).astype(np.float32)
    wanted = x.astype(np.float64) @ a
    assert np.allclose(run_plan(plan, tmp_path, x=x), np.concatenate([wanted[:, 2:3], wanted], 1), atol=1e-4)
    assert [op["Operator"] for layer in layers(plan) for op in layer["Operators"]].count("matmul") == 1


def test_one_row_taken_twice(tmp_path: pathlib.Path) -> None:
    rng, net = np.random.default_rng(10), Net()
    a = rng.standard_normal((24, 40)).astype(np.float32)
    y = net.add("Relu", net.add("MatMul", "x", net.constant(a)))
    y = net.add("Gather", y, net.constant(np.array([0, 0])), axis=1)
    model, plan = net.save(tmp_path / "m.onnx", y, x=[3, 1, 24]), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    x = rng.standard_normal((3, 1, 24)).astype(np.float32)
    wanted = np.repeat(np.maximum(x.astype(np.float64) @ a, 0), 2, 1)
    found = run_plan(plan, tmp_path, x=x)
    assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("second", [[0, 0, -1], [3, 7, 24], [0, -1, 24], [0, 0, 0]])
def test_two_shapes_behind_a_product(second: list, tmp_path: pathlib.Path) -> None:
    """Zeros in the second shape copy dimensions of the first reshape, not of the GEMM."""
    rng, net = np.random.default_rng(11), Net()
    a = rng.standard_normal((40, 24)).astype(np.float32)
    y = net.add("Reshape", net.add("Gemm", "x", net.constant(a)), net.constant(np.array([3, 7, 24])))
    y = net.add("Add", net.add("Reshape", y, net.constant(np.array(second))), "r")
    model, plan = net.save(tmp_path / "m.onnx", y, x=[21, 40], r=[3, 7, 24]), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    x, r = (rng.standard_normal(s).astype(np.float32) for s in ((21, 40), (3, 7, 24)))
    wanted = (x.astype(np.float64) @ a).reshape(3, 7, 24) + r
    found = run_plan(plan, tmp_path, x=x, r=r)
    assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("dims", [[2, 6, 5, 4], ["batch", 6, "height", "width"], [3, 6]])
def test_batch_norm_that_no_convolution_takes(dims: list, tmp_path: pathlib.Path) -> None:
    """Behind an activation and in front of one, as networks with pre-activation have it."""
    rng, net = np.random.default_rng(7), Net()
    scale, shift, mean = (rng.standard_normal(6).astype(np.float32) for _ in range(3))
    variance = rng.uniform(0.1, 2, 6).astype(np.float32)
    parts = [net.constant(v) for v in (scale, shift, mean, variance)]
    y = net.add("Relu", net.add("BatchNormalization", net.add("Relu", "x"), *parts, epsilon=1e-3))
    model, plan = net.save(tmp_path / "m.onnx", y, x=dims), tmp_path / "m.plan"
    shape = [{"batch": 2, "height": 5, "width": 4}.get(d, d) for d in dims]
    passes("build", model, "--output", plan, f"--shapes=x:{'x'.join(map(str, shape))}")
    x = rng.standard_normal(shape).astype(np.float32)
    at = (slice(None),) + (None,) * (len(shape) - 2)
    root = np.sqrt(variance.astype(np.float64) + 1e-3)
    wanted = np.maximum((np.maximum(x, 0) - mean[at]) / root[at] * scale[at] + shift[at], 0)
    assert np.abs(run_plan(plan, tmp_path, x=x) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert len(layers(plan)) == 1 and "pointwise" in str(layers(plan)[0])
