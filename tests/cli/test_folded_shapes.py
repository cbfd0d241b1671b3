"""Sizes that follow from constants which folding makes: written as PyTorch's exporter writes them."""

import pathlib
import re

import numpy as np
import onnx
import onnxruntime as ort
from harness import passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)


def check(
    folder: pathlib.Path, nodes: list, constants: dict, shape: list[int], expected: list[int], tactics: list[str]
) -> None:
    """The output has the expected size, only these tactics and reformats run, the numbers are ONNX Runtime's."""
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    path, plan = folder / "m.onnx", folder / "m.plan"
    onnx.save(model, path)
    passes("exec", f"--onnx={path}", f"--saveEngine={plan}", "--skipInference")
    report = passes("inspect", plan)
    assert f"output y: float32 [{','.join(map(str, expected))}]" in report
    rows = [line.split()[1] for line in report.splitlines() if line.split()[0].isdigit()]
    rows = [re.sub("(_axes)?_f32_.*", "", row) for row in rows if row != "cpu_reformat"]  # resize by either kernel
    assert rows == tactics, report
    data = RNG.standard_normal(shape).astype(np.float32)
    np.save(folder / "x.npy", data)
    passes("run", plan, "--input", f"x={folder / 'x.npy'}", "--output-dir", folder)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(np.load(folder / "y.npy"), session.run(None, {"x": data})[0], rtol=1e-6, atol=1e-6)


def test_padding(tmp_path: pathlib.Path) -> None:
    """Pads in PyTorch's order, turned round by Reshape, Slice with step -1, Transpose, Reshape and Cast."""
    nodes = [
        helper.make_node("Concat", ["pads", "zeros"], ["all"], axis=0),
        helper.make_node("Reshape", ["all", "pairs"], ["rows"]),
        helper.make_node("Slice", ["rows", "minus_one", "start", "zero", "minus_one"], ["turned"]),
        helper.make_node("Transpose", ["turned"], ["columns"], perm=[1, 0]),
        helper.make_node("Reshape", ["columns", "minus_one"], ["list"]),
        helper.make_node("Cast", ["list"], ["int64"], to=TensorProto.INT64),
        helper.make_node("Pad", ["x", "int64"], ["padded"]),
        helper.make_node("Relu", ["padded"], ["y"]),
    ]
    ints = {"pads": [1, 1, 1, 1], "zeros": [0] * 4, "pairs": [-1, 2], "minus_one": [-1], "zero": [0]}
    constants = {name: np.array(value, np.int64) for name, value in (ints | {"start": [-(2**63) + 1]}).items()}
    check(tmp_path, nodes, constants, [1, 8, 14, 14], [1, 8, 16, 16], ["cpu_pad", "cpu_pointwise"])


def test_square_root_of_a_size(tmp_path: pathlib.Path) -> None:
    """A sequence of h * w tokens as an image: h and w are the root of the length."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["length"], axis=0),
        helper.make_node("Cast", ["length"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Pow", ["number", "half"], ["root"]),
        helper.make_node("Sqrt", ["number"], ["root_2"]),
        helper.make_node("Cast", ["root"], ["height"], to=TensorProto.INT64),
        helper.make_node("Cast", ["root_2"], ["width"], to=TensorProto.INT64),
        helper.make_node("Concat", ["batch", "height", "width", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["image"]),
        helper.make_node("Concat", ["batch", "height", "width", "many"], ["wide"], axis=0),
        helper.make_node("Expand", ["image", "wide"], ["y"]),
    ]
    constants = {name: np.array([value], np.int64) for name, value in dict(one=1, batch=1, rest=1, many=5).items()}
    check(tmp_path, nodes, constants | {"half": np.float32(0.5)}, [1, 196, 1], [1, 14, 14, 5], ["view", "cpu_expand"])


def test_upsampling_by_sizes(tmp_path: pathlib.Path) -> None:
    """The size of the result is twice that of the image, in floats, rounded down."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "two", "four", "zero"], ["image"]),
        helper.make_node("Slice", ["sizes", "zero", "two", "zero"], ["head"]),
        helper.make_node("Cast", ["image"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "factor"], ["larger"]),
        helper.make_node("Div", ["larger", "halves"], ["parts"]),
        helper.make_node("Ceil", ["parts"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["target"], to=TensorProto.INT64),
        helper.make_node("Concat", ["head", "target"], ["all"], axis=0),
        helper.make_node("Resize", ["x", "", "", "all"], ["y"], mode="nearest"),
    ]
    constants = {name: np.array([value], np.int64) for name, value in dict(zero=0, two=2, four=4).items()}
    constants |= {"factor": np.float32(4), "halves": np.float32(2)}
    check(tmp_path, nodes, constants, [1, 3, 7, 9], [1, 3, 14, 18], ["cpu_resize"])
