"""Caffe files that are refused: the message names the file's object and the reason, nothing crashes."""

import pathlib
import re

import numpy as np
import pytest
from caffe_net import blob, caffemodel, field, inputs_text, layer, run, varint
from harness import carnot

R = np.random.default_rng(3)
W, B = R.standard_normal((4, 3, 3, 3)).astype("f4"), R.standard_normal(4).astype("f4")
INPUT = inputs_text({"x": (1, 3, 6, 5)})
CONV = layer("Convolution", "x", "y", "convolution_param { num_output: 4 kernel_size: 3 }")
MODEL = caffemodel({"layer": [W, B]})
HUGE = 2**62


def said(folder: pathlib.Path, text: str | bytes, model: bytes = MODEL) -> str:
    """What a build that fails with exit code 1 says."""
    (folder / "n.prototxt").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "n.caffemodel").write_bytes(model)
    done = carnot("build", folder / "n.prototxt", f"--model={folder / 'n.caffemodel'}", "--output", folder / "n.plan", "--builderOptimizationLevel=0")
    assert done.returncode == 1, done.stdout
    assert not (folder / "n.plan").exists()
    assert done.stderr.startswith("carnot build: ")
    return done.stderr


LAYERS = {
    "cycle": (layer("ReLU", "z", "y", "", "first") + layer("ReLU", "y", "z", "", "second"), 'layer "first" .*bottom "z" is no top'),
    "own_top": (layer("Eltwise", "x y", "y", "", "own"), 'layer "own" .*bottom "y" is no top'),
    "huge_kernel": (layer("Convolution", "x", "y", f"convolution_param {{ num_output: 4 kernel_size: {HUGE} }}"), "kernel_size is 4611686018427387904"),
    "huge_num_output": (layer("InnerProduct", "x", "y", f"inner_product_param {{ num_output: {HUGE} }}"), "num_output is 4611686018427387904"),
    "negative_num_output": (layer("InnerProduct", "x", "y", "inner_product_param { num_output: -4 }"), "num_output is -4"),
    "negative_pad": (layer("Convolution", "x", "y", "convolution_param { num_output: 4 kernel_size: 3 pad: -1 }"), "pad is -1"),
    "stride_0": (layer("Pooling", "x", "y", "pooling_param { kernel_size: 2 stride: 0 }"), "stride is 0"),
    "dilation_0": (layer("Convolution", "x", "y", "convolution_param { num_output: 4 kernel_size: 3 dilation: 0 }"), "dilation is 0"),
    "pad_of_the_kernel": (layer("Pooling", "x", "y", "pooling_param { kernel_size: 2 pad: 2 }"), "pad is 2"),
    "both_kernels": (layer("Pooling", "x", "y", "pooling_param { kernel_size: 2 kernel_h: 2 kernel_w: 2 }"), "kernel_h and kernel_w"),
    "kernel_list": (layer("Convolution", "x", "y", "convolution_param { num_output: 4 kernel_size: [3, 3, 3] }"), "3 numbers of kernel_size"),
    "even_lrn": (layer("LRN", "x", "y", "lrn_param { local_size: 4 }"), "local_size is 4"),
    "slice_order": (layer("Slice", "x", "y z w", "slice_param { slice_point: [2, 1] }"), "slice_point 1"),
    "slice_outside": (layer("Slice", "x", "y z", "slice_param { slice_point: 9 }"), "slice_point 9"),
    "slice_unequal": (layer("Slice", "x", "y z", ""), "3 elements cannot be cut into 2"),
    "permute_twice": (layer("Permute", "x", "y", "permute_param { order: [0, 0] }"), "order 1 is 0"),
    "crop_outside": (layer("Crop", "x x", "y", "crop_param { axis: 2 offset: 1 }"), "offset 1"),
    "crop_huge": (layer("Crop", "x x", "y", f"crop_param {{ axis: 2 offset: {HUGE} }}"), "offset 4.6"),
    "tiles": (layer("Tile", "x", "y", f"tile_param {{ tiles: {HUGE} }}"), "tiles is 4611686018427387904"),
    "top_k": (layer("ArgMax", "x", "y", "argmax_param { top_k: 91 }"), "top_k is 91; 1 to 90"),
    "reduction_of_nothing": (layer("Reduction", "x", "y", "reduction_param { operation: 9 }"), "operation is 9"),
    "eltwise_coeff": (layer("Eltwise", "x x", "y", "eltwise_param { coeff: 1 }"), "1 coeff for 2 bottoms"),
    "eltwise_coeff_of_a_product": (layer("Eltwise", "x x", "y", "eltwise_param { operation: PROD coeff: 1 coeff: 2 }"), "2 coeff for 2 bottoms"),
    "reshape_twice_the_rest": (layer("Reshape", "x", "y", "reshape_param { shape { dim: -1 dim: -1 } }"), 'layer "layer"'),
    "shuffle": (layer("ShuffleChannel", "x", "y", "shuffle_channel_param { group: 2 }"), "group is 2; it must divide 3 channels"),
    "prior_without_size": (layer("PriorBox", "x x", "y"), "0 min_size"),
    "prior_variance": (layer("PriorBox", "x x", "y", "prior_box_param { min_size: 4 variance: [1, 2] }"), "2 variance"),
    "dummy_huge": (layer("DummyData", "", "d", f"dummy_data_param {{ shape {{ dim: {HUGE} }} }}"), "dimension 0 is 4611686018427387904"),
    "dummy_random": (layer("DummyData", "", "d", 'dummy_data_param { shape { dim: 3 } data_filler { type: "gaussian" } }'), "only constants are supported"),
    "lstm_of_one_bottom": (layer("LSTM", "x", "y", "recurrent_param { num_output: 4 }"), "1 bottoms; a layer of type LSTM has 2 to 5"),
    "window_outside": (layer("Convolution", "x", "y", "convolution_param { num_output: 4 kernel_size: 7 bias_term: false }"), 'layer "layer"'),
    "psroi_channels": (layer("PSROIPooling", "x x", "y", "psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 1 }"), "bottom 0 has 3 channels"),
    "proposal_scores": (layer("Proposal", "x x x", "y"), "3 scores and 3 corrections a pixel; 9 anchors"),
    "proposal_limits": (layer("DummyData", "", "s d", "dummy_data_param { shape { dim: [1, 2, 6, 5] } shape { dim: [1, 4, 6, 5] } data_filler { value: 1 } }", "make") + layer("Proposal", "s d x", "y", "proposal_param { ratio: 1 scale: 8 post_nms_topn: 0 }"), "post_nms_topn 0"),
    "proposal_base": (layer("DummyData", "", "s d", "dummy_data_param { shape { dim: [1, 2, 6, 5] } shape { dim: [1, 4, 6, 5] } data_filler { value: 1 } }", "make") + layer("Proposal", "s d x", "y", f"proposal_param {{ ratio: 1 scale: 8 base_size: {HUGE} }}"), "base_size 4611686018427387904"),
    "exp_base": (layer("Exp", "x", "y", "exp_param { base: -2 }"), "base is -2"),
    "two_makers": (layer("ReLU", "x", "y", "", "first") + layer("TanH", "x", "y", "", "second"), 'layer "second" .*top "y" is made by layer "first" too'),
    "maker_of_an_input": (layer("DummyData", "", "x", "dummy_data_param { shape { dim: 3 } }", "make"), 'layer "make" .*top "x" is made by field "input" too'),
    "two_tops_of_one_name": (layer("Split", "x", "y y", "", "split"), 'layer "split" .*top "y" is made by layer "split" too'),
    "maker_behind_an_unknown_layer": (layer("Foo", "x", "y", "", "first") + layer("TanH", "x", "y", "", "second"), 'top "y" is made by layer "first" too'),
    "misspelt_field": ('layer { name: "c" type: "Convolution" bottom: "x" top: "y"\nconvolution_param { num_output: 4 kernel_size: 3\n  stirde: 2 } }', "line 5, column 9: convolution_param has no field stirde"),
    "misspelt_message_in_a_field": (layer("Pooling", "x", "y", "pooling_param { kernel { size: 2 } }"), "pooling_param has no field kernel"),
    "clip": (layer("Clip", "x", "y", "clip_param { min: 0 }"), "lacks min or max"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(tmp_path: pathlib.Path, name: str) -> None:
    text, message = LAYERS[name]
    assert re.search(message, said(tmp_path, INPUT + text))


def wire_blob(dims: list[int], data: bytes) -> bytes:
    return field(100, field(1, b"layer") + field(7, field(7, field(1, b"".join(varint(d) for d in dims))) + field(5, data)) + field(7, blob(B)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (wire_blob([4, 3, 3, 3], bytes(4 * 107)), "107 elements; its dimensions ask for 108"),
        (wire_blob([4, 3, 3, 3], bytes(4 * 107 + 1)), "layer"),
        (wire_blob([HUGE, HUGE], bytes(8)), 'layer "layer"'),
        (wire_blob([2**32, 2**32], b""), 'layer "layer"'),
        (wire_blob([2**64 - 1, 4], bytes(16)), 'layer "layer"'),
        (wire_blob([1] * 40, bytes(4)), "a blob of 40 dimensions"),
        (caffemodel({"layer": [W, B, B]}), "holds 3 blobs for the layer; 2 are required"),
        (caffemodel({"layer": [W.reshape(4, 9, 3, 1), B]}), r"\[4,9,3,1\]; \[4,3,3,3\] are required"),
        (field(100, field(1, b"layer") + field(7, field(7, field(1, varint(1))) + varint(10 << 3) + varint(3) + field(12, bytes(4)))), "layer"),
        (MODEL[:40], "byte "),
        (b"", ""),
        (b"\xff" * 64, "byte "),
        (field(2, field(1, field(1, b"conv1"))), "V0"),
        (field(2, field(4, b"layer") + varint(5 << 3) + varint(99)), "type 99"),
    ],
    ids=["few", "odd", "huge", "overflow", "negative", "rank", "many", "shape", "raw", "cut", "empty", "bytes", "v0", "v1_type"],
)
def test_weights(tmp_path: pathlib.Path, model: bytes, message: str) -> None:
    assert re.search(message, said(tmp_path, INPUT + CONV, model))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        (b"\x00\xff\xfe" * 30, ""),
        ("layer { " * 20000, "line 1"),
        (INPUT + CONV + "unknown { " + "a { " * 20000, "nested deeper"),
        (INPUT + CONV + "}", "line 4, column 1"),
        (INPUT + 'layer { name: "open', "a string without end"),
        (INPUT + CONV + 'layer { type: "ReLU" bottom: "y" top: "\\q" }', r"escape \\q"),
        ('input: "x" input_dim: 1 input_dim: 3 input_dim: -6 input_dim: 5\n' + CONV, "dimension 2 is -6; 1 to "),
        ("input: \"x\" input_shape { dim: 4611686018427387904 }\n" + CONV, "dimension 0 is 4611686018427387904; 1 to "),
        ('input: "x" input: "z" input_shape { dim: 1 }\n' + CONV, "2 input fields with 1"),
        ('layer { name: "d" type: "Input" top: "x" }\n' + CONV, "0 shapes for 1 tops"),
        (f"input: \"x\" input_shape {{ {'dim: 1 ' * 40} }}\n" + CONV, "40 dimensions"),
        (INPUT + CONV.replace("num_output: 4", "num_output: 99999999999999999999"), "no 64-bit integer"),
        (INPUT + CONV.replace("kernel_size: 3", 'kernel_size: "3"'), "kernel_size"),
        (INPUT + CONV.replace("kernel_size: 3", "kernel_size: 3.5"), "kernel_size|3.5"),
    ],
    ids=["empty", "bytes", "deep", "deep_unknown", "brace", "open_string", "escape", "negative_input", "huge_input", "inputs", "no_shape", "rank", "digits", "string_for_number", "fraction"],
)
def test_text(tmp_path: pathlib.Path, text: str | bytes, message: str) -> None:
    assert re.search(message, said(tmp_path, text))


