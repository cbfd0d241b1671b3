"""Factors that equalize channels before INT8: what they change, and how they are chosen, beside NumPy in float64."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import carnot, passes
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(17)
SAMPLES = RNG.standard_normal((40, 4, 10, 10)).astype(np.float32)
ROWS = RNG.standard_normal((200, 24)).astype(np.float32)
WIDTHS = (10.0 ** np.linspace(-1.5, 1.5, 12)).astype(np.float32)
FAST = ("--builderOptimizationLevel=0",)


def save(path: pathlib.Path, nodes: list, x: list, y: list, **weights: np.ndarray) -> pathlib.Path:
    tensors = [nh.from_array(np.asarray(w, np.float32), k) for k, w in weights.items()]
    inputs, outputs = ([h.make_tensor_value_info(k, 1, s)] for k, s in (("x", x), ("y", y)))
    graph = h.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


def convolutions(path: pathlib.Path) -> pathlib.Path:
    """Channels of the first one differ by a factor of 1000; a depthwise one and a plain one read them."""
    nodes = [
        h.make_node("Conv", ["x", "a", "i"], ["p"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["p"], ["q"]),
        h.make_node("Conv", ["q", "b", "j"], ["r"], group=12, pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["r"], ["s"]),
        h.make_node("Conv", ["s", "c"], ["y"]),
    ]
    return save(
        path, nodes, ["n", 4, 10, 10], ["n", 6, 10, 10],
        a=RNG.standard_normal((12, 4, 3, 3)) / 6 * WIDTHS[:, None, None, None],
        i=RNG.standard_normal(12) / 8 * WIDTHS,
        b=RNG.standard_normal((12, 1, 3, 3)) / 3,
        j=RNG.standard_normal(12) / 8 * WIDTHS,
        c=RNG.standard_normal((6, 12, 1, 1)) / 3 / WIDTHS[None, :, None, None],
    )  # fmt: skip


def norm(path: pathlib.Path) -> pathlib.Path:
    """Two layers and a sum read a norm some channels of which are wide."""
    gamma = np.where(np.arange(24) % 8 == 0, 30, 1)
    nodes = [
        h.make_node("LayerNormalization", ["x", "g", "i"], ["n"], axis=-1),
        h.make_node("MatMul", ["n", "a"], ["p"]),
        h.make_node("MatMul", ["n", "b"], ["q"]),
        h.make_node("Mul", ["p", "q"], ["r"]),
        h.make_node("Add", ["r", "n"], ["y"]),
    ]
    a, b = (RNG.standard_normal((24, 24)) / 5 / gamma[:, None] for _ in range(2))
    return save(path, nodes, ["n", 24], ["n", 24], g=gamma, i=RNG.standard_normal(24) / 4, a=a, b=b)


def outputs(plan: pathlib.Path, x: np.ndarray) -> np.ndarray:
    folder = plan.parent
    np.save(folder / "in.npy", x)
    passes("run", plan, "--input", f"x={folder / 'in.npy'}", "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy").astype(np.float64)


def data_of(path: pathlib.Path, x: np.ndarray) -> str:
    path.mkdir(exist_ok=True)
    np.save(path / "x.npy", x)
    return f"--calibData={path}"


@pytest.mark.parametrize(("make", "x", "better"), [(convolutions, SAMPLES, 4), (norm, ROWS, 2)])
def test_the_error_is_a_part_of_what_it_was(make, x, better, tmp_path):
    model = make(tmp_path / "m.onnx")
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0].astype(np.float64)
    errors = []
    for flags in ((), ("--disablePasses=equalize",)):
        plan = tmp_path / "m.plan"
        passes("build", model, "--int8", data_of(tmp_path / "data", x), "--output", plan, *FAST, *flags)
        assert "s8" in passes("inspect", plan)
        got = outputs(plan, x)
        errors.append(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
    assert 1e-5 < errors[0] < errors[1] / better, errors


@pytest.mark.parametrize(("make", "x"), [(convolutions, SAMPLES), (norm, ROWS)])
def test_a_cache_keeps_them_and_threads_do_not_matter(make, x, tmp_path):
    model, data = make(tmp_path / "m.onnx"), data_of(tmp_path / "data", x)
    for threads in ("1", "2"):
        cache = ("--calib", tmp_path / f"cache{threads}")
        given = ("build", model, "--int8", *cache, *FAST, "--output")
        passes(*given, tmp_path / f"{threads}.plan", data, f"--threads={threads}")
        passes(*given, tmp_path / f"of{threads}.plan")
    assert (tmp_path / "cache1").read_bytes() == (tmp_path / "cache2").read_bytes()
    plans = [(tmp_path / f"{name}.plan").read_bytes() for name in ("1", "2", "of1", "of2")]
    assert all(plan == plans[0] for plan in plans)


def numbers(line: str) -> np.ndarray:
    return np.array([np.frombuffer(bytes.fromhex(w), ">f4")[0] for w in line.rsplit(": ", 1)[1].split()], np.float64)


def depthwise_error(x: np.ndarray, w: np.ndarray, f: np.ndarray) -> float:
    """The expected squared error of a depthwise convolution: w [channels, elements], x [channels, values]."""
    step = (max(0, (x / f[:, None]).max()) - min(0, (x / f[:, None]).min())) / 255
    of_x = step**2 / 12 * ((w * f[:, None]) ** 2).sum()
    steps = np.abs(w).max(1) * f / 127
    return of_x + (steps**2 / 12 * w.shape[1] * (x**2).mean(1) / f**2).sum()


def test_factors_are_those_of_the_least_expected_error(tmp_path):
    model = convolutions(tmp_path / "m.onnx")
    passes(
        "build", model, "--int8", data_of(tmp_path / "data", SAMPLES), "--calib", tmp_path / "cache",
        "--output", tmp_path / "m.plan", *FAST,
    )  # fmt: skip
    lines = {line.split(":")[0]: numbers(line) for line in (tmp_path / "cache").read_text().splitlines()[1:]}
    assert {k: len(v) for k, v in lines.items() if k in "xqsy"} == {"x": 2, "q": 16, "s": 16, "y": 2}
    m = onnx.load(model)
    m.graph.output.append(h.make_empty_tensor_value_info("q"))
    onnx.save(m, tmp_path / "q.onnx")
    q = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(["q"], {"x": SAMPLES})[0].astype(np.float64)
    q = q.transpose(1, 0, 2, 3).reshape(12, -1)
    b = nh.to_array(next(t for t in m.graph.initializer if t.name == "b")).reshape(12, -1).astype(np.float64)
    found = lines["q"][4:]
    assert abs(np.log(found).mean()) < 1e-5
    most, heaviest, tried = q.max(1), np.abs(b).max(1), []
    for a in np.arange(21) / 20:
        for by_weights in (0, 1):
            f = most**a / (heaviest ** (1 - a) if by_weights else 1)
            tried.append(depthwise_error(q, b, f / np.exp(np.log(f).mean())))
    least = min(tried)
    assert depthwise_error(q, b, found) < 1.01 * least < depthwise_error(q, b, np.ones(12)) / 4
    # Divided by them, the tensor lies in the second range but for what is clipped.
    low, high = lines["q"][2:4]
    assert low == 0 and 0.5 < high / (q / found[:, None]).max() <= 1 + 1e-6


def test_what_is_equalized_is_told(tmp_path):
    model = convolutions(tmp_path / "m.onnx")
    data = data_of(tmp_path / "data", SAMPLES)
    done = carnot("build", model, "--int8", data, "--output", tmp_path / "m.plan", "--verbose", *FAST)
    told = [line for line in (done.stderr + done.stdout).splitlines() if "with equal channels its layers have" in line]
    assert [line.split("tensor ")[1].split(":")[0] for line in told] == ["q", "s"], done.stderr


def test_networks_in_half_precision_have_them_too(tmp_path):
    """On a CPU they compute in float32: factors are those of the same network with weights in float32."""
    full, half, factors = convolutions(tmp_path / "m.onnx"), tmp_path / "half.onnx", {}
    m = onnx.load(full)
    for tensor in m.graph.initializer:
        tensor.CopyFrom(nh.from_array(nh.to_array(tensor).astype(np.float16).astype(np.float32), tensor.name))
    onnx.save(m, full)
    for tensor in m.graph.initializer:
        tensor.CopyFrom(nh.from_array(nh.to_array(tensor).astype(np.float16), tensor.name))
    for value in (m.graph.input[0], m.graph.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(m, half)
    for path, dtype in ((full, np.float32), (half, np.float16)):
        data = data_of(tmp_path / "data", SAMPLES.astype(np.float16).astype(dtype))
        passes("build", path, "--int8", data, "--calib", tmp_path / "cache", "--output", tmp_path / "m.plan", *FAST)
        line = next(line for line in (tmp_path / "cache").read_text().splitlines() if line.startswith("q: "))
        factors[dtype] = numbers(line)[4:]
    assert len(factors[np.float16]) == 12
    assert np.allclose(factors[np.float16], factors[np.float32], rtol=1e-2)
