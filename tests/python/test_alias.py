"""python -m carnot.alias runs scripts that import tensorrt and CUDA's modules, unchanged."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from carnot import alias
from onnx import helper

pytestmark = pytest.mark.skipif(alias.has_driver(), reason="a CUDA driver is present: the stand-ins are not used")

# What introductory samples have in common, in their own words.
COMMON = """
import ctypes
import numpy as np
import tensorrt as trt
from cuda.bindings import driver as cuda, runtime as cudart

def check_cuda_err(err):
    if isinstance(err, cuda.CUresult):
        if err != cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError("Cuda Error: {}".format(err))
    elif isinstance(err, cudart.cudaError_t):
        if err != cudart.cudaError_t.cudaSuccess:
            raise RuntimeError("Cuda Runtime Error: {}".format(err))
    else:
        raise RuntimeError("Unknown error type: {}".format(err))

def cuda_call(call):
    err, res = call[0], call[1:]
    check_cuda_err(err)
    return res[0] if len(res) == 1 else res

class HostDeviceMem:
    def __init__(self, size, dtype):
        nbytes = size * np.dtype(dtype).itemsize
        host_mem = cuda_call(cudart.cudaMallocHost(nbytes))
        pointer_type = ctypes.POINTER(np.ctypeslib.as_ctypes_type(np.dtype(dtype)))
        self.host = np.ctypeslib.as_array(ctypes.cast(host_mem, pointer_type), (size,))
        self.device = cuda_call(cudart.cudaMalloc(nbytes))
        self.nbytes = nbytes

    def free(self):
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host.ctypes.data))

def allocate_buffers(engine):
    inputs, outputs, bindings = [], [], []
    stream = cuda_call(cudart.cudaStreamCreate())
    for name in [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]:
        memory = HostDeviceMem(trt.volume(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
        bindings.append(int(memory.device))
        (inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else outputs).append(memory)
    return inputs, outputs, bindings, stream

def do_inference(context, engine, bindings, inputs, outputs, stream):
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    [cuda_call(cudart.cudaMemcpyAsync(inp.device, inp.host, inp.nbytes, kind, stream)) for inp in inputs]
    for i in range(engine.num_io_tensors):
        context.set_tensor_address(engine.get_tensor_name(i), bindings[i])
    context.execute_async_v3(stream_handle=stream)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    [cuda_call(cudart.cudaMemcpyAsync(out.host, out.device, out.nbytes, kind, stream)) for out in outputs]
    cuda_call(cudart.cudaStreamSynchronize(stream))
    return [out.host for out in outputs]
"""
SAMPLE = (
    COMMON
    + """
import sys
TRT_LOGGER = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(TRT_LOGGER)
network = builder.create_network(0)
config = builder.create_builder_config()
parser = trt.OnnxParser(network, TRT_LOGGER)
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
with open(sys.argv[1], "rb") as model:
    if not parser.parse(model.read()):
        for error in range(parser.num_errors):
            print(parser.get_error(error))
        sys.exit(1)
engine_bytes = builder.build_serialized_network(network, config)
engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(engine_bytes)
inputs, outputs, bindings, stream = allocate_buffers(engine)
context = engine.create_execution_context()
np.copyto(inputs[0].host, np.load(sys.argv[2]).ravel())
np.save(sys.argv[3], do_inference(context, engine, bindings, inputs, outputs, stream)[0])
[memory.free() for memory in inputs + outputs]
cuda_call(cudart.cudaStreamDestroy(stream))
"""
)
PYCUDA = """
import sys
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
import tensorrt as trt
logger = trt.Logger(trt.Logger.WARNING)
with trt.Builder(logger) as builder, builder.create_network(1) as network, trt.OnnxParser(network, logger) as parser:
    with open(sys.argv[1], "rb") as model:
        assert parser.parse(model.read())
    engine = builder.build_engine(network, builder.create_builder_config())
host_in = cuda.pagelocked_empty(trt.volume(engine.get_binding_shape(0)), dtype=np.float32)
host_out = cuda.pagelocked_empty(trt.volume(engine.get_binding_shape(1)), dtype=np.float32)
d_in, d_out, stream = cuda.mem_alloc(host_in.nbytes), cuda.mem_alloc(host_out.nbytes), cuda.Stream()
np.copyto(host_in, np.load(sys.argv[2]).ravel())
with engine.create_execution_context() as context:
    cuda.memcpy_htod_async(d_in, host_in, stream)
    context.execute_async_v2(bindings=[int(d_in), int(d_out)], stream_handle=stream.handle)
    cuda.memcpy_dtoh_async(host_out, d_out, stream)
    stream.synchronize()
np.save(sys.argv[3], host_out)
"""
CTYPES = """
import ctypes, os, importlib.metadata
import tensorrt, tensorrt.plugin
from cuda import cudart
assert importlib.metadata.version("tensorrt") == tensorrt.__version__
folder = os.environ["LD_LIBRARY_PATH"].split(os.pathsep)[0]
lib = ctypes.CDLL(os.path.join(folder, "libcudart.so"))
place, stream, back = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_float * 3)()
assert lib.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(12)) == 0 and lib.cudaStreamCreate(ctypes.byref(stream)) == 0
assert lib.cudaMemcpyAsync(place, (ctypes.c_float * 3)(1, 2, 3), ctypes.c_size_t(12), 1, stream) == 0
assert lib.cudaMemcpy(back, place, ctypes.c_size_t(12), 2) == 0 and list(back) == [1, 2, 3]
assert lib.cudaMemcpy(None, place, ctypes.c_size_t(12), 2) == 1
assert lib.cudaFree(place) == 0 and lib.cudaStreamDestroy(stream) == 0
assert cudart.cudaLaunchKernel()[0] == cudart.cudaError_t.cudaErrorNotSupported
print("fine")
"""


def run(script, *arguments):
    package = pathlib.Path(alias.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "carnot.alias", str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize(
    "script",
    [
        SAMPLE,
        PYCUDA,
        SAMPLE.replace("from cuda.bindings import driver as cuda, runtime as cudart", "from cuda import cuda, cudart"),
    ],
)
def test_samples(script, tmp_path):
    weights = np.random.default_rng(1).standard_normal((3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_tensor_value_info("y", 1, [2, 3])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    x = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "sample.py").write_text(script)
    done = run(tmp_path / "sample.py", tmp_path / "m.onnx", tmp_path / "x.npy", tmp_path / "y.npy")
    assert done.returncode == 0, done.stderr
    wanted = np.maximum(x.astype(np.float64) @ weights, 0)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy").reshape(2, 3), wanted, rtol=1e-5, atol=1e-6)


def test_libcudart_and_metadata(tmp_path):
    (tmp_path / "script.py").write_text(CTYPES)
    done = run(tmp_path / "script.py")
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_modules_and_commands(tmp_path):
    (tmp_path / "mine.py").write_text("import sys, tensorrt\nprint(tensorrt.Builder.__module__, sys.argv[1:])")
    package = pathlib.Path(alias.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(tmp_path)])}
    for arguments in (["-m", "mine", "a"], ["-c", "import mine", "a"]):
        done = subprocess.run(
            [sys.executable, "-m", "carnot.alias", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0 and done.stdout == "carnot.engine.builder ['a']\n", done.stderr
    done = run("-m", "no_such_module")
    assert done.returncode == 1 and "no_such_module" in done.stderr


def test_polygraphy(model):
    """One of tests/polygraphy, for every change."""
    pytest.importorskip("polygraphy", reason="polygraphy is not installed")
    done = run("-m", "polygraphy", "run", model("ultraface_rfb_320.onnx"), "--trt", "--onnxrt")
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
