"""Shape inputs: tensors whose values determine shapes."""

import carnot as trt
import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import Net
from models import TRT_LOGGER, build_plan, onnx_bytes
from onnx import TensorProto, helper

rng = np.random.default_rng(11)


def by_layers(net, dtype=trt.int32):
    """A reshape whose dimensions are an input, and a slice by a computed size."""
    x = net.network.add_input("x", trt.float32, (-1, 6))
    shape = net.network.add_input("shape", dtype, (2,))
    shuffle = net.network.add_shuffle(x)
    shuffle.set_input(1, shape)
    y = net.network.add_activation(shuffle.get_output(0), trt.ActivationType.RELU).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    return x, shape


def run(engine, x, shape):
    context = engine.create_execution_context()
    assert context.set_input_shape("x", x.shape)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("shape", shape.ctypes.data)
    assert not context.infer_shapes(), "all is known"
    y = np.full(tuple(context.get_tensor_shape("y")), np.nan, np.float32)
    context.set_tensor_address("y", y.ctypes.data)
    return context, y


def profile_of(net, *shapes, values=None):
    profile = net.builder.create_optimization_profile()
    profile.set_shape("x", *shapes)
    if values:
        profile.set_shape_input("shape", *values)
        assert profile.get_shape_input("shape") == [list(v) for v in values]
    net.config.add_optimization_profile(profile)


@pytest.mark.parametrize("dtype", [trt.int32, trt.int64])
def test_reshape_by_input(logger, dtype):
    net = Net(logger)
    x_tensor, shape_tensor = by_layers(net, dtype)
    assert shape_tensor.is_shape_tensor and not shape_tensor.is_execution_tensor and not x_tensor.is_shape_tensor
    profile_of(net, (1, 6), (2, 6), (4, 6), values=([1, 1], [4, 3], [24, 24]))
    engine = net.engine()
    assert engine.is_shape_inference_io("shape") and not engine.is_shape_inference_io("x")
    assert engine.get_tensor_location("shape") == trt.TensorLocation.HOST
    assert engine.is_shape_binding(1) and engine.is_execution_binding(0)
    assert engine.get_tensor_profile_values(0, "shape") == [[1, 1], [4, 3], [24, 24]]
    assert engine.get_tensor_profile_values(0, "x") == []
    assert engine.device_memory_size < 1 << 20  # bounded by the profile
    x = rng.standard_normal((2, 6)).astype(np.float32)
    shape = np.array([4, 3], trt.nptype(dtype))
    context, y = run(engine, x, shape)
    assert context.execute_async_v3(0), logger.errors()
    np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(4, 3))
    # Other values in the same memory change the shape.
    shape[:] = [3, 4]
    assert context.get_tensor_shape("y") == (3, 4)
    assert context.execute_async_v3(0), logger.errors()
    np.testing.assert_array_equal(y.reshape(3, 4), np.maximum(x, 0).reshape(3, 4))
    # Out of the profile's bounds.
    shape[:] = [-1, 4]
    assert not context.execute_async_v3(0)
    assert "shape input shape: element 0 is -1, profile 0 allows [1, 24]" in logger.errors()[-1]
    shape[:] = [5, 3]
    assert not context.execute_async_v3(0)  # 15 elements of 12
    shape[:] = [12, 1]
    assert context.execute_async_v3(0)
    np.testing.assert_array_equal(y.reshape(12, 1), np.maximum(x, 0).reshape(12, 1))


def test_without_bounds(logger):
    """Without a profile 0 and -1 keep their meaning in a reshape, and shapes are known before the run."""
    net = Net(logger)
    by_layers(net)
    engine = net.engine()
    assert engine.is_shape_inference_io("shape") and engine.get_tensor_profile_values(0, "shape") == []
    x = rng.standard_normal((4, 6)).astype(np.float32)
    for wanted in ([8, 3], [-1, 2], [0, 6]):
        context, y = run(engine, x, np.array(wanted, np.int32))
        assert context.execute_async_v3(0), logger.errors()
        np.testing.assert_array_equal(y, np.maximum(x, 0).reshape([4 if d == 0 else d for d in wanted]))


def test_two_profiles(logger):
    net = Net(logger)
    by_layers(net)
    profile_of(net, (1, 6), (1, 6), (1, 6), values=([1, 1], [2, 3], [6, 6]))
    profile_of(net, (1, 6), (8, 6), (64, 6), values=([1, 1], [16, 3], [384, 384]))
    engine = net.engine()
    assert engine.get_tensor_profile_values(1, "shape")[2] == [384, 384]
    x = rng.standard_normal((64, 6)).astype(np.float32)
    context = engine.create_execution_context()
    context.set_optimization_profile_async(1, 0)
    shape, y = np.array([32, 12], np.int32), np.empty((32, 12), np.float32)
    context.set_input_shape("x", x.shape)
    for name, array in (("x", x), ("shape", shape), ("y", y)):
        context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0), logger.errors()
    np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(32, 12))


