"""Buffers and runs, as the samples share them: pairs of host and device memory, one stream."""

import ctypes

import numpy as np
import tensorrt as trt
from cuda import cuda, cudart


def cuda_call(call):
    err, res = call[0], call[1:]
    if isinstance(err, cuda.CUresult) and err != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError("Cuda Error: {}".format(err))
    if isinstance(err, cudart.cudaError_t) and err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError("Cuda Runtime Error: {}".format(err))
    return res[0] if len(res) == 1 else res


def GiB(val):
    return val * 1 << 30


class HostDeviceMem:
    """Host memory as an array, and device memory of its size."""

    def __init__(self, size, dtype):
        nbytes = size * dtype.itemsize
        host_mem = cuda_call(cudart.cudaMallocHost(nbytes))
        pointer_type = ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype))
        self._host = np.ctypeslib.as_array(ctypes.cast(host_mem, pointer_type), (size,))
        self.device = cuda_call(cudart.cudaMalloc(nbytes))
        self.nbytes = nbytes

    @property
    def host(self):
        return self._host

    @host.setter
    def host(self, data):
        if data.size > self.host.size:
            raise ValueError(f"an array of {data.size} elements for memory of {self.host.size}")
        np.copyto(self.host[: data.size], data.flat, casting="safe")

    def free(self):
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host.ctypes.data))


def allocate_buffers(engine, profile_idx=None):
    inputs, outputs, bindings = [], [], []
    stream = cuda_call(cudart.cudaStreamCreate())
    for name in [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]:
        if profile_idx is None:
            shape = engine.get_tensor_shape(name)
        else:
            shape = engine.get_tensor_profile_shape(name, profile_idx)[-1]
        if not np.all([s >= 0 for s in shape]):
            raise ValueError(f"{name} has a dynamic shape, and no profile was given")
        mem = HostDeviceMem(trt.volume(shape), np.dtype(trt.nptype(engine.get_tensor_dtype(name))))
        bindings.append(int(mem.device))
        (inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else outputs).append(mem)
    return inputs, outputs, bindings, stream


def free_buffers(inputs, outputs, stream):
    for mem in inputs + outputs:
        mem.free()
    cuda_call(cudart.cudaStreamDestroy(stream))


def do_inference(context, engine, bindings, inputs, outputs, stream):
    for i in range(engine.num_io_tensors):
        context.set_tensor_address(engine.get_tensor_name(i), bindings[i])
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    [cuda_call(cudart.cudaMemcpyAsync(inp.device, inp.host, inp.nbytes, kind, stream)) for inp in inputs]
    context.execute_async_v3(stream_handle=stream)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    [cuda_call(cudart.cudaMemcpyAsync(out.host, out.device, out.nbytes, kind, stream)) for out in outputs]
    cuda_call(cudart.cudaStreamSynchronize(stream))
    return [out.host for out in outputs]
