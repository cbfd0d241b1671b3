"""Caffe networks in the forms that files have, broken ones, and the flags that read them."""

import os
import pathlib
import re

import numpy as np
import pytest
from caffe_net import caffemodel, inputs_text, layer, run
from harness import carnot, fails, passes

R = np.random.default_rng(0)
W, B = R.standard_normal((4, 3, 3, 3)).astype("f4"), R.standard_normal(4).astype("f4")
X = R.standard_normal((1, 3, 6, 5)).astype("f4")
CONV = "convolution_param { num_output: 4 kernel_size: 3 }"
INPUT = inputs_text({"x": X.shape})
TEXT = INPUT + layer("Convolution", "x", "y", CONV)
MODEL = caffemodel({"layer": [W, B]})
V1 = INPUT + f'layers {{ name: "layer" type: CONVOLUTION bottom: "x" top: "y" blobs_lr: 1 blobs_lr: 2 {CONV} }}'
DIMS = 'input: "x" input_dim: 1 input_dim: 3 input_dim: 6 input_dim: 5\n' + layer("Convolution", "x", "y", CONV)
LAYER_INPUT = 'layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 5 } } }\n'
COMMENTS = "# a network\n" + TEXT.replace("layer {", "layer # here\n{").replace("num_output: 4", "num_output: 4; ")


def expected() -> np.ndarray:
    y = np.zeros((1, 4, 4, 3))
    for i, j in np.ndindex(3, 3):
        y += np.einsum("nchw,oc->nohw", X[:, :, i : i + 4, j : j + 3].astype("f8"), W[:, :, i, j])
    return y + B.reshape(-1, 1, 1)


TRAIN = layer("SoftmaxWithLoss", "y label", "loss", "include { phase: TRAIN }", "loss")
SAME_TEXT = {
    "v2": TEXT,
    "v1": V1,
    "input_dim": DIMS,
    "input_layer": LAYER_INPUT + layer("Convolution", "x", "y", CONV),
    "comments": COMMENTS,
    "crlf": TEXT.replace("\n", "\r\n"),
    "colons": TEXT.replace("layer {", "layer: {").replace("convolution_param {", "convolution_param: <").replace("} }", "> }"),
    "unknown_fields": TEXT.replace("name: \"layer\"", 'name: "layer" unknown_param { a: 1 b { c: [1, 2] } } propagate_down: true'),
    "training_fields": TEXT.replace("kernel_size: 3", 'kernel_size: 3 weight_filler { type: "xavier" variance_norm: AVERAGE } engine: CUDNN'),
    "fields_of_forks": TEXT + layer("Permute", "y", "y", "permute_param { order: [0, 1, 2, 3] of_a_fork: 3 }", "p"),
    "in_place": TEXT + layer("Dropout", "y", "y", "", "d") + layer("Power", "y", "y", "", "p"),
    "names_with_numbers": 'name: "net 2"\nforce_backward: true\ndebug_info: false\n' + TEXT,
    "training_layer_left_out": TEXT + TRAIN,
    "accuracy_dropped": TEXT + layer("Accuracy", "y label", "accuracy", "", "accuracy"),
    "silence_dropped": TEXT + layer("Split", "x", "s", "", "sp") + layer("Silence", "s", "", "", "si") + layer("Power", "s", "z", "", "z"),
    "exclude": TEXT.replace('name: "layer"', 'name: "layer" exclude { phase: TRAIN }') + layer("ReLU", "y", "y", "exclude { phase: TEST }", "r"),
    "include_test": TEXT.replace('name: "layer"', 'name: "layer" include { phase: TEST }'),
    "stages": TEXT + layer("ReLU", "y", "y", 'include { stage: "deploy" }', "r"),
    "stage_given": 'state { stage: "deploy" }\n' + TEXT.replace('name: "layer"', 'name: "layer" include { stage: "deploy" not_stage: "val" }'),
    "levels": TEXT + layer("ReLU", "y", "y", "include { min_level: 1 }", "r"),
    "dropout_in_place": TEXT + layer("Dropout", "y", "y", "", "drop"),
    "duplicate_names": INPUT + layer("Power", "x", "x", "", "layer") + layer("Convolution", "x", "y", CONV),
    "string_types": TEXT.replace('"Convolution"', "'Convo' \"lution\""),
}
SAME_MODEL = {
    "legacy_blobs": caffemodel({"layer": [W, B]}, "legacy"),
    "double_blobs": caffemodel({"layer": [W, B]}, "double"),
    "unpacked_blobs": caffemodel({"layer": [W, B]}, "unpacked"),
    "v1_weights": caffemodel({"layer": [W, B]}, "legacy", True),
    "other_layers": caffemodel({"zzz": [B], "layer": [W, B], "aaa": [W]}),
    "unknown_field": MODEL + b"\xfa\x7f\x03abc",
}


