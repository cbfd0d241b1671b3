"""Half precision on the CPU: which layers run in it, and that sums accumulate in float32."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from harness import passes
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, HEADS = 24, 64, 4
PRECISIONS = ["fp16", "bf16"]


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    """Rounds to nearest in |precision|, as float64."""
    if precision == "fp16":
        return x.astype(np.float16).astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def infer(model: pathlib.Path, x: np.ndarray, *flags: str) -> np.ndarray:
    folder = model.parent
    np.save(folder / "x.npy", x)
    passes("build", model, "--output", folder / "m.plan", "--builderOptimizationLevel=0", *flags)
    passes("run", folder / "m.plan", "--input", f"x={folder / 'x.npy'}", "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy").astype(np.float64)


def layers(plan: pathlib.Path) -> list:
    return json.loads(passes("inspect", plan, "--json"))["Layers"]


def save(
    path: pathlib.Path, nodes: list, weights: dict, width: int, out_width: int, dtype: int = TensorProto.FLOAT
) -> pathlib.Path:
    values = [
        helper.make_tensor_value_info("x", dtype, ["n", width]),
        helper.make_tensor_value_info("y", dtype, ["n", out_width]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "test", values[:1], values[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def product(path: pathlib.Path, w: np.ndarray) -> pathlib.Path:
    return save(path, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], {"w": w}, *w.shape)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_product_runs_in_it(precision: str, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((19, 75)).astype(np.float32), rng.standard_normal((75, 33)).astype(np.float32)
    model = product(tmp_path / "m.onnx", w)
    y = infer(model, x, f"--{precision}")
    [layer] = layers(tmp_path / "m.plan")
    assert layer["Numerics"] == "half" and layer["Precision"] == {"fp16": "float16", "bf16": "bfloat16"}[precision]
    exact_weights = x.astype(np.float64) @ rounded(w, precision)
    size = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64))
    # Activations may be rounded too where the CPU has native BF16 GEMM.
    bound = (2.0**-20 if precision == "fp16" else 2.0**-9 + 2.0**-20) * size
    assert (np.abs(y - exact_weights) <= bound).all()
    full = infer(model, x)
    assert (np.abs(full - x.astype(np.float64) @ w) <= 2.0**-20 * size).all()
    assert not [layer for layer in layers(tmp_path / "m.plan") if layer["Numerics"] == "half"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nan_and_infinity(precision: str, tmp_path: pathlib.Path) -> None:
    x = np.ones((4, 6), np.float32)
    x[1, 2], x[2, 3] = np.nan, np.inf
    w = np.full((6, 5), 0.5, np.float32)
    w[3, 1] = -1
    y = infer(product(tmp_path / "m.onnx", w), x, f"--{precision}")
    assert np.isnan(y[1]).all() and (y[2, [0, 2, 3, 4]] == np.inf).all() and y[2, 1] == -np.inf
    assert np.isfinite(y[[0, 3]]).all()


def test_weight_beyond_float16(tmp_path: pathlib.Path) -> None:
    w = np.ones((8, 3), np.float32)
    w[2, 1] = 1e5
    y = infer(product(tmp_path / "m.onnx", w), np.ones((2, 8), np.float32), "--fp16")
    assert (y == [[8, 100007, 8]] * 2).all()
    assert "beyond float16" in passes("inspect", tmp_path / "m.plan", "--why")


# ---- a transformer whose squared sums pass 65504 ----


def norm_nodes(x: str, y: str, p: str) -> list:
    """LayerNorm decomposed, as exporters write it."""
    n = helper.make_node
    return [
        n("ReduceMean", [x, "last"], [p + "m"], p + "mean", keepdims=1),
        n("Sub", [x, p + "m"], [p + "d"], p + "sub"),
        n("Pow", [p + "d", "two"], [p + "s"], p + "pow"),
        n("ReduceMean", [p + "s", "last"], [p + "v"], p + "variance", keepdims=1),
        n("Add", [p + "v", "epsilon"], [p + "e"], p + "add"),
        n("Sqrt", [p + "e"], [p + "r"], p + "sqrt"),
        n("Div", [p + "d", p + "r"], [y], p + "div"),
    ]


def transformer(path: pathlib.Path, dtype: type) -> tuple[pathlib.Path, dict]:
    rng = np.random.default_rng(11)
    weights = {
        k: (rng.standard_normal((WIDTH, c)) * WIDTH**-0.5).astype(dtype)
        for k, c in [("wq", WIDTH), ("wk", WIDTH), ("wv", WIDTH), ("wo", WIDTH), ("w1", 4 * WIDTH)]
    }
    weights["w2"] = (rng.standard_normal((4 * WIDTH, WIDTH)) * 0.05).astype(dtype)
    scalars = {
        "two": np.array(2, dtype),
        "epsilon": np.array(1e-3, dtype),
        "scale": np.array((WIDTH // HEADS) ** -0.5, dtype),
    }
    shapes = {
        "last": np.array([-1]),
        "split": np.array([TOKENS, HEADS, WIDTH // HEADS]),
        "join": np.array([TOKENS, WIDTH]),
    }
    n = helper.make_node
    nodes = norm_nodes("x", "a", "norm1/")
    for k, perm in [("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2])]:
        nodes += [
            n("MatMul", ["a", "w" + k], [k], k + "/product"),
            n("Reshape", [k, "split"], [k + "s"]),
            n("Transpose", [k + "s"], [k + "t"], perm=perm),
        ]
    nodes += [
        n("MatMul", ["qt", "kt"], ["scores"], "scores"),
        n("Mul", ["scores", "scale"], ["scaled"]),
        n("Softmax", ["scaled"], ["p"], "softmax", axis=-1),
        n("MatMul", ["p", "vt"], ["mixed"], "mix"),
        n("Transpose", ["mixed"], ["back"], perm=[1, 0, 2]),
        n("Reshape", ["back", "join"], ["flat"]),
        n("MatMul", ["flat", "wo"], ["o"], "o/product"),
        n("Add", ["x", "o"], ["h"], "residual1"),
    ]
    nodes += norm_nodes("h", "b", "norm2/")
    nodes += [
        n("MatMul", ["b", "w1"], ["f"], "up"),
        n("Relu", ["f"], ["g"], "relu"),
        n("MatMul", ["g", "w2"], ["down"], "down"),
        n("Add", ["h", "down"], ["y"], "residual2"),
    ]
    kind = TensorProto.FLOAT16 if dtype == np.float16 else TensorProto.FLOAT
    return save(path, nodes, {**weights, **scalars, **shapes}, WIDTH, WIDTH, kind), weights


def norm_in_float64(x: np.ndarray) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-3)


def transformer_in_float64(x: np.ndarray, weights: dict) -> np.ndarray:
    w = {k: v.astype(np.float64) for k, v in weights.items()}
    a = norm_in_float64(x)
    q, k, v = ((a @ w[n]).reshape(TOKENS, HEADS, -1).transpose(1, 0, 2) for n in ("wq", "wk", "wv"))
    scores = q @ k.transpose(0, 2, 1) * (WIDTH // HEADS) ** -0.5
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    h = x + (p @ v).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ w["wo"]
    return h + np.maximum(norm_in_float64(h) @ w["w1"], 0) @ w["w2"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--fp16"],
        [
            "--fp16",
            "--precisionConstraints=obey",
            "--layerPrecisions=norm1/pow:fp32,norm1/variance:fp32,norm2/pow:fp32,norm2/variance:fp32",
        ],
        ["--fp16", "--precisionConstraints=prefer", "--layerPrecisions=*:fp16"],
        ["--bf16"],
    ],
    ids=lambda f: " ".join(f) or "none",
)
def test_squared_sums_pass_float16(dtype: type, flags: list, tmp_path: pathlib.Path) -> None:
    model, weights = transformer(tmp_path / "m.onnx", dtype)
    x = np.random.default_rng(5).standard_normal((TOKENS, WIDTH)) * 400
    x[:, 7] *= 8  # an outlier channel, as trained models have: its square alone overflows float16
    x = x.astype(dtype)
    assert (np.float64(x) ** 2).max() > 65504 and np.abs(x).max() < 65504 / 4
    wanted = transformer_in_float64(x.astype(np.float64), weights)
    y = infer(model, x, *flags)
    assert np.isfinite(y).all()
    change, found = (
        wanted - x,
        y - x.astype(np.float64),
    )  # what the block adds; the input is the larger part of the result
    unit = 2.0**-8 if "--bf16" in flags else 2.0**-11
    stored = np.abs(wanted) * 2.0**-11 if dtype == np.float16 or "*:fp16" in " ".join(flags) else 0
    assert (np.abs(found - change) <= 16 * unit * np.abs(change).max() + 3 * stored).all()
    cosine = (y * wanted).sum() / np.sqrt((y**2).sum() * (wanted**2).sum())
    assert cosine >= 0.999, cosine
