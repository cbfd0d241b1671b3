"""The Python API on a GPU with PyTorch's tensors and streams: TensorRT scripts, NumPy arrays, torch.compile.

References: ONNX Runtime and eager PyTorch. Skipped where PyTorch has no device or carnot cannot be imported.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import Device, relative_l2
from net import Net

HIDDEN = 96
LIMIT = 2e-3  # relative L2 in float16
DELAY_CYCLES = 20_000_000  # of work in a stream before the engine's


def network() -> onnx.ModelProto:
    """A feed-forward block with a residual and a layer norm, and a dynamic batch."""
    net = Net(x=["batch", HIDDEN])
    inner = 4 * HIDDEN
    y = net.add("Relu", net.add("Gemm", "x", net.weight(HIDDEN, inner, scale=HIDDEN**-0.5), net.weight(inner)))
    y = net.add("Gemm", y, net.weight(inner, HIDDEN, scale=HIDDEN**-0.5), net.weight(HIDDEN))
    y = net.add("LayerNormalization", net.add("Add", y, "x"), net.weight(HIDDEN), net.weight(HIDDEN), axis=-1)
    return net.model(y)


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.fixture(scope="module")
def torch(device: Device) -> Any:
    module = pytest.importorskip("torch", reason="PyTorch is not installed")
    if device.is_stand_in or not module.cuda.is_available():
        pytest.skip("PyTorch has no device")
    return module


@pytest.fixture(scope="module")
def trt(torch: Any) -> Any:
    try:
        import carnot
    except ImportError as error:
        pytest.skip(f"carnot cannot be imported: {error}")
    return carnot


class Script:
    """What a script for TensorRT makes: an engine in float16 with a profile and refit, and a context."""

    def __init__(self, trt: Any, torch: Any) -> None:
        self.trt, self.torch, self.model = trt, torch, network()
        self.logger = trt.Logger(trt.Logger.ERROR)
        builder = trt.Builder(self.logger)
        definition = builder.create_network(0)
        assert trt.OnnxParser(definition, self.logger).parse(self.model.SerializeToString())
        config = builder.create_builder_config()
        config.set_flag(trt.BuilderFlag.FP16)
        config.set_flag(trt.BuilderFlag.REFIT)
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, HIDDEN), (64, HIDDEN), (256, HIDDEN))
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(definition, config)
        self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.output = self.model.graph.output[0].name
        self.rng = np.random.default_rng(3)
        self.is_first = True

    def tensors(self, batch: int = 256) -> tuple[np.ndarray, Any, Any]:
        """An input on the host and on the device, bound with an output of the device."""
        host = self.rng.standard_normal((batch, HIDDEN)).astype(np.float32)
        x, y = self.torch.from_numpy(host).cuda(), self.torch.empty(batch, HIDDEN, device="cuda")
        self.bind(x, y)
        return host, x, y

    def bind(self, x: Any, y: Any) -> None:
        self.context.set_input_shape("x", tuple(x.shape))
        self.context.set_tensor_address("x", x.data_ptr())
        self.context.set_tensor_address(self.output, y.data_ptr())


@pytest.fixture(scope="module")
def script(trt: Any, torch: Any) -> Script:
    return Script(trt, torch)


def test_the_builder_takes_the_gpu(script: Script) -> None:
    assert script.engine.device.startswith("cuda"), script.engine.device


@pytest.mark.parametrize("batch", [64, 3, 256])
def test_execute_async_v3_behind_the_work_of_the_stream(script: Script, batch: int) -> None:
    torch, stream = script.torch, script.torch.cuda.Stream()
    host = script.rng.standard_normal((batch, HIDDEN)).astype(np.float32)
    with torch.cuda.stream(stream):
        x, source = torch.zeros(batch, HIDDEN, device="cuda"), torch.from_numpy(host).cuda()
        y = torch.empty(batch, HIDDEN, device="cuda")
        torch.cuda._sleep(DELAY_CYCLES)  # the input is written after the run is enqueued
        x.copy_(source)
        script.bind(x, y)
        assert script.context.execute_async_v3(stream.cuda_stream)
        # The first run allocates memory, which waits for the device.
        returned_early, found = not stream.query() or script.is_first, y.clone()
    stream.synchronize()
    script.is_first = False
    assert relative_l2(found.cpu().numpy(), reference(script.model, host)) < LIMIT and returned_early


def test_execute_v2_behind_the_default_stream(script: Script) -> None:
    host, x, y = script.tensors()
    script.torch.cuda._sleep(DELAY_CYCLES)
    x.mul_(2)
    assert script.context.execute_v2([x.data_ptr(), y.data_ptr()])
    assert relative_l2(y.cpu().numpy(), reference(script.model, 2 * host)) < LIMIT


def test_the_profiler_names_the_layers(script: Script) -> None:
    class Times(script.trt.IProfiler):
        def __init__(self) -> None:
            super().__init__()
            self.found: dict[str, float] = {}

        def report_layer_time(self, name: str, ms: float) -> None:
            self.found[name] = ms

    _, x, y = script.tensors()
    times = script.context.profiler = Times()
    assert script.context.execute_v2([x.data_ptr(), y.data_ptr()])
    script.context.profiler = None
    layers = [layer["Name"] for layer in script.engine._info()["Layers"]]
    assert set(times.found) <= set(layers) and sum(times.found.values()) > 0, times.found


def test_refit(script: Script) -> None:
    """Halves the matrices of the engine and of the reference; later tests use the new weights."""
    refitter = script.trt.Refitter(script.engine, script.logger)
    for tensor in script.model.graph.initializer:
        weight = onnx.numpy_helper.to_array(tensor)
        if weight.ndim == 2:
            half = np.ascontiguousarray(weight * np.float32(0.5))
            assert refitter.set_named_weights(tensor.name, script.trt.Weights(half))
            tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))
    assert refitter.refit_cuda_engine()
    host, x, y = script.tensors()
    assert script.context.execute_v2([x.data_ptr(), y.data_ptr()])
    assert relative_l2(y.cpu().numpy(), reference(script.model, host)) < LIMIT


def test_a_host_address_is_refused(script: Script) -> None:
    host, _, y = script.tensors()
    other, errors = script.engine.create_execution_context(), io.StringIO()
    other.set_input_shape("x", host.shape)
    other.set_tensor_address("x", host.ctypes.data)
    other.set_tensor_address(script.output, y.data_ptr())
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
        refused = not other.execute_async_v3(0)
    assert refused and "device memory" in errors.getvalue(), errors.getvalue()


def test_an_output_allocator_on_the_gpu(trt: Any, torch: Any) -> None:
    """NonZero: the run determines the size of the output."""
    net = Net(x=["rows", HIDDEN])
    model = net.model(net.add("NonZero", net.add("Relu", "x")))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(trt.build(model.SerializeToString()))

    class Memory(trt.IOutputAllocator):
        def reallocate_output_async(self, name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            self.tensor = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
            return self.tensor.data_ptr()

        def notify_shape(self, name: str, dims: Any) -> None:
            self.shape = tuple(dims)

    context, memory = engine.create_execution_context(), Memory()
    host = np.random.default_rng(5).standard_normal((7, HIDDEN)).astype(np.float32)
    x, stream = torch.from_numpy(host).cuda(), torch.cuda.Stream()
    torch.cuda.synchronize()
    context.set_input_shape("x", host.shape)
    context.set_tensor_address("x", x.data_ptr())
    context.set_output_allocator(model.graph.output[0].name, memory)
    assert context.execute_async_v3(stream.cuda_stream)
    stream.synchronize()
    wanted = np.stack(np.nonzero(host > 0))
    found = memory.tensor.view(torch.int64)[: wanted.size].cpu().numpy().reshape(memory.shape)
    np.testing.assert_array_equal(found, wanted)


def test_an_output_grows_on_the_gpu(trt: Any, torch: Any) -> None:
    """An output that outgrows what its allocator gave last asks again, once a run."""
    model = network()
    name = model.graph.output[0].name
    plan = trt.build(model.SerializeToString(), shapes={"x": ((1, HIDDEN), (4, HIDDEN), (64, HIDDEN))})
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)

    class Memory(trt.IOutputAllocator):
        tensor, asked = None, 0

        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            self.asked += 1
            if self.tensor is None or self.tensor.numel() < size:
                self.tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
            return self.tensor.data_ptr()

        def notify_shape(self, name: str, dims: Any) -> None:
            self.shape = tuple(dims)

    context, memory = engine.create_execution_context(), Memory()
    context.set_output_allocator(name, memory)
    for batch in (1, 2, 64, 3):
        host = np.random.default_rng(batch).standard_normal((batch, HIDDEN)).astype(np.float32)
        x = torch.from_numpy(host).cuda()
        torch.cuda.synchronize()
        context.set_input_shape("x", host.shape)
        context.set_tensor_address("x", x.data_ptr())
        assert context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        found = memory.tensor.view(torch.float32)[: host.size].cpu().numpy().reshape(memory.shape)
        assert relative_l2(found, reference(model, host)) < LIMIT
    assert memory.asked == 4


@pytest.mark.parametrize("formats", [("HWC", "HWC"), ("CHW4", "HWC8"), ("LINEAR", "CHW32"), ("HWC16", "LINEAR")])
def test_formats_on_the_gpu(trt: Any, formats: tuple) -> None:
    """Inputs and outputs in other memory layouts, reformatted on the device."""
    net = Net(x=[2, 6, 9, 7])
    model = net.model(net.add("Relu", net.add("Conv", "x", net.weight(10, 6, 3, 3, scale=0.2), pads=[1] * 4)))
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    definition = builder.create_network(0)
    assert trt.OnnxParser(definition, logger).parse(model.SerializeToString())
    definition.get_input(0).allowed_formats = 1 << int(trt.TensorFormat[formats[0]])
    definition.get_output(0).allowed_formats = 1 << int(trt.TensorFormat[formats[1]])
    engine = builder.build_engine_with_config(definition, builder.create_builder_config())
    assert engine.device.startswith("cuda")
    assert [engine.get_tensor_format(engine.get_tensor_name(i)).name for i in range(2)] == list(formats)
    host = np.random.default_rng(1).standard_normal((2, 6, 9, 7)).astype(np.float32)
    (found,) = trt.Model(engine)(host).values()
    assert found.shape == (2, 10, 9, 7) and relative_l2(found, reference(model, host)) < LIMIT


def test_threads_share_a_model_on_the_gpu(trt: Any) -> None:
    model, hosts = (
        network(),
        [np.random.default_rng(i).standard_normal((i + 1, HIDDEN)).astype(np.float32) for i in range(8)],
    )
    wanted = [reference(model, host) for host in hosts]
    with trt.load(model.SerializeToString(), contexts=3) as net, concurrent.futures.ThreadPoolExecutor(8) as pool:
        order = [(i * 5 + i // 7) % 8 for i in range(400)]
        results = list(pool.map(lambda i: next(iter(net(hosts[i]).values())), order))
    assert all(relative_l2(found, wanted[i]) < LIMIT for i, found in zip(order, results))


def test_numpy_arrays_in_and_out(trt: Any, tmp_path: Any) -> None:
    model, host = network(), np.random.default_rng(7).standard_normal((5, HIDDEN)).astype(np.float32)
    onnx.save(model, tmp_path / "net.onnx")
    found = trt.load(tmp_path / "net.onnx")
    assert found.engine.device.startswith("cuda")
    assert relative_l2(next(iter(found(host).values())), reference(model, host)) < 1e-5


@pytest.mark.parametrize("options, limit", [({}, 1e-4), ({"fp16": True}, 3e-3)], ids=["float32", "fp16"])
@pytest.mark.parametrize("name", ["transformer layer", "convolutions"])
def test_torch_compile(trt: Any, torch: Any, name: str, options: dict, limit: float) -> None:
    import carnot.torch as frontend

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # a fused operator that torch's ONNX exporter does not know
    if name == "convolutions":
        conv, norm = torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16)
        model, shape = torch.nn.Sequential(conv, norm, torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 1)), (2, 3, 20, 20)
    else:
        model, shape = torch.nn.TransformerEncoderLayer(HIDDEN, 4, 4 * HIDDEN, batch_first=True), (4, 40, HIDDEN)
    model, x = model.eval().cuda(), torch.randn(shape, device="cuda")
    torch._dynamo.reset()
    frontend.reset()
    with torch.inference_mode():
        wanted = model(x)
        run = torch.compile(model, backend=frontend.backend, options=options)
        found = run(x)
        torch.cuda._sleep(DELAY_CYCLES)
        again = run(x * 1.0)
    error = max(relative_l2(y.cpu().numpy(), wanted.cpu().numpy()) for y in (found, again))
    devices = [engine.engine.device for report in frontend.reports for engine in report.engines]
    assert error < limit and found.is_cuda, f"relative L2 {error:.1e}, {frontend.reports}"
    assert devices and all(d.startswith("cuda") for d in devices), frontend.reports
