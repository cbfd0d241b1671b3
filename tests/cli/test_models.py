"""What users give as a model: links of a model hub's cache, files that are no ONNX model, optional inputs, STFT."""

import io
import json
import pathlib
import pickle
import zipfile

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import fails, passes
from onnx import TensorProto, helper, numpy_helper

# ---- links ----


def hub(folder: pathlib.Path, blobs: pathlib.Path, snapshot: str = "snapshots/abc") -> pathlib.Path:
    """A model with external data in the layout of the Hugging Face cache: both are links to blobs."""
    weight = numpy_helper.from_array(np.arange(2048, dtype=np.float32).reshape(8, 256), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])],
        [weight],
    )
    made = folder / "made"
    made.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, made / "model.onnx", save_as_external_data=True, location="model.onnx_data")
    blobs.mkdir(parents=True)
    place = folder / snapshot
    place.mkdir(parents=True)
    for name in ("model.onnx", "model.onnx_data"):
        (made / name).rename(blobs / f"blob-{len(name)}")
        (place / name).symlink_to(blobs / f"blob-{len(name)}")
    return place / "model.onnx"


@pytest.mark.parametrize("snapshot", ["snapshots/abc", "snapshots/abc/onnx", "snap"])
def test_links_of_a_hub_cache(tmp_path: pathlib.Path, snapshot: str) -> None:
    model = hub(tmp_path / "hub", tmp_path / "hub" / "blobs", snapshot)
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    assert "y: float32 [1,256]" in passes("run", model, "--input", tmp_path / "x.npy")
    # The model is a file, its data a link into the same repository.
    if "snapshots" in snapshot:
        data = model.read_bytes()
        model.unlink()
        model.write_bytes(data)
        assert "y: float32 [1,256]" in passes("run", model, "--input", tmp_path / "x.npy")


def test_links_that_leave_the_folder(tmp_path: pathlib.Path) -> None:
    model = hub(tmp_path / "hub", tmp_path / "elsewhere", "snap")
    data = model.read_bytes()
    model.unlink()
    model.write_bytes(data)
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    run = ["run", model, "--input", tmp_path / "x.npy"]
    assert "is a symbolic link out of the model's folder" in fails(*run)
    passes(*run, "--followLinks")
    # A folder that is a link is not entered.
    (tmp_path / "hub" / "linked").symlink_to(tmp_path / "elsewhere")
    named = onnx.load(model, load_external_data=False)
    named.graph.initializer[0].external_data[0].value = "../linked/blob-15"
    onnx.save(named, model)
    assert '".." is not allowed' in fails(*run)
    named.graph.initializer[0].external_data[0].value = "folder/blob-15"
    (model.parent / "folder").symlink_to(tmp_path / "elsewhere")
    onnx.save(named, model)
    assert '"folder" is a symbolic link or no folder' in fails(*run)
    passes(*run, "--followLinks")


# ---- files that are no ONNX model ----


def archive(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, b"{}")
    return data.getvalue()


@pytest.mark.parametrize(
    "data, said",
    [
        (archive("model/data.pkl", "model/data/0"), "a zip archive as torch.save writes it: export the model with torch.onnx"),
        (archive("config.json", "metadata.json", "model.weights.h5"), "a Keras model (.keras): write a SavedModel with"),
        (archive("a.npy"), "a zip archive of NumPy arrays"),
        (archive("README"), "a zip archive: unpack it"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file, as Keras writes it"),
        (pickle.dumps({"a": 1}, protocol=2), "a pickle, as older versions of torch.save write it"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(40), "a TensorFlow Lite model"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"a":{"dtype":1}}', "a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer, not the file itself"),
        (b"<!DOCTYPE html><html></html>", "an HTML page"),
        (b"hello, this is my model\n", "a text file, not a model"),
        (b"\x1f\x8b\x08" + bytes(20), "compressed by gzip"),
        (b"", "is empty"),
    ],
)
def test_files_that_are_no_model(tmp_path: pathlib.Path, data: bytes, said: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    message = fails("build", path, "--output", tmp_path / "m.plan")
    assert said in message and "model.bin" in message and "field" not in message, message


def test_a_folder_is_no_model(tmp_path: pathlib.Path) -> None:
    assert "is a folder" in fails("run", tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    assert "GraphDef" in fails("run", tmp_path)


# ---- optional inputs and sequences ----


def values(kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info("x", kind)


def test_optional_inputs(tmp_path: pathlib.Path) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [3])
    has = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])],
        "g",
        [values(helper.make_optional_type_proto(tensor))],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
    )
    model, file = tmp_path / "m.onnx", tmp_path / "x.npy"
    onnx.save(helper.make_model(has, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
    np.save(file, np.array([1, 2, 3], np.float32))

    def run(*inputs: str) -> object:
        return json.loads(passes("run", model, *inputs, "--json"))["outputs"][0]["values"]

    assert run() == [False] and run("--input=x=") == [False] and run(f"--input=x={file}") == [True]
    assert "input  x: optional" in passes("inspect", model)


def test_sequence_inputs(tmp_path: pathlib.Path) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    at = helper.make_graph(
        [helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)],
        "g",
        [values(helper.make_sequence_type_proto(tensor))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(at, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.full(2, i, np.float32))
    inputs = [f"--input=x={tmp_path / f'{i}.npy'}" for i in range(3)]
    assert json.loads(passes("run", model, *inputs, "--json"))["outputs"][0]["values"] == [0, 0, 1, 1, 2, 2]


# ---- STFT ----


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("shape", [(2, 64), (2, 64, 1)])
def test_stft_of_signals_without_a_last_dimension(tmp_path: pathlib.Path, shape: tuple, onesided: int) -> None:
    """PyTorch's exporter writes signals [batch, length]; ONNX's text asks for [batch, length, 1]."""
    rng = np.random.default_rng(3)
    constants = [
        numpy_helper.from_array(np.array(8), "step"),
        numpy_helper.from_array(np.hanning(16).astype(np.float32), "window"),
        numpy_helper.from_array(np.array(16), "length"),
    ]
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", "step", "window", "length"], ["y"], onesided=onesided)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    x = rng.standard_normal(shape).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    passes("run", model, "--input", tmp_path / "x.npy", "--output-dir", tmp_path)
    wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-5)