@pytest.mark.parametrize("form", SAME_TEXT)
def test_forms_of_the_text(tmp_path: pathlib.Path, form: str) -> None:
    found = run(tmp_path, SAME_TEXT[form], MODEL, {"x": X})["y"]
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", SAME_MODEL)
@pytest.mark.parametrize("text", ["v1", "v2"])
def test_forms_of_the_weights(tmp_path: pathlib.Path, form: str, text: str) -> None:
    found = run(tmp_path, SAME_TEXT[text], SAME_MODEL[form], {"x": X})["y"]
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-4)


def test_half_blobs_of_nvcaffe(tmp_path: pathlib.Path) -> None:
    found = run(tmp_path, TEXT, caffemodel({"layer": [W, B]}, "half"), {"x": X})["y"]
    assert 0 < np.abs(found - expected()).max() < 1e-2


def test_blobs_in_the_text(tmp_path: pathlib.Path) -> None:
    blobs = "".join(f"blobs {{ shape {{ {' '.join(f'dim: {d}' for d in a.shape)} }} {' '.join(f'data: {float(v)!r}' for v in a.ravel())} }}" for a in (W, B))
    found = run(tmp_path, INPUT + layer("Convolution", "x", "y", CONV + blobs), None, {"x": X})["y"]
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-4)


def test_in_place_tops_and_blobs_read_twice(tmp_path: pathlib.Path) -> None:
    text = INPUT + layer("ReLU", "x", "x", "", "r") + layer("Power", "x", "a", "power_param { scale: 2 }", "p")
    text += layer("Power", "x", "x", "power_param { shift: 1 }", "q") + layer("Eltwise", "a x", "y", "", "e")
    np.testing.assert_allclose(run(tmp_path, text, None, {"x": X})["y"], 3 * np.maximum(X, 0) + 1, rtol=1e-6)


def test_outputs_are_tops_that_nobody_reads(tmp_path: pathlib.Path) -> None:
    text = INPUT + layer("Split", "x", "a b", "", "s") + layer("ReLU", "a", "c", "", "r") + layer("ReLU", "c", "c", "", "r2")
    assert set(run(tmp_path, text, None, {"x": X})) == {"b", "c"}
    (tmp_path / "out" / "c.npy").unlink()
    assert set(run(tmp_path, text, None, {"x": X}, "--outputs=a,b")) == {"a", "b"}
    assert "output zz is no blob" in fails("run", tmp_path / "net.prototxt", "--outputs=zz")


def test_random_weights_are_the_same_each_time(tmp_path: pathlib.Path) -> None:
    first = run(tmp_path, TEXT, None, {"x": X})["y"]
    np.testing.assert_array_equal(first, run(tmp_path, TEXT, None, {"x": X})["y"])
    assert first.std() > 0
    done = carnot("build", tmp_path / "net.prototxt", "--output", tmp_path / "a.plan")
    assert "they are random" in done.stdout + done.stderr


def test_trtexec(tmp_path: pathlib.Path) -> None:
    (tmp_path / "n.prototxt").write_text(TEXT + layer("Softmax", "y", "prob", "", "s"))
    (tmp_path / "n.caffemodel").write_bytes(MODEL)
    flags = ["--iterations=1", "--duration=0", "--warmUp=0", "--builderOptimizationLevel=0"]
    out = passes("exec", f"--deploy={tmp_path}/n.prototxt", f"--model={tmp_path}/n.caffemodel", "--output=prob", "--batch=2", *flags)
    assert "Format: Caffe" in out and "PASSED" in out
    done = carnot("exec", f"--deploy={tmp_path}/n.prototxt", "--output=y", "--output=prob", *flags)
    assert "they are random" in done.stdout + done.stderr and "PASSED" in done.stdout
    assert "one model is built" in fails("exec", "--onnx=a", "--deploy=b", "--output=y")


