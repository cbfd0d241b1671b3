"""Built-in vision plugins: RoiAlign, deformable convolution and attention, crop and resize, region."""

import math
import pathlib

import numpy as np
import pytest
from harness import plugin
from reference import near, numbers, onnx_op

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("shift", [0, 1])
def test_roi_align(tmp_path: pathlib.Path, version: str, shift: int) -> None:
    x = numbers(2, 3, 8, 9)
    rois = np.array([[0, 0, 10, 12], [3.3, 2.1, 14.2, 9.9]], np.float32)
    at = np.array([1, 0], np.int32)
    fields = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    inputs = {"x": x, "rois": rois, "at": at}
    (y,) = plugin(
        tmp_path, "ROIAlign_TRT", inputs, version=version, coordinate_transformation_mode=shift, mode=1, **fields
    )
    mode = "half_pixel" if shift else "output_half_pixel"
    wanted = onnx_op(
        "RoiAlign",
        inputs | {"at": at.astype(np.int64)},
        fields | {"coordinate_transformation_mode": mode, "mode": "avg"},
    )
    near(y, wanted.astype(np.float64))


@pytest.mark.parametrize("version", ["1", "2"])
def test_modulated_deform_conv(tmp_path: pathlib.Path, version: str) -> None:
    x, weight, bias = numbers(1, 4, 7, 7), numbers(6, 2, 3, 3), numbers(6)
    offset, mask = numbers(1, 2 * 2 * 9, 4, 4), np.abs(numbers(1, 2 * 9, 4, 4))
    inputs = {"x": x, "offset": offset, "mask": mask, "weight": weight, "bias": bias}
    fields = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "group": 2, "deformable_group": 2}
    (y,) = plugin(tmp_path, "ModulatedDeformConv2d", inputs, version=version, **fields)
    attrs = {
        "strides": [2, 2],
        "pads": [1] * 4,
        "dilations": [1, 1],
        "group": 2,
        "offset_group": 2,
        "kernel_shape": [3, 3],
    }
    order = {k: inputs[k] for k in ("x", "weight", "offset", "bias", "mask")}
    near(y, onnx_op("DeformConv", order, attrs).astype(np.float64), 1e-4)


def test_crop_and_resize(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3, 7, 9)
    boxes = RNG.uniform(-0.2, 1.2, (2, 4, 4)).astype(np.float32)
    for name, version, rois in (("CropAndResize", "1", boxes[..., None]), ("CropAndResizeDynamic", "2", boxes)):
        (y,) = plugin(tmp_path, name, {"x": x, "rois": rois}, version=version, crop_height=3, crop_width=4)
        wanted = np.zeros((2, 4, 3, 3, 4))
        for n, b, c, i, j in np.ndindex(wanted.shape):
            y1, x1, y2, x2 = boxes[n, b].astype(np.float64)
            row, column = (y1 + (y2 - y1) * i / 2) * 6, (x1 + (x2 - x1) * j / 3) * 8
            if not (0 <= row <= 6 and 0 <= column <= 8):
                continue
            top, left = int(row), int(column)
            bottom, right = min(top + 1, 6), min(left + 1, 8)
            p, dy, dx = x[n, c].astype(np.float64), row - top, column - left
            wanted[n, b, c, i, j] = (1 - dy) * ((1 - dx) * p[top, left] + dx * p[top, right]) + dy * (
                (1 - dx) * p[bottom, left] + dx * p[bottom, right]
            )
        near(y, wanted, 1e-4)


def test_coord_conv(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3, 5, 4)
    (y,) = plugin(tmp_path, "CoordConvAC", {"x": x})
    rows = np.broadcast_to(np.linspace(-1, 1, 5)[:, None], (2, 1, 5, 4))
    columns = np.broadcast_to(np.linspace(-1, 1, 4), (2, 1, 5, 4))
    near(y, np.concatenate([x, rows, columns], 1), 1e-6)


def test_region(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3 * 9, 2, 3)
    (y,) = plugin(tmp_path, "Region_TRT", {"x": x}, num=3, coords=4, classes=4)
    wanted = x.astype(np.float64).reshape(2, 3, 9, 2, 3)
    for at in (0, 1, 4):
        wanted[:, :, at] = 1 / (1 + np.exp(-wanted[:, :, at]))
    e = np.exp(wanted[:, :, 5:])
    wanted[:, :, 5:] = e / e.sum(2, keepdims=True)
    near(y, wanted.reshape(x.shape))


@pytest.mark.parametrize("version", ["1", "2"])
def test_multiscale_deformable_attention(tmp_path: pathlib.Path, version: str) -> None:
    shapes = np.array([[4, 5], [2, 3]], np.int32)
    starts = np.array([0, 20], np.int32)
    value, weights = numbers(2, 26, 2, 3), RNG.uniform(0, 1, (2, 4, 2, 2, 2)).astype(np.float32)
    locations = RNG.uniform(-0.1, 1.1, (2, 4, 2, 2, 2, 2)).astype(np.float32)
    inputs = {"value": value, "shapes": shapes, "starts": starts, "locations": locations, "weights": weights}
    (y,) = plugin(tmp_path, "MultiscaleDeformableAttnPlugin_TRT", inputs, version=version)
    wanted = np.zeros((2, 4, 2, 3))
    for b, q, m, level, p in np.ndindex(weights.shape):
        height, width = shapes[level]
        column, row = locations[b, q, m, level, p].astype(np.float64) * (width, height) - 0.5
        for i in (math.floor(row), math.floor(row) + 1):
            for j in (math.floor(column), math.floor(column) + 1):
                if 0 <= i < height and 0 <= j < width:
                    share = (1 - abs(row - i)) * (1 - abs(column - j))
                    wanted[b, q, m] += weights[b, q, m, level, p] * share * value[b, starts[level] + i * width + j, m]
    near(y, wanted, 1e-4)
