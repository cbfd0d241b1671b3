"""Values that lie in memory as BF16 between layers, on processors that multiply BF16 by tiles (AMX)."""

import json
import pathlib

import numpy as np
import onnxruntime
import pytest
from harness import passes
from small_net import Net, run_plan

RNG = np.random.default_rng(11)
pytestmark = pytest.mark.skipif(
    not any(line.split()[:2] == ["amxbf16", "usable"] for line in passes("device").splitlines()),
    reason="this processor has no AMX tiles: values stay float32",
)


def weight(n: Net, *dims: int) -> str:
    """Random numbers of a size that keeps results near 1."""
    size = np.sqrt(np.prod(dims[1:])) if len(dims) > 2 else np.sqrt(dims[0])
    return n.constant((RNG.standard_normal(dims) / size).astype(np.float32))


def conv(n: Net, x: str, c: int, k: int, size: int, stride: int = 1, **attributes: object) -> str:
    pads = attributes.pop("pads", [size // 2] * 4)
    operands = [x, weight(n, k, c, size, size), weight(n, k)]
    return n.add("Conv", *operands, strides=[stride] * 2, pads=pads, **attributes)


def residual_net(path: pathlib.Path, *shape: object) -> pathlib.Path:
    """A stem, pooling, bottlenecks with a residual and a strided shortcut, a concat, a mean."""
    n = Net()
    x = n.add("Relu", conv(n, "x", 3, 32, 3, 2))
    x = n.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    a = n.add("Relu", conv(n, x, 32, 64, 1))
    b = conv(n, n.add("Relu", conv(n, a, 64, 48, 3)), 48, 64, 1)
    a = n.add("Relu", n.add("Add", b, a))
    b = n.add("Relu", conv(n, a, 64, 40, 3, 2))
    c = conv(n, a, 64, 24, 1, 2)
    x = n.add("Concat", conv(n, b, 40, 40, 3, dilations=[2, 2], pads=[2, 2, 2, 2]), c, axis=1)
    x = n.add("AveragePool", n.add("Sigmoid", x), kernel_shape=[2, 2])
    x = n.add("GlobalAveragePool", n.add("HardSwish", conv(n, x, 64, 96, 3)))
    x = n.add("Gemm", n.add("Flatten", x), weight(n, 96, 10), weight(n, 10))
    return n.save(path, x, x=list(shape or (1, 3, 66, 58)))


def mlp(path: pathlib.Path) -> pathlib.Path:
    """Rows through GEMMs with bias, tanh, a residual and a float32 softmax at the end."""
    n = Net()
    h = n.add("Tanh", n.add("Add", n.add("MatMul", "x", weight(n, 72, 192)), weight(n, 192)))
    h = n.add("Add", n.add("Add", n.add("MatMul", h, weight(n, 192, 72)), weight(n, 72)), "x")
    h = n.add("MatMul", n.add("Relu", h), weight(n, 72, 33))
    return n.save(path, n.add("Softmax", h, axis=-1), x=[2, 37, 72])


def linear(n: Net, x: str, c: int, k: int) -> str:
    return n.add("Add", n.add("MatMul", x, weight(n, c, k)), weight(n, k))


def heads(n: Net, x: str, perm: list) -> str:
    return n.add("Transpose", n.add("Reshape", linear(n, x, 96, 96), n.constant([0, 0, 3, 32])), perm=perm)


def layer_norm(n: Net, x: str) -> str:
    return n.add("LayerNormalization", x, n.constant(np.ones(96, np.float32)), weight(n, 96), axis=-1)


def transformer(path: pathlib.Path, first: bool, *shape: object) -> pathlib.Path:
    """Two layers of attention and GELU between norms; those are before the sums or behind them."""
    n = Net()
    x = "x" if first else layer_norm(n, "x")
    for _ in range(2):
        h = layer_norm(n, x) if first else x
        q, k, v = heads(n, h, [0, 2, 1, 3]), heads(n, h, [0, 2, 3, 1]), heads(n, h, [0, 2, 1, 3])
        weights = n.add("Softmax", n.add("Mul", n.add("MatMul", q, k), n.number(0.2)), axis=-1)
        h = n.add("Transpose", n.add("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = n.add("Add", linear(n, n.add("Reshape", h, n.constant([0, 0, 96])), 96, 96), x)
        x = x if first else layer_norm(n, x)
        h = linear(n, layer_norm(n, x) if first else x, 96, 256)
        erf = n.add("Erf", n.add("Div", h, n.number(np.sqrt(2))))
        h = n.add("Mul", n.add("Mul", h, n.add("Add", erf, n.number(1))), n.number(0.5))
        x = n.add("Add", linear(n, h, 256, 96), x)
        x = x if first else layer_norm(n, x)
    return n.save(path, linear(n, layer_norm(n, x) if first else x, 96, 16), x=list(shape or (2, 37, 96)))


def pre_norm(path: pathlib.Path) -> pathlib.Path:
    return transformer(path, True)


def post_norm(path: pathlib.Path) -> pathlib.Path:
    return transformer(path, False)


def unet(path: pathlib.Path) -> pathlib.Path:
    """Convolutions with group and instance norms, reflected borders, a resize and a softmax over channels."""
    n = Net()
    h = conv(n, "x", 3, 48, 3)
    shape, back = n.constant([0, 6, -1]), n.constant([0, 48, 34, 46])
    ones, zeros = n.constant(np.ones(6, np.float32)), n.constant(np.zeros(6, np.float32))
    g = n.add("Reshape", n.add("InstanceNormalization", n.add("Reshape", h, shape), ones, zeros), back)
    g = n.add("Add", n.add("Mul", g, weight(n, 48, 1, 1)), weight(n, 48, 1, 1))
    h = conv(n, n.add("Mul", g, n.add("Sigmoid", g)), 48, 64, 3, 2)
    h = n.add("InstanceNormalization", h, n.constant(np.ones(64, np.float32)), weight(n, 64))
    h = n.add("Resize", n.add("Relu", h), "", n.constant(np.float32([1, 1, 2, 2])), mode="nearest")
    h = n.add("Pad", h, n.constant([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect")
    h = conv(n, n.add("Softmax", conv(n, h, 64, 32, 3, pads=[0] * 4), axis=1), 32, 16, 1)
    return n.save(path, h, x=[1, 3, 34, 46])


def wanted(model: pathlib.Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0].astype(np.float64)


def results(model: pathlib.Path, x: np.ndarray, *flags: str) -> np.ndarray:
    passes("build", model, "--output", model.parent / "m.plan", "--backend=cpu", *flags)
    return run_plan(model.parent / "m.plan", model.parent, x=x).astype(np.float64)


def stored(plan: pathlib.Path) -> list:
    """The types of all layers' results."""
    layers = json.loads(passes("inspect", plan, "--json"))["Layers"]
    return [o["Format/Datatype"].split()[1] for layer in layers for o in layer["Outputs"]]


@pytest.mark.parametrize(
    ("make", "shape", "count"),
    [
        (residual_net, [1, 3, 66, 58], 8),
        (mlp, [2, 37, 72], 1),
        (pre_norm, [2, 37, 96], 14),
        (post_norm, [2, 37, 96], 10),
        (unet, [1, 3, 34, 46], 8),
    ],
)
def test_results(make, shape: list, count: int, tmp_path: pathlib.Path) -> None:  # noqa: ANN001
    model = make(tmp_path / "m.onnx")
    x = RNG.standard_normal(shape).astype(np.float32)
    want = wanted(model, x)
    got = results(model, x, "--bf16")
    assert stored(tmp_path / "m.plan").count("bfloat16") >= count
    assert np.linalg.norm(got - want) <= 0.02 * np.linalg.norm(want)
    passes("run", tmp_path / "m.plan", f"--input=x={tmp_path / 'x.npy'}", "--output-dir", tmp_path, "--threads=1")
    assert np.array_equal(np.load(tmp_path / "y.npy"), got)  # the same bits for any number of threads
    exact = results(model, x)
    assert "bfloat16" not in stored(tmp_path / "m.plan")
    assert np.linalg.norm(exact - want) <= 1e-5 * np.linalg.norm(want)


def excited(n: Net, x: str, c: int, hidden: int, gate: str) -> str:
    """Squeeze-and-excitation."""
    means = n.add("GlobalAveragePool", x)
    return n.add("Mul", x, n.add(gate, conv(n, n.add("Relu", conv(n, means, c, hidden, 1)), hidden, c, 1)))


def excited_net(path: pathlib.Path, gate: str, *shape: object) -> pathlib.Path:
    """Two blocks before 1x1 convolutions, of few and of many channels, with a residual behind."""
    n = Net()
    a = n.add("HardSwish", conv(n, "x", 32, 72, 3))
    a = n.add("Relu", conv(n, excited(n, a, 72, 12, gate), 72, 40, 1))
    b = n.add("HardSwish", conv(n, a, 40, 240, 1))
    b = conv(n, excited(n, b, 240, 64, gate), 240, 40, 1)
    return n.save(path, conv(n, n.add("Add", b, a), 40, 16, 1), x=list(shape))


@pytest.mark.parametrize("gate", ["Sigmoid", "HardSigmoid"])
@pytest.mark.parametrize("flag", ["--bf16", "--fp32=exact"])
def test_squeeze_and_excitation_is_one_step(gate: str, flag: str, tmp_path: pathlib.Path) -> None:
    model = excited_net(tmp_path / "m.onnx", gate, 2, 32, 29, 23)
    x = RNG.standard_normal((2, 32, 29, 23)).astype(np.float32)
    want = wanted(model, x)
    got = results(model, x, flag)
    error = 0.02 if flag == "--bf16" else 1e-5
    assert np.linalg.norm(got - want) <= error * np.linalg.norm(want)
    passes("run", tmp_path / "m.plan", f"--input=x={tmp_path / 'x.npy'}", "--output-dir", tmp_path, "--threads=1")
    assert np.array_equal(np.load(tmp_path / "y.npy"), got)  # the same bits for any number of threads
    layers = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    names = [layer["TacticName"] for layer in layers]
    assert sum("squeeze_excite" in name for name in names) == 2
    assert sum("squeeze_excite_bf16" in name for name in names) == 2 * (flag == "--bf16")
    assert "reference" not in names


def test_squeeze_and_excitation_of_open_sizes(tmp_path: pathlib.Path) -> None:
    model = excited_net(tmp_path / "m.onnx", "Sigmoid", "n", 32, "h", "w")
    passes("build", model, "--output", tmp_path / "m.plan", "--backend=cpu", "--builderOptimizationLevel=0")
    names = [layer["TacticName"] for layer in json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]]
    assert sum("squeeze_excite" in name for name in names) == 2
    for shape in ([1, 32, 7, 7], [3, 32, 64, 40], [2, 32, 131, 130]):
        x = RNG.standard_normal(shape).astype(np.float32)
        want = wanted(model, x)
        got = run_plan(tmp_path / "m.plan", tmp_path, x=x)
        assert np.linalg.norm(got - want) <= 1e-5 * np.linalg.norm(want)


@pytest.mark.parametrize("make", [pre_norm, post_norm])
def test_sums_with_a_residual_stay_float32(make, tmp_path: pathlib.Path) -> None:  # noqa: ANN001
    passes("build", make(tmp_path / "m.onnx"), "--output", tmp_path / "m.plan", "--backend=cpu", "--bf16")
    layers = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    sums = [layer for layer in layers if "gemm" in layer["TacticName"] and len(layer["Inputs"]) > 1]
    assert len(sums) == 4
    for layer in sums:
        assert "float32" in layer["Inputs"][1]["Format/Datatype"]
        assert "float32" in layer["Outputs"][0]["Format/Datatype"]
        assert "bfloat16" in layer["Inputs"][0]["Format/Datatype"]


# Channels, filters, size of the filter, dilation, images and their size.
FEW_FILTERS = [
    (16, 3, 9, 1, (2, 37, 41)),
    (32, 3, 7, 1, (1, 50, 300)),
    (48, 2, 5, 2, (3, 33, 47)),
    (64, 1, 9, 1, (1, 20, 290)),
]


@pytest.mark.parametrize("case", FEW_FILTERS)
def test_few_filters(case: tuple, tmp_path: pathlib.Path) -> None:
    """Columns of the filter as channels, with functions and constants behind the sum."""
    channels, filters, size, dilation, (images, height, width) = case
    n = Net()
    pads = [size // 2 * dilation] * 4
    h = n.add("Tanh", conv(n, "x", channels, filters, size, pads=pads, dilations=[dilation] * 2))
    h = n.add("Add", n.add("Mul", h, weight(n, filters, 1, 1)), n.constant(np.float32(3)))
    model = n.save(tmp_path / "m.onnx", h, x=[images, channels, height, width])
    x = RNG.standard_normal((images, channels, height, width)).astype(np.float32)
    want = wanted(model, x)
    got = results(model, x, "--bf16")
    assert np.linalg.norm(got - want) <= 0.01 * np.linalg.norm(want)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("chain", [False, True], ids=["alone", "chain"])
def test_a_first_convolution_reads_nchw(channels: int, chain: bool, tmp_path: pathlib.Path) -> None:
    """No step brings the input into channels-last: planes of up to four channels are read as they are."""
    n = Net()
    h = n.add("Clip", conv(n, "x", channels, 32, 3, 2), n.constant(np.float32(0)), n.constant(np.float32(6)))
    if chain:
        depthwise = [h, weight(n, 32, 1, 3, 3), weight(n, 32)]
        h = n.add("Relu", n.add("Conv", *depthwise, group=32, pads=[1, 1, 1, 1]))
        h = conv(n, h, 32, 16, 1)
    model = n.save(tmp_path / "m.onnx", h, x=[2, channels, 131, 150])
    x = RNG.standard_normal((2, channels, 131, 150)).astype(np.float32)
    want = wanted(model, x)
    got = results(model, x, "--bf16")
    assert np.linalg.norm(got - want) <= 0.01 * np.linalg.norm(want)
    layers = passes("inspect", tmp_path / "m.plan")
    assert "x as channels_last" not in layers
    assert ("cpu_conv_chain_bf16" in layers) == chain


def test_the_layers_beside_the_reference(tmp_path: pathlib.Path) -> None:
    model = residual_net(tmp_path / "m.onnx")
    flags = ("--bf16", "--backend=cpu", "--rtol=0.05", "--atol=0.05")
    passes("debug", "compare", model, *flags)  # its exit code says whether a layer differs


def test_a_layer_that_must_stay_float32_keeps_its_tensors(tmp_path: pathlib.Path) -> None:
    n = Net()
    h = n.add("Relu", conv(n, "x", 16, 32, 3))
    h = n.add("Relu", conv(n, h, 32, 32, 3))
    model = n.save(tmp_path / "m.onnx", conv(n, h, 32, 16, 3), x=[1, 16, 20, 20])
    x = RNG.standard_normal((1, 16, 20, 20)).astype(np.float32)
    results(model, x, "--bf16")
    assert stored(tmp_path / "m.plan").count("bfloat16") == 2
    second = n.nodes[2].name
    results(model, x, "--bf16", "--precisionConstraints=obey", f"--layerPrecisions={second}:fp32")
    assert "bfloat16" not in stored(tmp_path / "m.plan")


def test_open_sizes(tmp_path: pathlib.Path) -> None:
    model = residual_net(tmp_path / "m.onnx", "n", 3, "h", "w")
    passes("build", model, "--output", tmp_path / "m.plan", "--backend=cpu", "--bf16", "--builderOptimizationLevel=0")
    assert "bfloat16" in stored(tmp_path / "m.plan")
    for shape in ([1, 3, 33, 47], [3, 3, 64, 40], [2, 3, 130, 131]):
        x = RNG.standard_normal(shape).astype(np.float32)
        want = wanted(model, x)
        got = run_plan(tmp_path / "m.plan", tmp_path, x=x)
        assert np.linalg.norm(got - want) <= 0.02 * np.linalg.norm(want)
