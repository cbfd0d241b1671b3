"""Built-in plugins that clip, split, tile, scatter, select or resize."""

import pathlib

import numpy as np
import pytest
from harness import plugin
from reference import near, numbers

RNG = np.random.default_rng(7)


def test_clip_and_leaky_relu(tmp_path: pathlib.Path) -> None:
    x = numbers(3, 4)
    near(plugin(tmp_path, "Clip_TRT", {"x": x}, clipMin=-0.5, clipMax=0.75)[0], x.clip(-0.5, 0.75))
    near(plugin(tmp_path, "LReLU_TRT", {"x": x}, negSlope=0.1)[0], np.where(x < 0, np.float64(0.1) * x, x))


def test_split(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 9, 3)
    for found, wanted in zip(
        plugin(tmp_path, "Split", {"x": x}, 3, dynamic=False, axis=1, output_lengths=[2, 3, 4]), np.split(x, [2, 5], 1)
    ):
        assert np.array_equal(found, wanted)


def test_batch_tile(tmp_path: pathlib.Path) -> None:
    a, b = numbers(3, 2, 2, 2), numbers(1, 4, 2, 3)
    (y,) = plugin(tmp_path, "BatchTilePlugin_TRT", {"a": a, "b": b})
    assert np.array_equal(y, np.tile(b, (3, 1, 1, 1)))


def test_scatter_nd(tmp_path: pathlib.Path) -> None:
    data, at, updates = numbers(4, 3), np.array([[2], [0]], np.int32), numbers(2, 3)
    wanted = data.copy()
    wanted[[2, 0]] = updates
    node_type = "ScatterND"  # in ONNX's own domain it is the operator
    assert np.array_equal(plugin(tmp_path, node_type, {"data": data, "at": at, "updates": updates})[0], wanted)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_scatter_elements(tmp_path: pathlib.Path, reduction: str, version: str) -> None:
    data, updates = numbers(3, 5), numbers(3, 4)
    at = np.stack([RNG.choice(5, 4) for _ in range(3)]).astype(np.int64)
    inputs = {"data": data, "at": at, "updates": updates}
    (y,) = plugin(tmp_path, "ScatterElements", inputs, version=version, axis=1, reduction=reduction)
    wanted = data.astype(np.float64)
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    function.at(wanted, (np.arange(3)[:, None], at), updates)
    near(y, wanted, 1e-6)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(tmp_path: pathlib.Path, axis: int, largest: int) -> None:
    x = numbers(6, 7)
    values, at = plugin(tmp_path, "TopkLastDim", {"x": x}, 2, type_id=0, k=3, is_largest=largest, axis=axis)
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(3), axis)
    assert at.dtype == np.int32
    assert np.array_equal(at, order)
    assert np.array_equal(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("version", ["1", "2"])
def test_reorg(tmp_path: pathlib.Path, version: str) -> None:
    """As Darknet: element (c, h, w) of the input's own shape is that of an image of C / 4 channels, 2 H and 2 W."""
    x = numbers(2, 8, 6, 4)
    (y,) = plugin(tmp_path, "Reorg_TRT", {"x": x}, version=version, dynamic=False, stride=2)
    image, wanted = x.reshape(2, 2, 12, 8), np.empty_like(x)
    for n, c, h, w in np.ndindex(wanted.shape):
        offset, channel = divmod(c, 2)
        wanted[n, c, h, w] = image[n, channel, 2 * h + offset // 2, 2 * w + offset % 2]
    assert np.array_equal(y, wanted.reshape(2, 32, 3, 2))


def test_reorg_of_too_few_channels(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match="3 channels"):
        plugin(tmp_path, "Reorg_TRT", {"x": numbers(2, 3, 6, 4)}, dynamic=False, stride=2)


@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
def test_resize_nearest(tmp_path: pathlib.Path, scale: float) -> None:
    x = numbers(1, 2, 6, 4)
    (y,) = plugin(tmp_path, "ResizeNearest_TRT", {"x": x}, scale=scale)
    rows, columns = (np.floor(np.arange(int(n * scale)) / scale).astype(int) for n in (6, 4))
    assert np.array_equal(y, x[:, :, rows][:, :, :, columns])


def test_flatten_concat(tmp_path: pathlib.Path) -> None:
    a, b = numbers(2, 3, 2, 2), numbers(2, 1, 4, 1)
    (y,) = plugin(tmp_path, "FlattenConcat_TRT", {"a": a, "b": b}, axis=1, ignoreBatch=0)
    assert np.array_equal(y, np.concatenate([a.reshape(2, -1), b.reshape(2, -1)], 1)[:, :, None, None])
