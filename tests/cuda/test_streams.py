"""Runs in the caller's streams: enqueue, graph capture, several contexts at once, changing shapes, memory.

Tensors and streams are PyTorch's, the reference is ONNX Runtime. test_first_result reports, for models in float16, the
time to the first result and the device memory, by built-in kernels only and as built (pytest -rP shows it).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from typing import Any, Iterator

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import Device, relative_l2
from net import Net
from runtime import Context, Runtime

HIDDEN, LENGTH = 96, 40
LIMIT = 2e-3  # relative L2 in float16
MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", pathlib.Path.home() / ".cache/carnot-models"))
TIMED = [MODELS / f"{name}.onnx" for name in ("resnet50", "bert_base")]
BUILT_IN = {"CARNOT_CUDA_TACTICS": "-cuda_conv_cudnn,cuda_gemm_cublaslt"}  # no tactic that calls a library
TYPES = {"tensor(int64)": "int64", "tensor(float)": "float32"}


def network() -> onnx.ModelProto:
    """GEMM, layer norm, softmax and convolutions, with a dynamic batch."""
    net = Net(x=["batch", LENGTH, HIDDEN])
    y = net.add("Add", net.add("MatMul", "x", net.weight(HIDDEN, HIDDEN, scale=HIDDEN**-0.5)), net.weight(HIDDEN))
    y = net.add("LayerNormalization", net.add("Add", y, "x"), net.weight(HIDDEN), net.weight(HIDDEN), axis=-1)
    y = net.add("Mul", y, net.add("Softmax", y, axis=1))
    y = net.add("Reshape", y, net.constant(np.array([0, 8, LENGTH // 8, HIDDEN])))
    y = net.add("Relu", net.add("Conv", y, net.weight(16, 8, 3, 3, scale=72**-0.5), net.weight(16), pads=[1] * 4))
    return net.model(net.add("Conv", y, net.weight(8, 16, 1, 1, scale=0.25)))


class Bench:
    """One engine, a context and a stream, with inputs and references for any batch."""

    def __init__(self, device: Device, torch: Any, folder: pathlib.Path) -> None:
        self.torch, self.rng, self.device = torch, np.random.default_rng(3), device
        torch.zeros(1, device="cuda")  # creates the primary context, which is shared
        self.library = str(pathlib.Path(device.command[-1]).resolve().parents[1] / "lib/libcarnot_runtime.so")
        self.runtime = Runtime(self.library)
        path, self.plan = folder / "net.onnx", folder / "net.plan"
        onnx.save(network(), path)
        self.session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.output = self.session.get_outputs()[0].name
        shapes = [f"--{k}Shapes=x:{b}x{LENGTH}x{HIDDEN}" for k, b in (("min", 1), ("opt", 4), ("max", 9))]
        done = device.run("build", path, "--output", self.plan, "--backend=cuda", "--fp16", *shapes)
        assert done.returncode == 0, done.stderr
        x, y, wanted = self.data(4)
        torch.cuda.synchronize()
        start = time.perf_counter()
        self.engine = self.runtime.load(str(self.plan))
        self.context, self.stream = Context(self.runtime, self.engine), torch.cuda.Stream()
        self.run(x, y)
        self.first_ms, self.first_error = (time.perf_counter() - start) * 1e3, self.error(y, wanted)

    def data(self, batch: int) -> tuple[Any, Any, np.ndarray]:
        """Input and unwritten output on the device, and the reference."""
        x = self.rng.standard_normal((batch, LENGTH, HIDDEN)).astype(np.float32)
        wanted = self.session.run(None, {"x": x})[0]
        return self.torch.from_numpy(x).cuda(), self.torch.full(wanted.shape, np.nan, device="cuda"), wanted

    def run(self, x: Any, y: Any) -> None:
        self.context.bind(x, y, self.output)
        self.context.enqueue(self.stream)
        self.stream.synchronize()

    @staticmethod
    def error(y: Any, wanted: np.ndarray) -> float:
        return relative_l2(y.cpu().numpy(), wanted)

    def close(self) -> None:
        self.runtime.lib.carnot_context_destroy(self.context.handle)
        self.runtime.lib.carnot_engine_release(self.engine)


@pytest.fixture(scope="module")
def bench(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if device.is_stand_in or not torch.cuda.is_available():
        pytest.skip("PyTorch has no device")
    made = Bench(device, torch, tmp_path_factory.mktemp("streams"))
    yield made
    made.close()


def test_enqueue(bench: Bench) -> None:
    print(f"relative L2 {bench.first_error:.1e}; first result {bench.first_ms:.0f} ms after the load began")
    assert bench.first_error < LIMIT


@pytest.mark.parametrize("batch", [1, 9, 2, 4, 9])
def test_batches_in_one_context(bench: Bench, batch: int) -> None:
    x, y, wanted = bench.data(batch)
    bench.torch.cuda.synchronize()
    bench.run(x, y)
    assert bench.error(y, wanted) < LIMIT


@pytest.fixture(scope="module")
def repeated(bench: Bench) -> tuple[bool, int]:
    """50 runs: whether all gave the same bits, and the device memory that they took."""
    x, y, _ = bench.data(5)
    bench.torch.cuda.synchronize()
    bench.run(x, y)
    before, bits, same = bench.torch.cuda.mem_get_info()[0], y.clone(), True
    for _ in range(50):
        y.fill_(np.nan)
        bench.torch.cuda.synchronize()
        bench.context.enqueue(bench.stream)
        bench.stream.synchronize()
        same = same and bench.torch.equal(y, bits)
    return same, before - bench.torch.cuda.mem_get_info()[0]


def test_equal_bits_in_50_runs(repeated: tuple[bool, int]) -> None:
    assert repeated[0]


def test_runs_take_no_device_memory(repeated: tuple[bool, int]) -> None:
    assert repeated[1] == 0, f"{repeated[1]} bytes"


def test_captured_into_the_callers_graph(bench: Bench) -> None:
    torch = bench.torch
    x, y, _ = bench.data(5)
    torch.cuda.synchronize()
    bench.run(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=bench.stream):
        bench.context.enqueue(torch.cuda.current_stream())
    other, _, wanted = bench.data(5)
    x.copy_(other)
    y.fill_(np.nan)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert bench.error(y, wanted) < LIMIT


def test_three_contexts_in_three_streams(bench: Bench) -> None:
    torch, sets = bench.torch, []
    for batch in (3, 7, 3):
        x, y, wanted = bench.data(batch)
        context = Context(bench.runtime, bench.engine)
        context.bind(x, y, bench.output)
        sets.append((context, torch.cuda.Stream(), x, y, wanted))
    torch.cuda.synchronize()
    for _ in range(30):
        for context, own, *_ in sets:
            context.enqueue(own)
    torch.cuda.synchronize()
    worst = max(bench.error(y, wanted) for *_, y, wanted in sets)
    for context, *_ in sets:
        bench.runtime.lib.carnot_context_destroy(context.handle)
    assert worst < LIMIT


@pytest.mark.parametrize("kernels", ["built-in kernels", "as built"])
@pytest.mark.parametrize("model", [path for path in TIMED if path.exists()], ids=lambda path: path.stem)
def test_first_result(bench: Bench, model: pathlib.Path, kernels: str, tmp_path: pathlib.Path) -> None:
    inputs = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()
    open_dims = {"sequence": 128}
    dims = {v.name: "x".join(str(d if isinstance(d, int) else open_dims.get(d, 1)) for d in v.shape) for v in inputs}
    plan, shapes = tmp_path / "net.plan", ",".join(f"{n}:{d}" for n, d in dims.items())
    flags = ("--output", plan, "--backend=cuda", "--fp16", f"--shapes={shapes}")
    environment = BUILT_IN if kernels == "built-in kernels" else {}
    done = bench.device.run("build", model, *flags, timeout=None, **environment)
    assert done.returncode == 0, done.stderr
    script = pathlib.Path(__file__).with_name("first_result.py")
    given = [f"{v.name}:{TYPES[v.type]}:{dims[v.name]}" for v in inputs]
    told = subprocess.run(
        [sys.executable, script, bench.library, plan, *given], capture_output=True, text=True, check=False
    )
    print(f"{model.stem}, {kernels}: {told.stdout.strip()}")
    assert told.returncode == 0, told.stderr[-600:]