BROKEN = {
    "unknown layer": (INPUT + layer("Foo", "x"), MODEL, r'layer "layer" of type Foo: no such layer is known'),
    "two unknown layers": (INPUT + layer("Foo", "x") + layer("Bar", "y", "z", "", "second"), MODEL, "1 node of the model"),
    "python layer": (INPUT + layer("Python", "x", "y", 'python_param { module: "m" }'), MODEL, "its code is not in the model"),
    "unknown bottom": (INPUT + layer("ReLU", "zz"), MODEL, 'bottom "zz" is no top of a layer before'),
    "missing weights": (TEXT, caffemodel({"other": [W]}), 'layer "layer" .*holds 0 blobs for the layer; 2 are required'),
    "a blob too few": (TEXT, caffemodel({"layer": [W]}), "holds 1 blobs for the layer; 2 are required"),
    "another shape": (TEXT, caffemodel({"layer": [W[:, :, :2], B]}), r"blob 0 is of dimensions \[4,3,2,3\]; \[4,3,3,3\] are required"),
    "negative kernel": (TEXT.replace("kernel_size: 3", "kernel_size: -3"), MODEL, "kernel_size is -3; 1 to"),
    "no kernel": (TEXT.replace("kernel_size: 3", ""), MODEL, "kernel_size is 0; 1 to"),
    "huge dimensions": (TEXT.replace("dim: 6", f"dim: {2**62}"), MODEL, "dimension 2 is 4611686018427387904"),
    "groups": (TEXT.replace("kernel_size", "group: 2 kernel_size"), MODEL, "group is 2; it must divide 3 channels"),
    "truncated text": (TEXT[:-20], MODEL, "line "),
    "truncated weights": (TEXT, MODEL[:-7], "byte "),
    "weights of no layers": (TEXT, b"\x0a\x03net", "holds no layers"),
    "hdf5 weights": (TEXT, b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
    "v0": (INPUT + 'layers { layer { name: "c" type: "conv" } bottom: "x" top: "y" }', MODEL, "first form"),
    "both forms": (V1 + layer("ReLU", "y", "y", "", "r"), MODEL, "of the old form"),
    "data layer": (layer("Data", "", "x label", "", "d") + layer("Convolution", "x", "y", CONV), MODEL, "give a network for deployment"),
    "two bottoms": (INPUT + layer("ReLU", "x x"), MODEL, "2 bottoms; a layer of type ReLU has 1 to 1"),
    "two tops": (INPUT + layer("ReLU", "x", "y z"), MODEL, "2 tops; a layer of type ReLU has 1"),
    "word for a number": (TEXT.replace("num_output: 4", "num_output: four"), MODEL, '"four" is no value of num_output'),
    "include and exclude": (TEXT.replace('name: "layer"', 'name: "layer" include { phase: TEST } exclude { phase: TRAIN }'), MODEL, "one kind is allowed"),
    "three dimensions of one input": ('input: "x" input_dim: 1 input_dim: 3 input_dim: 6\n' + layer("ReLU", "x"), MODEL, "four for each input are required"),
    "axis": (INPUT + layer("Softmax", "x", "y", "softmax_param { axis: 4 }"), MODEL, "axis is 4; -4 to 3 are required"),
    "reshape": (INPUT + layer("Reshape", "x", "y", "reshape_param { shape { dim: 7 dim: -1 } }"), MODEL, "layer"),
    "nothing": ("layer {", MODEL, "layer"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_networks_name_what_is_wrong(tmp_path: pathlib.Path, name: str) -> None:
    text, model, message = BROKEN[name]
    (tmp_path / "n.prototxt").write_text(text)
    (tmp_path / "n.caffemodel").write_bytes(model)
    said = fails("build", tmp_path / "n.prototxt", f"--model={tmp_path}/n.caffemodel", "--output", tmp_path / "n.plan")
    assert re.search(message, said), said
    assert not (tmp_path / "n.plan").exists()


MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS") or pathlib.Path.home() / ".cache/carnot-models") / "caffe"


@pytest.mark.parametrize("name", ["lenet", "caffenet", "googlenet", "resnet50", "mobilenet", "squeezenet", "ssd", "fcn", "lstm"])
def test_exported_network(tmp_path: pathlib.Path, name: str) -> None:
    folder = MODELS / name
    if not (folder / "data.npz").exists():
        pytest.skip(f"{folder} is not there: ../shared/models/export_caffe.py writes it")
    data = np.load(folder / "data.npz")
    feeds = {k[3:]: data[k] for k in data.files if k.startswith("in:")}
    found = run(tmp_path, (folder / "deploy.prototxt").read_text(), (folder / "model.caffemodel").read_bytes(), feeds)
    for key in (k for k in data.files if k.startswith("out:")):
        wanted, got = data[key], found[key[4:]]
        assert got.shape == wanted.shape
        if name == "ssd":  # a set of lines
            far = np.abs(got[0, 0][:, None] - wanted[0, 0][None]).max(-1)
            assert max(far.min(0).max(), far.min(1).max()) < 1e-4
        else:
            assert np.abs(got - wanted).max() <= 1e-4 * np.abs(wanted).max()
