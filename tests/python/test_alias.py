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


# A library of the process that has the names of the real libcudart, as a CUDA build of PyTorch brings.
OTHER_CUDART = """
#define F(name) int name() { return 35; }
F(cudaFree) F(cudaMemset) F(cudaStreamSynchronize) F(cudaFreeHost)
"""
BESIDE_ANOTHER = """
import ctypes, os, sys
other = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
import tensorrt
files = (os.path.join(folder, "libcudart.so") for folder in os.environ["LD_LIBRARY_PATH"].split(os.pathsep))
lib = ctypes.CDLL(next(file for file in files if os.path.exists(file)))
stream, memory = ctypes.c_void_p(), ctypes.c_void_p()
assert lib.cudaStreamCreate(ctypes.byref(stream)) == 0 and lib.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4)) == 0
assert lib.cudaStreamQuery(stream) == 0 and lib.cudaMemsetAsync(memory, 0, ctypes.c_size_t(4), stream) == 0
assert lib.cudaStreamDestroy(stream) == 0 and lib.cudaFreeAsync(memory, None) == 0
print("fine")
"""


def test_stand_in_calls_itself_beside_a_real_libcudart(tmp_path):
    """The stand-in's calls of its own functions stay inside it (-Bsymbolic)."""
    (tmp_path / "other.c").write_text(OTHER_CUDART)
    compiler = os.environ.get("CC", "cc").split()
    other = tmp_path / "libother.so"
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    (tmp_path / "script.py").write_text(BESIDE_ANOTHER)
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(alias.__file__).parents[2]), "LD_PRELOAD": str(other)}
    done = subprocess.run(
        [sys.executable, "-m", "carnot.alias", tmp_path / "script.py", other],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


CUDA_NAMES = """
import ctypes
import numpy as np
from cuda.bindings import driver as cuda, runtime as cudart, nvrtc
ok = cudart.cudaError_t.cudaSuccess

major = cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0)
assert major == (ok, 0)
assert cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal.value == 0

properties = cudart.cudaMemPoolProps()
properties.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
properties.handleTypes = cudart.cudaMemAllocationHandleType.cudaMemHandleTypeNone
properties.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
properties.location.id = 0
error, pool = cudart.cudaMemPoolCreate(properties)
assert error == ok
threshold = cuda.cuuint64_t(1 << 30)
assert cudart.cudaMemPoolSetAttribute(pool, cudart.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold, threshold) == (ok,)
error, memory = cudart.cudaMallocFromPoolAsync(16, pool, 0)
assert error == ok and memory
assert cudart.cudaMemsetAsync(memory, 7, 16, 0) == (ok,)
assert list(np.ctypeslib.as_array(ctypes.cast(memory, ctypes.POINTER(ctypes.c_ubyte)), (16,))) == [7] * 16
assert cudart.cudaFreeAsync(memory, 0) == (ok,) and cudart.cudaMemPoolDestroy(pool) == (ok,)
assert cudart.cudaMallocFromPoolAsync(16, None, 0)[0] == cudart.cudaError_t.cudaErrorInvalidValue

error, program = nvrtc.nvrtcCreateProgram(b"__global__ void f() {}", b"f.cu", 0, [], [])
assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
error = nvrtc.nvrtcCompileProgram(program, 0, [])[0]
assert error == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION
assert nvrtc.nvrtcGetErrorString(error) == (nvrtc.nvrtcResult.NVRTC_SUCCESS, b"NVRTC_ERROR_COMPILATION")
log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
nvrtc.nvrtcGetProgramLog(program, log)
assert bytes(log) == b"there is no CUDA device: kernels cannot be compiled"
import tensorrt.plugin as trtp
assert len(trtp.SymExprs(2)) == 2
print("fine")
"""
NVINFER = """
import ctypes, ctypes.util, os, subprocess, sys
import tensorrt as trt
for name in ("nvinfer", "nvinfer_plugin", "nvinfer_lean", "nvinfer_dispatch", "nvonnxparser"):
    ctypes.CDLL(f"lib{name}.so")
assert ctypes.CDLL("libnvinfer_plugin.so").initLibNvInferPlugins(None, b"")
assert ctypes.CDLL("libnvinfer.so").getInferLibVersion() == 100300
child = "import ctypes; print(ctypes.CDLL('libnvinfer.so').getInferLibVersion())"
assert subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout == "100300\\n"
lean = next(os.path.join(f, "libnvinfer_lean.so") for f in os.environ["LD_LIBRARY_PATH"].split(os.pathsep)
            if os.path.exists(os.path.join(f, "libnvinfer_lean.so")))
runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
assert isinstance(runtime.load_runtime(lean), trt.Runtime)
print("fine")
"""


@pytest.mark.parametrize("script", [CUDA_NAMES, NVINFER], ids=["cuda", "nvinfer"])
def test_names_and_libraries_that_scripts_open(script, tmp_path):
    (tmp_path / "script.py").write_text(script)
    done = run(tmp_path / "script.py")
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_installed_for_child_processes(tmp_path):
    """--install makes `import tensorrt` work in any process of an environment, until --uninstall."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True, env=environment)
    python = tmp_path / "v" / "bin" / "python"
    site = next((tmp_path / "v" / "lib").iterdir()) / "site-packages"
    (site / "packages.pth").write_text(f"{pathlib.Path(np.__file__).parents[1]}\n")

    def call(*words, **more):
        return subprocess.run(
            [python, *words], capture_output=True, text=True, check=False, env={**environment, **more}
        )

    package = str(pathlib.Path(alias.__file__).parents[2])
    script = (
        "import importlib.metadata as m, importlib.util as u, sys\n"
        "assert 'numpy' not in sys.modules, 'the hook imports at the start'\n"
        "assert m.version('tensorrt') and u.find_spec('tensorrt')\n"
        "import tensorrt as trt, tensorrt.plugin, carnot, cuda.bindings.runtime, pycuda.driver, uff\n"
        "assert trt is carnot and carnot.__spec__.name == 'carnot'\n"
        "print(trt.Builder.__module__)"
    )
    done = call("-m", "carnot.alias", "--install", PYTHONPATH=package)
    assert done.returncode == 0 and done.stdout.count("wrote") == 2, done.stderr
    done = call("-c", script)
    assert done.returncode == 0 and done.stdout == "carnot.engine.builder\n", done.stderr
    assert call("-c", "from tensorrt import Builder").returncode == 0
    assert call("-m", "carnot.alias", "--uninstall").stdout.count("removed") == 2
    assert "No module named 'tensorrt'" in call("-c", "import tensorrt").stderr
    done = call("-m", "carnot.alias", "--uninstall", PYTHONPATH=package)
    assert "is not installed" in done.stdout
    assert "takes no argument" in call("-m", "carnot.alias", "--install", "x", PYTHONPATH=package).stderr
