#!/usr/bin/env python3
"""The builder's descent over the whole run, by the stand-in driver's clock (CARNOT_FAKE_TIMES).

A convolution's two tiles are close alone; which of them serves the run follows from what stands before it there.
Usage: descent.py CARNOT
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from fused_rows import Net

ROWS = ["cuda_tile_64x64", "cuda_tile_64x32"]  # the first is the faster alone
ALONE = "gemm_multistage_64x64=2:2,gemm_multistage_64x32=2.2:2.2"
BEHIND = "gemm_multistage_64x64=2:5,gemm_multistage_64x32=2.2:2.2"


def network() -> onnx.ModelProto:
    net = Net(x=[1, 64, 7, 7])
    y = "x"
    for _ in range(3):
        y = net.add("Conv", y, net.weight(64, 64, 1, 1, scale=1 / 8), net.weight(64))
        y = net.add("GroupNormalization", y, net.weight(64), net.weight(64), num_groups=8)
    return net.model(y)


class Builder:
    def __init__(self, carnot: str, folder: pathlib.Path) -> None:
        self.carnot, self.folder = carnot, folder
        self.model, self.cache = folder / "net.onnx", folder / "times"
        onnx.save(network(), self.model)

    def run(self, *arguments: str, times: str) -> str:
        environment = {**os.environ, "CARNOT_FAKE_TIMES": times, "CARNOT_CUDA_ROWS": ",".join(ROWS + ["cuda_group_norm"])}
        done = subprocess.run([self.carnot, *map(str, arguments)], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def build(self, times: str, *flags: str, cached: bool = False) -> bytes:
        """The engine's bytes, with a new timing cache unless |cached|."""
        if not cached:
            self.cache.unlink(missing_ok=True)
        path = self.folder / "net.plan"
        self.run("build", self.model, "--output", path, "--backend=cuda", "--fp16", f"--timingCacheFile={self.cache}",
                 *flags, times=times)
        return path.read_bytes()

    def tactics(self) -> list[str]:
        """Of the convolutions in the engine that was built last."""
        layers = json.loads(self.run("inspect", self.folder / "net.plan", "--json", times=ALONE))["Layers"]
        return [layer["TacticName"] for layer in layers if layer["TacticName"] in ROWS]

    def why(self) -> str:
        return self.run("inspect", self.folder / "net.plan", "--why", times=ALONE)

    def difference(self) -> float:
        """Relative L2 of the engine's result to the model's on the processor in float32."""
        results = []
        x = self.folder / "x.npy"
        np.save(x, np.random.default_rng(1).standard_normal((1, 64, 7, 7)).astype(np.float32))
        for path, device in ((self.folder / "net.plan", "cuda"), (self.model, "cpu")):
            self.run("run", path, f"--input=x={x}", f"--output-dir={self.folder}", f"--backend={device}", times=ALONE)
            results.append(np.load(self.folder / f"{onnx.load(self.model).graph.output[0].name}.npy").astype(np.float64))
        return float(np.linalg.norm(results[0] - results[1]) / np.linalg.norm(results[1]))


def main() -> int:
    good = True

    def check(name: str, found: object, wanted: object) -> None:
        nonlocal good
        good &= found == wanted
        print(f"passed {name}" if found == wanted else f"FAILED {name}: {found}, must be {wanted}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        b = Builder(sys.argv[1], pathlib.Path(folder))
        b.build(ALONE)
        check("what is slower in the run too is refused", b.tactics(), [ROWS[0]] * 3)
        b.build(BEHIND, "--builderOptimizationLevel=2")
        check("level 2 looks at no run", b.tactics(), [ROWS[0]] * 3)
        first = b.build(BEHIND)
        check("what is faster in the run is taken, by equal layers together", b.tactics(), [ROWS[1]] * 3)
        check("the inspector tells why", b.why().count("but the whole run is faster"), 3)
        check("the engine computes", b.difference() < 2e-3, True)
        times = b.cache.read_bytes()
        check("the timing cache decides a second build", b.build(ALONE, cached=True) == first, True)
        check("which times nothing", b.cache.read_bytes() == times, True)
    return not good


if __name__ == "__main__":
    sys.exit(main())
