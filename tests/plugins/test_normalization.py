"""Built-in normalization plugins: group, instance, L2."""

import pathlib

import numpy as np
import pytest
from harness import plugin, refusal
from reference import by_channel, near, normalized, numbers


@pytest.mark.parametrize("shape", [(2, 6, 5), (3, 6, 4, 5), (2, 6, 3, 2, 4), (1, 6, 1, 1)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(tmp_path: pathlib.Path, shape: tuple, groups: int) -> None:
    x, scale, bias = numbers(*shape) * 3 + 1000, numbers(6), numbers(6)
    (y,) = plugin(
        tmp_path, "GroupNormalizationPlugin", {"x": x, "scale": scale, "bias": bias}, eps=1e-3, num_groups=groups
    )
    grouped = normalized(x.reshape(shape[0], groups, -1), (2,), 1e-3).reshape(shape)
    near(y, grouped * by_channel(scale, len(shape)) + by_channel(bias, len(shape)), 3e-4)


def test_group_norm_of_large_halves(tmp_path: pathlib.Path) -> None:
    x = (65000 + 100 * numbers(1, 4, 8, 8)).astype(np.float16)
    one, zero = np.ones(4, np.float16), np.zeros(4, np.float16)
    (y,) = plugin(tmp_path, "GroupNormalizationPlugin", {"x": x, "scale": one, "bias": zero}, num_groups=2)
    assert y.dtype == np.float16
    near(y, normalized(x.reshape(1, 2, -1), (2,), 1e-5).reshape(x.shape), 2e-3)


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (1, 3, 2, 3, 4)])
def test_instance_norm(tmp_path: pathlib.Path, version: str, shape: tuple) -> None:
    x, scale, bias = numbers(*shape), numbers(3), numbers(3)
    fields = {"epsilon": 1e-3, "scales": scale, "bias": bias, "relu": 1, "alpha": 0.25}
    (y,) = plugin(tmp_path, "InstanceNormalization_TRT", {"x": x}, version=version, **fields)
    wanted = normalized(x, tuple(range(2, len(shape))), 1e-3)
    wanted = wanted * by_channel(scale, len(shape)) + by_channel(bias, len(shape))
    near(y, np.where(wanted < 0, 0.25 * wanted, wanted))


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("shared", [0, 1])
def test_normalize(tmp_path: pathlib.Path, across: int, shared: int) -> None:
    x = numbers(2, 5, 3, 4)
    weights = numbers(1 if shared else 5)
    fields = {
        "weights": weights,
        "acrossSpatial": across,
        "channelShared": shared,
        "nbWeights": len(weights),
        "eps": 1e-6,
    }
    (y,) = plugin(tmp_path, "Normalize_TRT", {"x": x}, **fields)
    wide = x.astype(np.float64)
    norm = np.sqrt((wide**2).sum((1, 2, 3) if across else 1, keepdims=True) + 1e-6)
    near(y, wide / norm * by_channel(weights, 4))


def test_kernels_take_halves(tmp_path: pathlib.Path) -> None:
    x = numbers(1, 2, 5, 5).astype(np.float16)
    (y,) = plugin(tmp_path, "CoordConvAC", {"x": x})
    assert y.dtype == np.float16
    assert np.array_equal(y[:, :2], x)
    near(y[0, 3], np.broadcast_to(np.linspace(-1, 1, 5), (5, 5)), 1e-3)


def test_fields_out_of_range_are_told(tmp_path: pathlib.Path) -> None:
    said = refusal(
        tmp_path,
        "GroupNormalizationPlugin",
        {"x": numbers(1, 4, 3), "s": numbers(4), "b": numbers(4)},
        num_groups=2**40,
    )
    assert "num_groups" in said
    assert "INT32" in said


def test_group_that_does_not_divide(tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(1, 4, 3), "s": numbers(4), "b": numbers(4)}
    said = refusal(tmp_path, "GroupNormalizationPlugin", inputs, num_groups=0)
    assert "GroupNormalizationPlugin" in said
    assert "num_groups is 0" in said
