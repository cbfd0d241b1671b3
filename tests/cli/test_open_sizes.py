"""Engines without a profile: tactics for several sizes of what is open, and right at every size."""

import pathlib

import numpy as np
import pytest
from harness import passes
from small_net import Net, layers, run_plan

RNG = np.random.default_rng(36)


def build(folder: pathlib.Path, dims: list) -> tuple:
    """A stack of two matrix multiplications, x of |dims| open dimensions and 256 channels; the plan, the function."""
    net = Net()
    a, b = (RNG.standard_normal(shape).astype(np.float32) / 16 for shape in ((256, 512), (512, 256)))
    y = net.add("MatMul", net.add("Relu", net.add("MatMul", "x", net.constant(a))), net.constant(b))
    model = net.save(folder / "open.onnx", y, x=[*dims, 256])
    passes("build", model, f"--output={folder / 'open.plan'}", "--threads=1")
    return folder / "open.plan", lambda x: np.maximum(x.astype(np.float64) @ a, 0) @ b


@pytest.mark.parametrize("dims", [["rows"], ["batch", "sequence"]])
def test_every_size(dims: list, tmp_path: pathlib.Path) -> None:
    plan, exact = build(tmp_path, dims)
    for size in ([1, 1], [1, 3], [2, 5], [3, 40], [16, 128]):
        x = RNG.standard_normal((*(size if len(dims) == 2 else [size[0] * size[1]]), 256)).astype(np.float32)
        want = exact(x)
        assert np.abs(run_plan(plan, tmp_path, x=x) - want).max() < 1e-5 * np.abs(want).max(), size


@pytest.mark.parametrize(("dims", "dimension"), [(["rows"], 0), (["batch", "sequence"], -1)])
def test_inspect_names_the_tactics_of_sizes(dims: list, dimension: int, tmp_path: pathlib.Path) -> None:
    plan, _ = build(tmp_path, dims)
    variants = [v for layer in layers(plan) for v in layer.get("Variants", [])]
    if not variants:
        pytest.skip("on this machine one tactic was the fastest at every size")
    assert all(v["Dimension"] == dimension and v["Min"] <= v["Max"] for v in variants), variants
    text = passes("inspect", plan)
    for v in variants:
        assert f"{v['TacticName']} where {v['Input']} has " in text
    assert text.count(" elements\n" if dimension < 0 else " in dimension 0\n") == len(variants)
