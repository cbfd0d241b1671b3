"""End-to-end tuning by the stand-in driver's clock (CARNOT_FAKE_TIMES).

Two tiles of a convolution are close when timed alone; which of them makes the whole engine faster depends on the
kernel that runs before.
"""

import json
import pathlib

import numpy as np
import onnx
import pytest
from harness import Device, relative_l2
from net import Net

TILES = ["cuda_gemm_multistage_64x64", "cuda_gemm_multistage_64x32"]  # the first is the faster alone
ALONE = "gemm_multistage_64x64=2:2,gemm_multistage_64x32=2.2:2.2"
BEHIND = "gemm_multistage_64x64=2:5,gemm_multistage_64x32=2.2:2.2"


# The first shares the depth of a 3x3 window over the blocks of a cluster, the second has no clusters.
WITH_CLUSTERS = ["cuda_gemm_multistage_64x64", "cuda_gemm_tma_64x64"]
BEHIND_WITH_CLUSTERS = "gemm_multistage_64x64=2:5,gemm_tma_64x64=2.2:2.2"


def network(scale: float = 1 / 8, kernel: int = 1) -> onnx.ModelProto:
    net = Net(x=[1, 64, 7, 7])
    y = "x"
    for _ in range(3):
        y = net.add("Conv", y, net.weight(64, 64, kernel, kernel, scale=scale), net.weight(64), pads=[kernel // 2] * 4)
        y = net.add("GroupNormalization", y, net.weight(64), net.weight(64), num_groups=8)
    return net.model(y)


class Builder:
    """Builds the network with dictated kernel times, and reads the engine."""

    def __init__(self, device: Device, folder: pathlib.Path) -> None:
        self.device, self.folder, self.tiles = device, folder, TILES
        self.model, self.cache, self.plan = folder / "net.onnx", folder / "times", folder / "net.plan"
        onnx.save(network(), self.model)

    def run(self, *arguments: object, times: str = ALONE) -> str:
        tactics = ",".join([*self.tiles, "cuda_group_norm"])
        done = self.device.run(*arguments, CARNOT_FAKE_TIMES=times, CARNOT_CUDA_TACTICS=tactics)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def build(self, times: str, *flags: str, cached: bool = False) -> bytes:
        """The engine's bytes, with a new timing cache unless |cached|."""
        if not cached:
            self.cache.unlink(missing_ok=True)
        given = ("--backend=cuda", "--fp16", f"--timingCacheFile={self.cache}", *flags)
        self.run("build", self.model, "--output", self.plan, *given, times=times)
        return self.plan.read_bytes()

    def tactics(self) -> list[str]:
        """Of the convolutions in the last engine."""
        layers = json.loads(self.run("inspect", self.plan, "--json"))["Layers"]
        return [layer["TacticName"] for layer in layers if layer["TacticName"] in self.tiles]


@pytest.fixture
def builder(stand_in: Device, tmp_path: pathlib.Path) -> Builder:
    return Builder(stand_in, tmp_path)


def test_slower_in_the_engine_is_refused(builder: Builder) -> None:
    builder.build(ALONE)
    assert builder.tactics() == [TILES[0]] * 3


@pytest.mark.parametrize("scale, told", [(1e4, True), (1 / 8, False)])
def test_values_beyond_float16_are_told(builder: Builder, scale: float, told: bool) -> None:
    onnx.save(network(scale), builder.model)
    flags = ("build", builder.model, "--output", builder.plan, "--backend=cuda", "--fp16")
    tactics = ",".join([*TILES, "cuda_group_norm"])
    done = builder.device.run(*flags, CARNOT_FAKE_TIMES=ALONE, CARNOT_CUDA_TACTICS=tactics)
    assert done.returncode == 0 and ("not finite" in done.stderr) == told, done.stderr


def test_level_2_times_no_engine(builder: Builder) -> None:
    builder.build(BEHIND, "--builderOptimizationLevel=2")
    assert builder.tactics() == [TILES[0]] * 3


def test_faster_in_the_engine_is_taken_by_equal_layers_together(builder: Builder) -> None:
    builder.build(BEHIND)
    assert builder.tactics() == [TILES[1]] * 3


def test_a_kernel_without_clusters_takes_the_place_of_one_with_them(builder: Builder) -> None:
    """The graph is recorded anew: an update would leave the clusters of the old kernel to the new one."""
    builder.tiles = WITH_CLUSTERS
    onnx.save(network(1 / 24, 3), builder.model)
    builder.build(BEHIND_WITH_CLUSTERS)
    assert builder.tactics()[1:] == [WITH_CLUSTERS[1]] * 2  # the first has another kernel before it


def test_the_inspector_tells_why(builder: Builder) -> None:
    builder.build(BEHIND)
    assert builder.run("inspect", builder.plan, "--why").count("but the whole run is faster") == 3


def test_the_engine_computes(builder: Builder) -> None:
    """Against the float32 model on the CPU."""
    builder.build(BEHIND)
    x, results = builder.folder / "x.npy", []
    np.save(x, np.random.default_rng(1).standard_normal((1, 64, 7, 7)).astype(np.float32))
    output = builder.folder / f"{network().graph.output[0].name}.npy"
    for path, backend in ((builder.plan, "cuda"), (builder.model, "cpu")):
        builder.run("run", path, f"--input=x={x}", f"--output-dir={builder.folder}", f"--backend={backend}")
        results.append(np.load(output))
    assert relative_l2(*results) < 2e-3


def test_the_timing_cache_decides_a_second_build(builder: Builder) -> None:
    first = builder.build(BEHIND)
    assert builder.build(ALONE, cached=True) == first


def test_a_second_build_times_nothing(builder: Builder) -> None:
    builder.build(BEHIND)
    times = builder.cache.read_bytes()
    builder.build(ALONE, cached=True)
    assert builder.cache.read_bytes() == times
