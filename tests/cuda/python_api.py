#!/usr/bin/env python3
"""The Python API on a GPU, with PyTorch's tensors and streams: what a script for TensorRT does, NumPy arrays, and
torch.compile. Oracles: ONNX Runtime and eager PyTorch. Skipped where PyTorch has no device or cffi is missing.

Usage: python_api.py      (carnot on the Python path)
"""
import contextlib
import io
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from fused_rows import Net

HIDDEN = 96
failed = []


def report(name: str, good: bool, text: object = "") -> None:
    print(f"{'passed' if good else 'FAILED'} {name}{': ' * bool(str(text))}{text}", flush=True)
    failed.extend([name] * (not good))


def off(found, wanted) -> float:
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)) if found.shape == wanted.shape else np.inf


def network() -> onnx.ModelProto:
    net = Net(x=["batch", HIDDEN])
    y = net.add("Relu", net.add("Gemm", "x", net.weight(HIDDEN, 4 * HIDDEN, scale=HIDDEN**-0.5), net.weight(4 * HIDDEN)))
    y = net.add("Gemm", y, net.weight(4 * HIDDEN, HIDDEN, scale=HIDDEN**-0.5), net.weight(HIDDEN))
    return net.model(net.add("LayerNormalization", net.add("Add", y, "x"), net.weight(HIDDEN), net.weight(HIDDEN), axis=-1))


def oracle(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def as_script_for_tensorrt(trt, torch) -> None:
    model, logger = network(), trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    definition = builder.create_network(0)
    parser = trt.OnnxParser(definition, logger)
    assert parser.parse(model.SerializeToString())
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.REFIT)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, HIDDEN), (64, HIDDEN), (256, HIDDEN))
    config.add_optimization_profile(profile)
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(definition, config))
    report("the builder takes the GPU", engine.device.startswith("cuda"), engine.device)
    context = engine.create_execution_context()
    output = model.graph.output[0].name
    rng = np.random.default_rng(3)
    for batch in 64, 3, 256:
        host = rng.standard_normal((batch, HIDDEN)).astype(np.float32)
        wanted, stream = oracle(model, host), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x, source = torch.zeros(batch, HIDDEN, device="cuda"), torch.from_numpy(host).cuda()
            y = torch.empty(batch, HIDDEN, device="cuda")
            torch.cuda._sleep(20_000_000)  # the input is not there yet when the run is put into the stream
            x.copy_(source)
            context.set_input_shape("x", (batch, HIDDEN))
            context.set_tensor_address("x", x.data_ptr())
            context.set_tensor_address(output, y.data_ptr())
            assert context.execute_async_v3(stream.cuda_stream)
            early, found = not stream.query() or batch == 64, y.clone()  # the first run takes memory, which waits
        stream.synchronize()
        error = off(found.cpu(), wanted)
        report(f"execute_async_v3 of batch {batch} behind the stream's work", error < 2e-3 and early, f"relative L2 {error:.1e}")
    x = torch.from_numpy(host).cuda()
    torch.cuda._sleep(20_000_000)
    x.mul_(2)
    assert context.execute_v2([x.data_ptr(), y.data_ptr()])
    error = off(y.cpu(), oracle(model, 2 * host))
    report("execute_v2 behind the default stream", error < 2e-3, f"relative L2 {error:.1e}")

    class Times(trt.IProfiler):
        def __init__(self) -> None:
            super().__init__()
            self.found = {}

        def report_layer_time(self, name: str, ms: float) -> None:
            self.found[name] = ms

    times = context.profiler = Times()
    assert context.execute_v2([x.data_ptr(), y.data_ptr()])
    context.profiler = None
    layers = [layer["Name"] for layer in engine._info()["Layers"]]
    report("the profiler names the layers", set(times.found) <= set(layers) and sum(times.found.values()) > 0, len(times.found))

    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    refitter = trt.Refitter(engine, logger)
    with torch.no_grad():
        for name, w in weights.items():
            if w.ndim == 2:
                assert refitter.set_named_weights(name, trt.Weights(np.ascontiguousarray(w * np.float32(0.5))))
    assert refitter.refit_cuda_engine()
    for t in model.graph.initializer:
        if weights[t.name].ndim == 2:
            t.CopyFrom(onnx.numpy_helper.from_array(weights[t.name] * np.float32(0.5), t.name))
    assert context.execute_v2([x.data_ptr(), y.data_ptr()])
    error = off(y.cpu(), oracle(model, 2 * host))
    report("refit", error < 2e-3, f"relative L2 {error:.1e}")

    other, errors = engine.create_execution_context(), io.StringIO()
    other.set_input_shape("x", host.shape)
    other.set_tensor_address("x", host.ctypes.data)
    other.set_tensor_address(output, y.data_ptr())
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
        refused = not other.execute_async_v3(0)
    report("a host address is refused", refused and "device memory" in errors.getvalue(), errors.getvalue().strip()[:100])


def sizes_by_values(trt, torch) -> None:
    """NonZero runs on the processor between two layers on the GPU; its size is known when it has run."""
    net = Net(x=["rows", HIDDEN])
    model = net.model(net.add("NonZero", net.add("Relu", "x")))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(trt.build(model.SerializeToString()))

    class Memory(trt.IOutputAllocator):
        def reallocate_output_async(self, name, memory, size, alignment, stream):
            self.tensor = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
            return self.tensor.data_ptr()

        def notify_shape(self, name, dims):
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
    report("an output allocator on the GPU", np.array_equal(found, wanted), memory.shape)


def arrays(carnot) -> None:
    model, host = network(), np.random.default_rng(7).standard_normal((5, HIDDEN)).astype(np.float32)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        found = carnot.load(file.name)
        error = off(next(iter(found(host).values())), oracle(model, host))
        report("NumPy arrays in and out", error < 1e-5 and found.engine.device.startswith("cuda"), f"relative L2 {error:.1e}")


def compiled(torch) -> None:
    import carnot.torch as frontend

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator of PyTorch's own, which its exporter does not know
    layer = torch.nn.TransformerEncoderLayer(HIDDEN, 4, 4 * HIDDEN, batch_first=True)
    models = {"a transformer layer": (layer, (4, 40, HIDDEN)),
              "convolutions": (torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                                                   torch.nn.Conv2d(16, 8, 1)), (2, 3, 20, 20))}
    for name, (model, shape) in models.items():
        model, x = model.eval().cuda(), torch.randn(shape, device="cuda")
        for options, limit in ({}, 1e-4), ({"fp16": True}, 3e-3):
            torch._dynamo.reset(), frontend.reset()
            with torch.inference_mode():
                wanted = model(x)
                run = torch.compile(model, backend=frontend.backend, options=options)
                found = run(x)
                torch.cuda._sleep(20_000_000)
                again = run(x * 1.0)
            error = max(off(found.cpu(), wanted.cpu()), off(again.cpu(), wanted.cpu()))
            on_gpu = [e.engine.device for r in frontend.reports for e in r.engines]
            good = error < limit and found.is_cuda and on_gpu and all(d.startswith("cuda") for d in on_gpu)
            report(f"torch.compile of {name} {options or ''}", bool(good), f"relative L2 {error:.1e}, {frontend.reports}")


def main() -> int:
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch has no device")
        import carnot
    except ImportError as error:
        print(f"skipped: {error}")
        return 0
    for part in (lambda: as_script_for_tensorrt(carnot, torch), lambda: sizes_by_values(carnot, torch), lambda: arrays(carnot),
                 lambda: compiled(torch)):
        try:
            part()
        except Exception as error:  # the others are told too
            report("a part", False, repr(error)[:600])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
