"""Random numbers by their distribution, and operators of text."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, Type, constant, node, placeholder, write
from harness import run

COUNT = 200_000
I32 = Type("i4")


def draw(folder: pathlib.Path, *nodes: bytes) -> np.ndarray:
    size = placeholder("size", (1,), "i4")
    return run(write(folder, size, *nodes), {"size": np.array([COUNT], "i4")}, folder / "run")["y"]


def distance(sample: np.ndarray, cumulative: np.ndarray) -> float:
    """The largest distance of the distributions (Kolmogorov-Smirnov); |cumulative|: at the sorted sample."""
    steps = np.arange(1, len(sample) + 1) / len(sample)
    return float(np.abs(steps - cumulative).max())


def normal(x: np.ndarray) -> np.ndarray:
    """The normal distribution function, summed up over a fine grid."""
    grid = np.linspace(-8, 8, 160_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    return np.interp(x, grid, np.cumsum(density) * (grid[1] - grid[0]))


def test_truncated_normal(tmp_path: pathlib.Path) -> None:
    y = np.sort(draw(tmp_path, node("y", "TruncatedNormal", "size", dtype=F32, T=I32)).astype("f8"))
    assert y.shape == (COUNT,) and y[0] >= -2 and y[-1] <= 2
    low, high = normal(np.array([-2, 2]))
    assert distance(y, (normal(y) - low) / (high - low)) < 0.006


def test_uniform_and_normal(tmp_path: pathlib.Path) -> None:
    y = np.sort(draw(tmp_path, node("y", "RandomUniform", "size", dtype=F32, T=I32)).astype("f8"))
    assert y[0] >= 0 and y[-1] < 1 and distance(y, y) < 0.006
    (tmp_path / "normal").mkdir()
    y = np.sort(draw(tmp_path / "normal", node("y", "RandomStandardNormal", "size", dtype=F32, T=I32)).astype("f8"))
    assert distance(y, normal(y)) < 0.006


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_integers(tmp_path: pathlib.Path, dtype: str) -> None:
    limits = [constant("low", -3, dtype), constant("high", 4, dtype)]
    y = draw(tmp_path, *limits, node("y", "RandomUniformInt", "size", "low", "high", T=I32, Tout=Type(dtype)))
    values, counts = np.unique(y, return_counts=True)
    assert y.dtype == dtype and values.tolist() == list(range(-3, 4))
    assert np.abs(counts / COUNT - 1 / 7).max() < 0.006


@pytest.mark.parametrize("separator", ["", ", "])
def test_join(tmp_path: pathlib.Path, separator: str) -> None:
    """Joined texts are keys of a match."""
    words = np.array([b"one", b"", b"two"])
    nodes = [
        placeholder("x", ()),
        constant("words", words, "S"),
        constant("end", np.array(b"end"), "S"),
        node("joined", "StringJoin", "words", "end", "words", N=3, separator=separator),
        node("matches", "StaticRegexFullMatch", "joined", pattern=f"(one|){separator}end{separator}(one|)"),
        node("number", "Cast", "matches", SrcT=Type("bool"), DstT=F32),
        node("y", "Mul", "number", "x", T=F32),
    ]
    got = run(write(tmp_path, *nodes), {"x": np.float32(3)}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], [3, 3, 0])
