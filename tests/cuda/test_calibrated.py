"""INT8 by calibration on a GPU: ranges allow 8 bits, and the time of a run decides. Reference: the CPU's engine."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from harness import Device, is_stand_in, relative_l2
from net import Net

INT8, FLOAT = "cuda_gemm_int8_64x64_16", "cuda_gemm_multistage_64x64"
INT8_FASTER, INT8_SLOWER = (f"gemm_multistage_64x64=9:9,gemm_int8_64x64_16={us}:{us}" for us in (2, 90))
SHAPE = (2, 64, 9, 9)
only_stand_in = pytest.mark.skipif(not is_stand_in(), reason="times are dictated to the stand-in driver")

only_gpu = pytest.mark.skipif(is_stand_in(), reason="the stand-in driver has no pooling")


def network() -> onnx.ModelProto:
    net = Net(x=list(SHAPE))
    y = net.add("Relu", net.add("Conv", "x", net.weight(64, 64, 1, 1, scale=1 / 8), net.weight(64)))
    z = net.add("Conv", y, net.weight(64, 64, 3, 3, scale=1 / 24), net.weight(64), pads=[1] * 4)
    y = net.add("Relu", net.add("Add", z, y))
    return net.model(net.add("Conv", y, net.weight(64, 64, 1, 1, scale=1 / 8), net.weight(64)))


def bottleneck() -> onnx.ModelProto:
    """Max pooling, a branch with a convolution of its own, addition, mean, GEMM."""
    net = Net(x=list(SHAPE))
    y = net.add("Relu", net.add("Conv", "x", net.weight(32, 64, 1, 1, scale=1 / 8), net.weight(32)))
    x = net.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = net.add("Relu", net.add("Conv", x, net.weight(32, 32, 3, 3, scale=1 / 17), net.weight(32), pads=[1] * 4))
    y = net.add("Conv", y, net.weight(64, 32, 1, 1, scale=1 / 6), net.weight(64))
    z = net.add("Conv", x, net.weight(64, 32, 1, 1, scale=1 / 6), net.weight(64))
    y = net.add("Flatten", net.add("GlobalAveragePool", net.add("Relu", net.add("Add", y, z))))
    return net.model(net.add("Gemm", y, net.weight(32, 64), net.weight(32), transB=1))


class Builder:
    def __init__(self, device: Device, folder: pathlib.Path) -> None:
        if device.why_absent():
            pytest.skip(device.why_absent())
        self.device, self.folder, self.model = device, folder, folder / "net.onnx"
        self.x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
        onnx.save(network(), self.model)
        (folder / "data").mkdir()
        np.save(folder / "data" / "x.npy", self.x)
        np.save(folder / "x.npy", self.x)

    def run(self, *arguments: object, times: str = INT8_FASTER) -> tuple[str, str]:
        """Standard output and standard error."""
        chosen = {"CARNOT_CUDA_TACTICS": f"{INT8},{FLOAT},copies", "CARNOT_FAKE_TIMES": times}
        chosen = chosen if is_stand_in() and times else {}
        done = self.device.run(*arguments, **chosen)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    def build(self, backend: str, *flags: str, times: str = INT8_FASTER) -> tuple[pathlib.Path, str]:
        """The engine, and what the build logs."""
        plan = self.folder / f"{backend}.plan"
        given = ("--int8", f"--calibData={self.folder / 'data'}", f"--backend={backend}", "--verbose", *flags)
        out, error = self.run("build", self.model, f"--output={plan}", *given, times=times)
        return plan, out + error

    def result(self, path: pathlib.Path, backend: str) -> np.ndarray:
        folder = self.folder / f"out_{path.name}"
        self.run("run", path, f"--input=x={self.folder / 'x.npy'}", f"--output-dir={folder}", f"--backend={backend}")
        return np.load(next(folder.iterdir()))

    def tactics(self, plan: pathlib.Path) -> list[str]:
        layers = json.loads(self.run("inspect", plan, "--json")[0])["Layers"]
        return [layer["TacticName"] for layer in layers]


@pytest.fixture
def builder(device: Device, tmp_path: pathlib.Path) -> Builder:
    return Builder(device, tmp_path)


def count(tactics: list[str], word: str) -> int:
    return sum(word in tactic for tactic in tactics)


@pytest.mark.parametrize("flags", [(), ("--fp16",)])
def test_level_0_quantizes_and_computes_what_the_cpu_does(builder: Builder, flags: tuple[str, ...]) -> None:
    plan, log = builder.build("cuda", "--builderOptimizationLevel=0", *flags)
    assert count(builder.tactics(plan), "int8") == 3 and "without:" not in log, builder.tactics(plan)
    got, cpu = builder.result(plan, "cuda"), builder.result(builder.build("cpu")[0], "cpu")
    assert relative_l2(got, cpu) < 2e-3
    assert relative_l2(got, builder.result(builder.model, "cpu")) < 0.02


def test_bytes_flow_between_layers(builder: Builder) -> None:
    """Of an engine for an absent device, whose data run on the CPU."""
    onnx.save(bottleneck(), builder.model)
    plan, _ = builder.build("cuda:sm_80", "--builderOptimizationLevel=0", "--fp16", times="")
    tactics = builder.tactics(plan)
    assert count(tactics, "int8") == 5 and "cuda_mean_bytes" in tactics, tactics
    assert count(tactics, "pointwise") <= 1 and count(tactics, "cudnn") == 0, tactics


@only_gpu
def test_pooling_and_means_of_bytes_compute_what_the_cpu_does(builder: Builder) -> None:
    onnx.save(bottleneck(), builder.model)
    plan, _ = builder.build("cuda", "--builderOptimizationLevel=0", "--fp16")
    got, cpu = builder.result(plan, "cuda"), builder.result(builder.build("cpu")[0], "cpu")
    assert relative_l2(got, cpu) < 2e-3
    assert relative_l2(got, builder.result(builder.model, "cpu")) < 0.03


@only_stand_in
def test_ranges_are_used_where_the_run_is_faster(builder: Builder) -> None:
    plan, log = builder.build("cuda", "--fp16")
    assert count(builder.tactics(plan), "int8") == 3, builder.tactics(plan)
    assert "us without: layers are quantized" in log


@only_stand_in
def test_ranges_are_not_used_where_the_run_is_slower(builder: Builder) -> None:
    plan, log = builder.build("cuda", "--fp16", times=INT8_SLOWER)
    assert not count(builder.tactics(plan), "int8") and "us without: they are not used" in log


@only_stand_in
def test_a_layer_that_was_asked_for_int8_is_quantized(builder: Builder) -> None:
    given = ("--fp16", "--precisionConstraints=obey", "--layerPrecisions=node_of_v[025]:int8")
    plan, _ = builder.build("cuda", *given, times=INT8_SLOWER)
    assert count(builder.tactics(plan), "int8") == 3, builder.tactics(plan)


@only_stand_in
def test_the_timing_cache_decides_a_second_build(builder: Builder) -> None:
    given = ("--fp16", f"--timingCacheFile={builder.folder / 'times'}")
    first = builder.build("cuda", *given)[0].read_bytes()
    assert builder.build("cuda", *given, times=INT8_SLOWER)[0].read_bytes() == first


def test_the_run_decides(builder: Builder) -> None:
    plan, log = builder.build("cuda", "--fp16")
    assert ("layers are quantized" in log) == (count(builder.tactics(plan), "int8") > 0)
    assert relative_l2(builder.result(plan, "cuda"), builder.result(builder.model, "cpu")) < 0.02
