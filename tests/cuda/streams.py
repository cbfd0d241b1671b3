#!/usr/bin/env python3
"""Runs in the caller's streams: enqueue, capture into a graph of the caller's, several contexts at once, shapes that
change, memory. Tensors and streams are PyTorch's, the oracle is ONNX Runtime. Then, for each MODEL in float16, how soon
from a ready CUDA context the first result is there and what device memory is taken, by own kernels and as built.

Usage: streams.py CARNOT RUNTIME [MODEL ..]     (the program, libcarnot_runtime.so, ONNX files)
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from fused_rows import Net

HIDDEN, LENGTH = 96, 40


class Dims(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("d", ctypes.c_int64 * 8)]


class Info(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("is_input", ctypes.c_bool), ("is_shape", ctypes.c_bool),
                ("dtype", ctypes.c_int), ("dims", Dims), ("dim_names", ctypes.c_char_p * 8)]


class Runtime:
    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.carnot_status_message.restype = ctypes.c_char_p

    def call(self, name: str, *args: object) -> None:
        function = getattr(self.lib, name)
        function.restype = ctypes.c_void_p
        status = function(*args)
        if status:
            raise RuntimeError(f"{name}: {self.lib.carnot_status_message(ctypes.c_void_p(status)).decode()}")

    def load(self, path: str) -> ctypes.c_void_p:
        engine = ctypes.c_void_p()
        self.call("carnot_engine_load_file", path.encode(), ctypes.byref(engine))
        return engine


class Context:
    """One context whose input x and output y are PyTorch tensors."""

    def __init__(self, runtime: Runtime, engine: ctypes.c_void_p) -> None:
        self.runtime, self.handle = runtime, ctypes.c_void_p()
        runtime.call("carnot_context_create", engine, None, ctypes.byref(self.handle))

    def set(self, name: str, t, shape: bool = False) -> None:
        if shape:
            dims = Dims(t.dim(), tuple(t.shape))
            self.runtime.call("carnot_context_set_input_shape", self.handle, name.encode(), ctypes.byref(dims))
        self.runtime.call("carnot_context_set_tensor_address", self.handle, name.encode(),
                          ctypes.c_void_p(t.data_ptr()), ctypes.c_size_t(t.numel() * t.element_size()))

    def bind(self, x, y, output: str) -> None:
        self.set("x", x, shape=True)
        self.set(output, y)

    def enqueue(self, stream) -> None:
        self.runtime.call("carnot_context_enqueue", self.handle, ctypes.c_void_p(stream.cuda_stream))


# Rows that call libraries.
LIBRARIES = "-cuda_conv_cudnn,cuda_gemm_cublaslt"
TYPES = {"tensor(int64)": "int64", "tensor(float)": "float32"}


def first_result(library: str, plan: str, inputs: list[str]) -> int:
    """In a process of its own: |inputs| as in "x:float32:1x3x224x224"."""
    import torch
    tensors, free = [], torch.cuda.mem_get_info
    for text in inputs:
        name, kind, dims = text.split(":")
        tensors.append((name, torch.ones([int(d) for d in dims.split("x")], dtype=getattr(torch, kind), device="cuda")))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    before, start = free()[0], time.perf_counter()
    runtime = Runtime(library)
    engine = runtime.load(plan)
    context = Context(runtime, engine)
    for name, t in tensors:
        context.set(name, t, shape=True)
    runtime.call("carnot_context_infer_shapes", context.handle)
    for i in range(runtime.lib.carnot_engine_tensor_count(engine)):
        info = Info()
        runtime.call("carnot_engine_tensor_info", engine, i, ctypes.byref(info))
        if not info.is_input:
            dims = Dims()
            runtime.call("carnot_context_tensor_dims", context.handle, info.name, ctypes.byref(dims))
            outputs = info.name.decode(), tuple(dims.d[: dims.rank])
            y = torch.empty(outputs[1], device="cuda")
            context.set(outputs[0], y)
    context.enqueue(stream)
    stream.synchronize()
    took, taken = time.perf_counter() - start, before - free()[0]
    runtime.lib.carnot_engine_memory_bytes.restype = ctypes.c_uint64
    wanted = pathlib.Path(plan).stat().st_size + runtime.lib.carnot_engine_memory_bytes(engine)
    many = [torch.empty(outputs[1], device="cuda") for _ in range(24)]

    def host_us(tensors: list) -> float:
        start = time.perf_counter()
        for t in tensors:
            context.set(outputs[0], t)
            context.enqueue(stream)
        stream.synchronize()
        return (time.perf_counter() - start) * 1e6 / len(tensors)

    host_us(many)
    print(f"{took * 1e3:.0f} ms to the first result, {taken / 2**20:.0f} MiB of device memory; "
          f"the file and the activations of the plan {wanted / 2**20:.0f} MiB; "
          f"a run {host_us([many[0]] * 96):.0f} us, {host_us(many * 4):.0f} us when its output is a new tensor each time")
    return 0


def network() -> onnx.ModelProto:
    """Products, a norm, a softmax and a convolution, with a dynamic batch."""
    net = Net(x=["batch", LENGTH, HIDDEN])
    y = net.add("Add", net.add("MatMul", "x", net.weight(HIDDEN, HIDDEN, scale=HIDDEN**-0.5)), net.weight(HIDDEN))
    y = net.add("LayerNormalization", net.add("Add", y, "x"), net.weight(HIDDEN), net.weight(HIDDEN), axis=-1)
    y = net.add("Mul", y, net.add("Softmax", y, axis=1))
    y = net.add("Reshape", y, net.constant(np.array([0, 8, LENGTH // 8, HIDDEN])))
    y = net.add("Relu", net.add("Conv", y, net.weight(16, 8, 3, 3, scale=72**-0.5), net.weight(16), pads=[1] * 4))
    return net.model(net.add("Conv", y, net.weight(8, 16, 1, 1, scale=0.25)))


def main() -> int:
    if sys.argv[1] == "--first":
        return first_result(*sys.argv[2:4], sys.argv[4:])
    carnot, library, *models = sys.argv[1:]
    try:
        import torch
        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if not available:
        print("skipped: no PyTorch with a device")
        return 0
    torch.zeros(1, device="cuda")  # the primary context, which is shared
    runtime, rng, failed = Runtime(library), np.random.default_rng(3), []

    def report(name: str, good: bool, text: str = "") -> None:
        print(f"{'passed' if good else 'FAILED'} {name}{': ' * bool(text)}{text}")
        failed.extend([name] * (not good))

    with tempfile.TemporaryDirectory() as folder:
        path, plan = pathlib.Path(folder) / "net.onnx", f"{folder}/net.plan"
        onnx.save(network(), path)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        output = session.get_outputs()[0].name
        shapes = [f"--{k}Shapes=x:{b}x{LENGTH}x{HIDDEN}" for k, b in (("min", 1), ("opt", 4), ("max", 9))]
        subprocess.run([carnot, "build", str(path), "--output", plan, "--backend=cuda", "--fp16", *shapes], check=True,
                       capture_output=True)

        def data(batch: int) -> tuple:
            x = rng.standard_normal((batch, LENGTH, HIDDEN)).astype(np.float32)
            wanted = session.run(None, {"x": x})[0]
            return torch.from_numpy(x).cuda(), torch.full(wanted.shape, np.nan, device="cuda"), wanted

        def off(y, wanted: np.ndarray) -> float:
            return float(np.linalg.norm(y.cpu().numpy() - wanted) / np.linalg.norm(wanted))

        x, y, wanted = data(4)
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine = runtime.load(plan)
        first, stream = Context(runtime, engine), torch.cuda.Stream()
        first.bind(x, y, output)
        first.enqueue(stream)
        stream.synchronize()
        took = time.perf_counter() - start
        report("enqueue in the caller's stream", off(y, wanted) < 2e-3,
               f"relative L2 {off(y, wanted):.1e}; first result {took * 1e3:.0f} ms after the load began")

        for batch in (1, 9, 2, 4, 9):
            x, y, wanted = data(batch)
            torch.cuda.synchronize()
            first.bind(x, y, output)
            first.enqueue(stream)
            stream.synchronize()
            report(f"batch {batch} in the same context", off(y, wanted) < 2e-3, f"relative L2 {off(y, wanted):.1e}")

        x, y, wanted = data(5)
        torch.cuda.synchronize()
        first.bind(x, y, output)
        first.enqueue(stream)
        stream.synchronize()
        before, bits, same = torch.cuda.mem_get_info()[0], y.clone(), True
        for _ in range(50):
            y.fill_(np.nan)
            torch.cuda.synchronize()
            first.enqueue(stream)
            stream.synchronize()
            same = same and torch.equal(y, bits)
        report("the same bits in 50 runs", same)
        report("no memory of the device is taken by runs", torch.cuda.mem_get_info()[0] == before,
               f"{before - torch.cuda.mem_get_info()[0]} bytes")

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            first.enqueue(torch.cuda.current_stream())
        x2, _, wanted2 = data(5)
        x.copy_(x2)
        y.fill_(np.nan)
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        report("captured into the caller's graph", off(y, wanted2) < 2e-3, f"relative L2 {off(y, wanted2):.1e}")

        sets = []
        for batch in (3, 7, 3):
            x, y, wanted = data(batch)
            context = Context(runtime, engine)
            context.bind(x, y, output)
            sets.append((context, torch.cuda.Stream(), x, y, wanted))
        torch.cuda.synchronize()
        for _ in range(30):
            for context, own, *_ in sets:
                context.enqueue(own)
        torch.cuda.synchronize()
        worst = max(off(y, wanted) for *_, y, wanted in sets)
        report("three contexts in three streams", worst < 2e-3, f"relative L2 {worst:.1e}")
        for context in [first, *(s[0] for s in sets)]:
            runtime.lib.carnot_context_destroy(context.handle)
        runtime.lib.carnot_engine_release(engine)

        for model in models:
            inputs = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
            dims = {v.name: "x".join(str(d if isinstance(d, int) else {"sequence": 128}.get(d, 1)) for d in v.shape)
                    for v in inputs}
            for label, rows in (("own kernels", {"CARNOT_CUDA_ROWS": LIBRARIES}), ("as built", {})):
                subprocess.run([carnot, "build", model, "--output", plan, "--backend=cuda", "--fp16", "--shapes="
                                + ",".join(f"{n}:{d}" for n, d in dims.items())], check=True, capture_output=True,
                               env=os.environ | rows)
                done = subprocess.run([sys.executable, __file__, "--first", library, plan,
                                       *(f"{v.name}:{TYPES[v.type]}:{dims[v.name]}" for v in inputs)],
                                      capture_output=True, text=True)
                text = (done.stdout or done.stderr[-600:]).strip()
                report(f"{pathlib.Path(model).stem}, {label}", done.returncode == 0, text)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
