"""GridSample and RoiAlign beside ONNX Runtime."""

import pathlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import fails, passes
from onnx import helper
from ort_compare import normal, same, write

RNG = np.random.default_rng(11)


def boxes(count: int, height: int, width: int) -> np.ndarray:
    """Boxes: some out of bounds, some smaller than an element, one inverted."""
    corners = RNG.uniform(-3, [width + 3, height + 3], (count, 2, 2))
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
    boxes[0], boxes[1], boxes[2] = [5, 5, 5.2, 5.1], [9, 8, 2, 3], [-9, -9, width + 9, height + 9]
    return boxes.astype(np.float32)


@pytest.mark.parametrize("channels", [3, 70])
@pytest.mark.parametrize("sampling", [0, 1, 3])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str, place: str, sampling: int, channels: int, tmp_path: pathlib.Path) -> None:
    inputs = {"x": normal(2, channels, 23, 31), "rois": boxes(40, 23 * 2, 31 * 2), "i": RNG.integers(0, 2, 40)}
    # ONNX Runtime's coordinates are float32.
    same(
        tmp_path,
        "cpu_roi_align_f32",
        "RoiAlign",
        inputs,
        limit=1e-5,
        symbolic=sampling == 1,
        mode=mode,
        output_height=5,
        output_width=7,
        sampling_ratio=sampling,
        spatial_scale=0.5,
        coordinate_transformation_mode=place,
    )


def test_a_region_of_no_image(tmp_path: pathlib.Path) -> None:
    inputs = {"x": normal(2, 3, 23, 31), "rois": boxes(4, 23, 31), "i": np.array([0, 1, 2, 0])}
    assert "a region names image 2 of 2" in fails(*write(tmp_path, "RoiAlign", inputs, {}, False))


@pytest.mark.parametrize("channels", [1, 20])
@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode: str, padding: str, align_corners: int, channels: int, tmp_path: pathlib.Path) -> None:
    # ONNX Runtime does not clamp coordinates to the border before it picks the four neighbours.
    far = 1 if (mode, padding) == ("cubic", "border") else 1.7
    inputs = {"x": normal(2, channels, 23, 31), "grid": RNG.uniform(-far, far, (2, 40, 30, 2)).astype(np.float32)}
    same(
        tmp_path,
        "cpu_grid_sample_f32",
        "GridSample",
        inputs,
        limit=0 if mode == "nearest" else 1e-5,
        symbolic=padding == "border",
        mode=mode,
        padding_mode=padding,
        align_corners=align_corners,
    )


def test_a_volume_is_sampled_by_the_reference(tmp_path: pathlib.Path) -> None:
    inputs = {"x": normal(2, 3, 5, 6, 7), "grid": RNG.uniform(-1.2, 1.2, (2, 4, 5, 6, 3)).astype(np.float32)}
    same(tmp_path, "reference", "GridSample", inputs, limit=1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_grid_sample_16(mode: str, padding: str, tmp_path: pathlib.Path) -> None:
    """Opsets 16 to 19 have other words for the modes."""
    inputs = {"x": normal(1, 3, 23, 31) / 20, "grid": RNG.uniform(-1, 1, (1, 40, 30, 2)).astype(np.float32)}
    nodes = [helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding)]
    path = save_grid_sample(tmp_path, nodes, inputs)
    for name, value in inputs.items():
        np.save(tmp_path / f"{name}.npy", value)
    given = [part for name in inputs for part in ("--input", f"{name}={tmp_path / name}.npy")]
    passes("run", path, *given, "--output-dir", tmp_path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), session.run(None, inputs)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("word", ["linear", "cubic", "lanczos"])
def test_grid_sample_16_refuses_other_words(word: str, tmp_path: pathlib.Path) -> None:
    inputs = {"x": normal(1, 3, 5, 5), "grid": normal(1, 4, 4, 2)}
    nodes = [helper.make_node("GridSample", ["x", "grid"], ["y"], name="warp", mode=word)]
    message = fails("run", save_grid_sample(tmp_path, nodes, inputs))
    assert f'mode "{word}" must be bilinear, bicubic or nearest' in message
    assert "warp" in message


def save_grid_sample(folder: pathlib.Path, nodes: list, inputs: dict) -> pathlib.Path:
    """A model of opset 16."""
    infos = [helper.make_tensor_value_info(name, 1, value.shape) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"