def test_bounds_that_do_not_fit(logger):
    net = Net(logger)
    by_layers(net)
    profile_of(net, (1, 6), (2, 6), (4, 6), values=([1], [4], [24]))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "profile 0 bounds 1 elements of input shape, which has 2" in logger.errors()[-1]
    net = Net(logger)
    net.network.mark_output(net.network.add_identity(net.network.add_input("shape", trt.int32, (2,))).get_output(0))
    assert not net.network.get_input(0).is_shape_tensor
    profile = net.builder.create_optimization_profile()
    profile.set_shape_input("shape", [1, 1], [2, 2], [3, 3])
    net.config.add_optimization_profile(profile)
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "bounds the elements of input shape, which decide no shapes" in logger.errors()[-1]


CASES = {
    # name: nodes, constants, inputs besides x [2, 3, 8]; the shape input's elements and bounds
    "expand": ([("Expand", ["x", "s"], ["y"])], {}, [4, 2, 3, 8], True),
    "tile": ([("Tile", ["x", "s"], ["y"])], {}, [2, 1, 3], True),
    "slice": ([("Slice", ["x", "s", "e", "a"], ["y"])], {"e": [2, 8], "a": [0, 2]}, [1, 3], True),
    "sizes": (
        [
            ("Concat", ["one", "s"], ["all"]),
            ("Mul", ["all", "two"], ["twice"]),
            ("Resize", ["x4", "", "", "twice"], ["y"]),
            ("Unsqueeze", ["x", "zero"], ["x4"]),
        ],
        {"one": [1], "two": [2, 2, 2, 2], "zero": [0]},
        [1, 3, 5],
        True,
    ),
    "constant_of_shape": (
        [("ConstantOfShape", ["s"], ["c"]), ("Add", ["c", "x"], ["y"])],
        {},
        [2, 1, 1],
        True,
    ),
    "gather_of_it": (
        [
            ("Gather", ["s", "one"], ["k"]),
            ("Concat", ["k", "minus"], ["d"]),
            ("Reshape", ["x", "d"], ["y"]),
        ],
        {"one": [1], "minus": [-1]},
        [9, 4],
        True,
    ),
    "indices": ([("Gather", ["x", "s"], ["y"])], {}, [1, 0, 1], False),
    "both": (
        [
            ("Reshape", ["x", "s"], ["r"]),
            ("Cast", ["s"], ["f"]),
            ("ReduceSum", ["f"], ["sum"]),
            ("Add", ["r", "sum"], ["y"]),
        ],
        {},
        [6, 8],
        True,
    ),
}


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_onnx(logger, name, bounded):
    """One engine at two sets of shape values, against ONNX Runtime."""
    nodes, constants, values, is_shape = CASES[name]
    if bounded and not is_shape:
        pytest.skip("its elements decide no shapes: a profile cannot bound them")
    made = {n: [helper.make_node(op, i, o, **ATTRIBUTES.get(op, {}))] for op, i, o in nodes for n in o}
    ordered = [made[o][0] for op, i, outs in sorted(nodes, key=lambda n: n[2] != ["x4"]) for o in outs]
    graph = helper.make_graph(
        ordered,
        "g",
        [
            helper.make_tensor_value_info("x", 1, [2, 3, 8]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [len(values)]),
        ],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.array(v, np.int64), n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse(model), logger.errors()
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    if bounded:
        profile = builder.create_optimization_profile()
        profile.set_shape_input("s", [1] * len(values), values, [max(v, 9) for v in values])
        config.add_optimization_profile(profile)
    engine = builder.build_engine(network, config)
    assert engine is not None, logger.errors()
    assert engine.is_shape_inference_io("s") == is_shape
    x = rng.standard_normal((2, 3, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    net = trt.Model(engine)
    for s in (values, [1 if name == "slice" else v for v in values], values):
        feeds = {"x": x, "s": np.array(s, np.int64)}
        wanted = session.run(None, feeds)[0]
        got = net(**feeds)["y"]
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


ATTRIBUTES = {"Concat": {"axis": 0}, "ReduceSum": {"keepdims": 0}, "Cast": {"to": 1}, "Resize": {"mode": "nearest"}}


def test_shape_as_values():
    """A reshape by a shape input."""

    model = onnx_bytes(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [("x", 1, [6]), ("s", TensorProto.INT64, [2])],
        [("y", 1, ["a", "b"])],
    )
    net = trt.Model(trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(model)))
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (1, 6)):
        got = net(s=np.array(shape, np.int64), x=x)["y"]
        assert got.shape == shape and (got.ravel() == x).all()


def test_linspace_with_a_scalar_shape(logger):
    """The shape tensor of a linear fill may have no dimensions: the fill has one."""
    network = trt.Builder(logger).create_network(0)
    size = network.add_input("size", trt.int32, ())
    fill = network.add_fill((), trt.FillOperation.LINSPACE)
    fill.set_input(0, size)
    for index, value in ((1, 0), (2, 1)):
        fill.set_input(index, network.add_constant((), np.array(value, np.int32)).get_output(0))
    network.mark_output(fill.get_output(0))
    assert size.is_shape_tensor and len(fill.get_output(0).shape) == 1
