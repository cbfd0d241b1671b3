"""Dimensions, permutations, data types, host memory."""

import gc

import carnot as trt
import numpy as np
import pytest


def test_dims():
    d = trt.Dims((1, 3, 224, 224))
    assert d == (1, 3, 224, 224) and d == [1, 3, 224, 224] and d != (1, 3) and len(d) == 4
    assert d[-1] == 224 and d[1:3] == (3, 224) and tuple(d) == (1, 3, 224, 224) and 3 in d
    d[0], d[2:4] = -1, (8, 9)
    assert d == (-1, 3, 8, 9) and str(d) == "(-1, 3, 8, 9)" and trt.volume(d[1:]) == 216
    assert trt.Dims.MAX_DIMS == 8 and trt.DimsHW(2, 5).h == 2 and trt.DimsHW((2, 5)).w == 5
    assert trt.Dims2(1, 2) == (1, 2) and trt.Dims3(1, 2, 3) == (1, 2, 3) and len(trt.Dims4()) == 4
    assert np.zeros(trt.Dims((2, 3))).shape == (2, 3) and trt.Permutation([1, 0])[0] == 1
    with pytest.raises(ValueError):
        trt.Dims(range(9))
    with pytest.raises(ValueError):
        trt.Dims3(1, 2)
    with pytest.raises(IndexError):
        d[4]


def test_types():
    assert trt.nptype(trt.int64) is np.int64 and trt.DataType.FP8.itemsize == 1 and trt.DataType.INT4.itemsize == 0.5
    for lacking in (trt.bfloat16, trt.fp8, trt.int4, trt.fp4, trt.e8m0):
        with pytest.raises(TypeError):
            trt.nptype(lacking)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights = trt.Weights(array)
    assert len(weights) == weights.size == 6 and weights.nbytes == 24 and weights.dtype == trt.float32
    assert np.shares_memory(weights.numpy(), array) and trt.Weights().size == 0
    borrowed = trt.Weights(trt.float32, array.ctypes.data, 6)
    assert np.shares_memory(borrowed.numpy(), array)
    with pytest.raises(ValueError):
        trt.Weights(array.T)


def test_host_memory(net):
    x = net.network.add_input("x", trt.float32, (-1, 3))
    y = net.network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    memory = net.builder.build_serialized_network(net.network, net.config)
    assert isinstance(memory, trt.IHostMemory) and memory and len(bytes(memory)) == memory.nbytes == len(memory)
    view = memoryview(memory)
    assert view.nbytes == memory.nbytes and memory.dtype == trt.int8
    held = np.frombuffer(memory, np.uint8)
    copy = bytes(memory)
    del memory, view
    gc.collect()
    assert bytes(held) == copy
    engine = trt.Runtime(net.logger).deserialize_cuda_engine(copy)
    # Without a profile all sizes are allowed; the reported shapes are finite.
    low, opt, high = engine.get_tensor_profile_shape("x", 0)
    assert low[1] == opt[1] == high[1] == 3 and 1 <= opt[0] <= high[0]
    assert engine.get_tensor_mode("nobody") == trt.TensorIOMode.NONE and "nobody" in net.logger.errors()[-1]
    context = engine.create_execution_context()
    assert not context.execute_async_v3(0) and "x" in net.logger.errors()[-1]
    assert not context.set_input_shape("x", (1, 4)) and not context.set_tensor_address("z", 0)
    assert context.set_input_shape("x", (5, 3)) and context.get_tensor_shape("y") == (5, 3)
    assert context.get_tensor_strides("y") == (3, 1) and context.get_max_output_size("y") == 60
    with pytest.raises(IndexError):
        engine.get_binding_name(9)


def test_dims_and_permutations():
    for kind in (trt.Dims, trt.Permutation):
        d = kind((3, 1, 2))
        assert len(d) == 3 and d[0] == 3 and d[-1] == 2 and d[1:] == (1, 2) and d == (3, 1, 2) and d == [3, 1, 2]
        d[0] = 7
        assert str(d) == repr(d) == "(7, 1, 2)" and d != (3, 1, 2)
        with pytest.raises(IndexError):
            d[3]
    with pytest.raises(ValueError):
        trt.Dims([1] * 9)
    assert trt.DimsHW(3, 4).h == 3 and trt.DimsHW((3, 4)).w == 4
    assert len(trt.Weights(np.zeros((2, 3), np.float32))) == 6
    exprs = trt.DimsExprs(2)
    exprs[0] = 4
    assert len(exprs) == 2 and exprs[0] == 4 and exprs[1] is None
    with pytest.raises(TypeError):
        exprs[1] = "a"
    syms = trt.ISymExprs(1)
    syms[0] = trt.ISymExpr()
    assert len(syms) == syms.nbSymExprs == 1 and syms[0].dtype == trt.PluginArgDataType.INT32
    assert syms[0].type == trt.PluginArgType.INT and syms[0].expr is None
    params = trt.KernelLaunchParams()
    assert (params.grid_x, params.grid_y, params.grid_z, params.block_x, params.block_y, params.block_z) == (1,) * 6
    fields = trt.FieldCollection([trt.FieldMap("a", 3, trt.FieldType.INT32)])
    assert fields.num_fields == 1 and fields.fields[0].length == 1
    assert trt.PluginFieldCollection_([trt.PluginField("a")]).__len__() == 1
    assert trt.PluginFieldCollection_([trt.PluginField("a")]).__getitem__(0).name == "a"
    assert isinstance(trt.DynamicPluginTensorDesc().desc, trt.PluginTensorDesc)
    with pytest.raises(RuntimeError, match="live only"):
        trt.IExprBuilder().constant(3)
    assert isinstance(trt.IDimensionExpr, type) and isinstance(trt.get_plugin_registry(), trt.IPluginRegistry)
    desc = trt.DynamicPluginTensorDesc()
    desc.min, desc.max = (1, 2), (3, 4)
    assert desc.max == (3, 4) and desc.opt == () and desc.desc.scale == 0.0
    assert trt.DataType.FLOAT.itemsize == 4 and trt.DataType.INT4.itemsize == 0.5