def test_every_unknown_layer_is_named(tmp_path: pathlib.Path) -> None:
    text = INPUT + layer("Foo", "x", "a", "", "one") + layer("ReLU", "a", "b", "", "behind") + layer("Bar", "x", "c", "", "two")
    message = said(tmp_path, text)
    assert '"one" of type Foo' in message
    assert '"two" of type Bar' in message
    assert "behind" not in message


def test_truncated_files_fail_everywhere(tmp_path: pathlib.Path) -> None:
    """No cut of the weights is taken for whole, but at the end of a layer."""
    cuts = [n for n in range(1, len(MODEL), 23)]
    for n in cuts:
        assert "n.caffemodel" in said(tmp_path, INPUT + CONV, MODEL[:n])


def test_v1_layers_by_number_and_with_shared_weights(tmp_path: pathlib.Path) -> None:
    x = R.standard_normal((1, 3, 6, 5)).astype("f4")
    conv = 'layers { name: "c" type: 4 bottom: "x" top: "y" param: "w" param: "b" blobs_lr: 1 weight_decay: 1e-3 convolution_param { num_output: 4 kernel_size: 3 bias_term: True weight_filler { type: "gaussian" std: 1e-2 } } }\n'
    tail = 'layers { name: "r" type: RELU bottom: "y" top: "y" }\nlayers { name: "p" type: POOLING bottom: "y" top: "z" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }\n'
    y = np.zeros((1, 4, 4, 3))
    for i, j in np.ndindex(3, 3):
        y += np.einsum("nchw,oc->nohw", x[:, :, i : i + 4, j : j + 3].astype("f8"), W[:, :, i, j])
    y = np.maximum(y + B.reshape(-1, 1, 1), 0)
    wanted = np.stack([y[:, :, :, :2].reshape(1, 4, 2, 2, 2).mean((3, 4)), y[:, :, :, 2].reshape(1, 4, 2, 2).mean(3)], -1)
    found = run(tmp_path, INPUT + conv + tail, caffemodel({"c": [W, B]}, "legacy", True), {"x": x})["z"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_raw_floats_and_doubles_of_nvcaffe(tmp_path: pathlib.Path) -> None:
    x = R.standard_normal((2, 3)).astype("f4")
    a = R.standard_normal((5, 3)).astype("f4")
    text = inputs_text({"x": x.shape}) + layer("InnerProduct", "x", "y", "inner_product_param { num_output: 5 bias_term: false }")
    for number, kind in ((0, "<f8"), (1, "<f4")):
        raw = field(7, field(1, b"".join(varint(d) for d in a.shape))) + varint(10 << 3) + varint(number) + field(12, a.astype(kind).tobytes())
        found = run(tmp_path, text, field(100, field(1, b"layer") + field(7, raw)), {"x": x})["y"]
        np.testing.assert_allclose(found, x.astype("f8") @ a.T, rtol=1e-4, atol=1e-5)
