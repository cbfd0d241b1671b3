"""carnot debug: compare, passes, precision, backends, reduce, split."""

import json
import pathlib
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import carnot, fails, passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)


@pytest.fixture
def net(tmp_path: pathlib.Path) -> pathlib.Path:
    """Five layers; the output of the fourth, scaled by 1e6, overflows float16; the weights of the GEMM do not."""
    weights = {
        "w": (RNG.standard_normal((16, 16)) / 4).astype(np.float16),
        "b": RNG.standard_normal(16),
        "large": np.array(1e6),
        "small": np.array(1e-6),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "b"], ["s"], "shift"),
        helper.make_node("Relu", ["s"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "large"], ["l"], "enlarge"),
        helper.make_node("Mul", ["l", "small"], ["y"], "shrink"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def ort(path: pathlib.Path, feeds: dict) -> dict:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def test_every_layer_agrees(net: pathlib.Path) -> None:
    assert re.search(r"\d layers agree", passes("debug", "compare", net, "--shapes=x:3x16"))


def test_json(net: pathlib.Path) -> None:
    told = json.loads(passes("debug", "compare", net, "--shapes=x:3x16", "--json"))
    assert told["passed"] is True and told["rtol"] == told["atol"] == 1e-4
    tensors = [layer["tensor"] for layer in told["layers"]]
    assert tensors[-1] == "y" and len(set(tensors)) == len(tensors)
    for layer in told["layers"]:
        assert layer["name"] and layer["tactic"].startswith("cpu_") and layer["outside"] == 0 and layer["count"] == 48
        assert 0 <= layer["max_abs"] < 1 and layer["cosine"] == pytest.approx(1)
    done = carnot("debug", "compare", net, "--shapes=x:3x16", "--json", "--atol=0", "--rtol=1e-12", "--fp16")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and told["passed"] is False and any(layer["outside"] for layer in told["layers"])
    assert "layers are outside atol 0" in done.stderr
    assert "--json is for carnot debug compare" in fails("debug", "passes", net, "--json", code=2)


def test_the_first_layer_that_differs(net: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    saved = tmp_path / "saved"
    saved.mkdir()
    model = onnx.load(net)
    model.graph.output.extend([helper.make_empty_tensor_value_info(n) for n in ("p", "s", "r", "l")])
    onnx.save(model, tmp_path / "all.onnx")
    for name, value in ort(tmp_path / "all.onnx", {"x": x}).items():
        np.save(saved / f"{name}.npy", value + (0.01 if name in ("r", "y") else 0))
    said = fails("debug", "compare", net, "--input", f"x={tmp_path / 'x.npy'}", f"--against={saved}", "--noPasses")
    assert "the first is relu (tensor r" in said, said


def test_half_layers_that_overflow_are_found(net: pathlib.Path) -> None:
    text = passes("debug", "precision", net, "--fp16", "--shapes=x:3x16", "--atol=1e-2")
    assert re.search(r"FAIL .* all layers in the half type", text) and re.search(r"ok .* all layers in float32", text)
    assert "the first 5 layers (up to shrink), or the last 2 (from enlarge)" in text, text
    each = passes("debug", "precision", net, "--fp16", "--each", "--shapes=x:3x16", "--atol=1e-2")
    alone = re.findall(r"^(FAIL|ok)\s.*?(\w+)$", each.split("only one layer")[1].split("enough")[0], flags=re.M)
    verdicts = {layer: verdict for verdict, layer in alone}
    assert verdicts["product"] == "ok" and verdicts["enlarge"] == "FAIL" and verdicts["shrink"] == "FAIL", each
    assert "which type? give --fp16, --bf16 or --int8" in fails("debug", "precision", net, code=2)


def test_passes_and_backends(net: pathlib.Path) -> None:
    assert "all passes together give the right result" in passes("debug", "passes", net, "--shapes=x:3x16")
    assert "cpu, scalar" in passes("debug", "backends", net, "--shapes=x:3x16")
    text = passes("debug", "passes", net, "--shapes=x:3x16", "--fp16", "--layerPrecisions=*:fp16")
    assert "the result is wrong without passes too" in text


def test_reduce(net: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "reduced"
    text = passes(
        "debug",
        "reduce",
        net,
        "--fp16",
        "--layerPrecisions=enlarge:fp16",
        "--shapes=x:3x16",
        "--noPasses",
        f"--output-dir={out}",
    )
    assert "the smallest part that fails, 1 nodes" in text, text
    small = onnx.load(out / "reduced.onnx")
    onnx.checker.check_model(small, full_check=True)
    assert [n.name for n in small.graph.node] == ["enlarge"] and [t.name for t in small.graph.initializer] == ["large"]
    assert np.array_equal(ort(out / "reduced.onnx", {"r": np.load(out / "r.npy")})["l"], np.load(out / "l.npy"))
    assert "nothing fails" in passes("debug", "reduce", net, "--shapes=x:3x16", f"--output-dir={out}")


def test_split(net: pathlib.Path, tmp_path: pathlib.Path) -> None:
    passes("debug", "split", net, "--at=s", f"--output-dir={tmp_path / 'two'}")
    for name in ("first", "second"):
        onnx.checker.check_model(onnx.load(tmp_path / "two" / f"{name}.onnx"), full_check=True)
    x = RNG.standard_normal((5, 16)).astype(np.float32)
    middle = ort(tmp_path / "two" / "first.onnx", {"x": x})
    assert np.allclose(
        ort(tmp_path / "two" / "second.onnx", middle)["y"], ort(net, {"x": x})["y"], rtol=1e-6, atol=1e-6
    )
    assert "no node of the model makes z" in fails("debug", "split", net, "--at=z", f"--output-dir={tmp_path}", code=2)


def test_errors(net: pathlib.Path) -> None:
    assert "usage: carnot debug" in fails("debug", "everything", net, code=2)
    assert "usage: carnot debug reduce" in fails("debug", "reduce", net, code=2)
