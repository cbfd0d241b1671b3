"""--inputIOFormats and --outputIOFormats: the command reads and writes row-major files in any layout."""

import pathlib

import numpy as np
import onnx
import pytest
from harness import fails, passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(17)
WEIGHT = RNG.standard_normal((6, 3, 3, 3)).astype(np.float32)


@pytest.fixture
def conv(tmp_path: pathlib.Path) -> pathlib.Path:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 4, 3])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    path = tmp_path / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize(
    "formats", [("fp32:hwc", "fp32:hwc8"), ("fp16:chw4", "fp16:chw32"), ("fp32:hwc16+chw", "chw2")]
)
def test_layouts(conv: pathlib.Path, formats: tuple) -> None:
    x = RNG.standard_normal((1, 3, 6, 5)).astype(np.float16 if "fp16" in formats[0] else np.float32)
    folder, plan = conv.parent, conv.with_suffix(".plan")
    np.save(folder / "x.npy", x)
    flags = [
        *(["--fp16"] if x.dtype == np.float16 else []),
        f"--inputIOFormats={formats[0]}",
        f"--outputIOFormats={formats[1]}",
    ]
    passes("build", conv, "--output", plan, *flags)
    passes("run", plan, "--input", f"x={folder / 'x.npy'}", "--output-dir", folder)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(2, 3))
    wanted = np.einsum("nchwrs,kcrs->nkhw", windows, WEIGHT.astype(np.float64))
    got = np.load(folder / "y.npy")
    assert got.dtype == x.dtype and np.abs(got - wanted).max() < (2e-2 if x.dtype == np.float16 else 1e-4)
    passes("exec", f"--onnx={conv}", "--duration=0", "--iterations=2", *flags)


def test_unknown_layout_and_tensors_that_cannot(conv: pathlib.Path) -> None:
    build = ["build", conv, "--output", conv.with_suffix(".plan")]
    assert "layout 'nhwc' is not available; chw, chw2," in fails(*build, "--inputIOFormats=fp32:nhwc")
    assert "layout 'dla_hwc4' is not available" in fails(*build, "--outputIOFormats=fp32:dla_hwc4")
    assert "tensor y: format hwc is for 3 to 7 dimensions, not for 2" in fails_flat(conv)


def fails_flat(conv: pathlib.Path) -> str:
    model = onnx.load(conv)
    model.graph.node.append(helper.make_node("Flatten", ["y"], ["flat"], "flatten"))
    model.graph.node[-1].output[0], model.graph.node[0].output[0] = "y", "c"
    model.graph.node[-1].input[0] = "c"
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 72]))
    path = conv.with_name("flat.onnx")
    onnx.save(model, path)
    return fails("build", path, "--output", path.with_suffix(".plan"), "--outputIOFormats=fp32:hwc")
