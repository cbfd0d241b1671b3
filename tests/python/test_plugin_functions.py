"""Plugins as functions: carnot.plugin.register, impl, autotune."""

import carnot as trt
import carnot.plugin as trtp
import numpy as np
import numpy.typing as npt
import pytest
from conftest import Net
from onnx import TensorProto, helper

rng = np.random.default_rng(5)


@trtp.register("tests::affine", lazy_register=True)
def affine_desc(
    x: trtp.TensorDesc, y: trtp.TensorDesc, factor: float, shifts: npt.NDArray[np.float32]
) -> trtp.TensorDesc:
    return x.like()


@trtp.autotune("tests::affine")
def affine_autotune(x: trtp.TensorDesc, y: trtp.TensorDesc, outputs) -> list:
    return [trtp.AutoTuneCombination("FP32|FP16, FP32|FP16, FP32|FP16", "LINEAR", [1, 2])]


@trtp.impl("tests::affine")
def affine_impl(x: trtp.Tensor, y: trtp.Tensor, factor: float, shifts, outputs, stream: int, tactic: int) -> None:
    assert tactic in (1, 2) and stream == 0 and x.numel() == outputs[0].numel() and x.dtype == trt.float32
    np.asarray(outputs[0])[...] = np.asarray(x) * factor + np.asarray(y) + shifts


@trtp.register("tests::repeat", lazy_register=True)
def repeat_desc(x: trtp.TensorDesc, times: int, name: str, up: bool):
    assert name == "r" and up
    out = x.like()
    out.shape_expr[0] = trtp.max(x.shape_expr[0] * times, trtp.cdiv(x.shape_expr[0], 2)) + 0
    return out, trtp.from_shape_expr((x.shape_expr.numel(), 1), trt.int32)


@trtp.impl("tests::repeat")
def repeat_impl(x, times, outputs, stream):
    np.asarray(outputs[0])[...] = np.tile(np.asarray(x), (times, 1))
    np.asarray(outputs[1])[...] = np.arange(x.numel())[:, None]


@trtp.register("tests::positive", lazy_register=True)
def positive_desc(x: trtp.TensorDesc):
    size = trtp.size_tensor(x.shape_expr[0] // 2, x.shape_expr[0])
    return trtp.from_shape_expr((size.expr(),), x.dtype), size


@trtp.impl("tests::positive")
def positive_impl(x, outputs, stream):
    found = np.asarray(x)[np.asarray(x) > 0]
    np.asarray(outputs[0])[: len(found)] = found
    np.asarray(outputs[1])[...] = len(found)


@trtp.register("tests::add_one", lazy_register=True)
def add_one_desc(x: trtp.TensorDesc) -> trtp.TensorDesc:
    return x.aliased()


@trtp.impl("tests::add_one")
def add_one_impl(x, outputs, stream):
    assert x.data_ptr == outputs[0].data_ptr
    np.asarray(outputs[0])[...] += 1


def test_functions(registry, logger):
    net = Net(logger)
    x, y = (net.input(rng.standard_normal((3, 4)).astype(np.float32), shape=(-1, 4)) for _ in range(2))
    shifts = np.arange(4, dtype=np.float32)
    layer = net.network.add_plugin(trtp.op.tests.affine(x, y, factor=0.5, shifts=shifts))
    repeat = net.network.add_plugin(trtp.op.tests.repeat(layer.get_output(0), times=3, name="r", up=True))
    assert repeat.get_output(0).shape == (-1, 4) and repeat.get_output(1).dtype == trt.int32
    got, order = net.run(repeat.get_output(0), repeat.get_output(1))
    a, b = net.arrays.values()
    np.testing.assert_allclose(got, np.tile(a * 0.5 + b + shifts, (3, 1)), rtol=1e-6)
    np.testing.assert_array_equal(order, np.arange(12)[:, None])


def test_function_with_size_and_alias(registry, logger):
    net = Net(logger)
    x = net.input(rng.standard_normal(9).astype(np.float32))
    layer = net.network.add_plugin(trtp.op.tests.positive(x))
    alias = net.network.add_plugin(
        trtp.op.tests.add_one(net.network.add_unary(x, trt.UnaryOperation.NEG).get_output(0))
    )
    found, count, one = net.run(layer.get_output(0), layer.get_output(1), alias.get_output(0))
    a = net.arrays["in0"]
    np.testing.assert_array_equal(found, a[a > 0])
    assert count == (a > 0).sum()
    np.testing.assert_array_equal(one, 1 - a)
    np.testing.assert_array_equal(net.arrays["in0"], a)


def test_functions_that_do_not_fit(registry, logger):
    with pytest.raises(ValueError, match="NAMESPACE::NAME"):
        trtp.register("nothing")(affine_desc)
    with pytest.raises(ValueError, match="parameter x"):
        trtp.register("tests::untyped")(lambda x: x)
    with pytest.raises(ValueError, match="not registered"):
        trtp.impl("tests::absent")(affine_impl)
    with pytest.raises(ValueError, match="parameters"):
        trtp.impl("tests::affine")(lambda z, outputs: None)
    with pytest.raises(ValueError, match="registered already"):
        trtp.register("tests::affine")(affine_desc)
    net = Net(logger)
    x = net.input(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="2 tensors"):
        trtp.op.tests.affine(x, factor=1.0)
    with pytest.raises(ValueError, match="factor must be float"):
        trtp.op.tests.affine(x, x, factor=1, shifts=np.zeros(4, np.float32))
    with pytest.raises(AttributeError, match="absent"):
        trtp.op.tests.absent

    @trtp.register("tests::compiled", lazy_register=True)
    def _(x: trtp.TensorDesc) -> trtp.TensorDesc:
        return x.like()

    @trtp.aot_impl("tests::compiled")
    def _(x, outputs, tactic):
        params = trtp.KernelLaunchParams()
        params.grid_x = trtp.cdiv(x.shape_expr.numel(), 32)
        params.block_x, params.shared_mem = 32, 0
        extra = trtp.SymIntExprs(1)
        extra[0] = trtp.SymInt32(x.shape_expr.numel())
        return "kernel", b"", params, extra

    with pytest.raises(ValueError, match="needs a GPU"):
        net.network.add_plugin(trtp.op.tests.compiled(x))


def test_function_in_onnx(registry, logger):
    trtp.op.tests.affine.know()
    graph = helper.make_graph(
        [
            helper.make_node(
                "affine", ["x", "y"], ["z"], factor=2.0, shifts=[1.0, 2.0], plugin_namespace="tests", domain="any"
            )
        ],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 2]) for n in "xy"],
        [helper.make_tensor_value_info("z", 1, [3, 2])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("any", 1)], ir_version=9
    )
    x, y = (rng.standard_normal((3, 2)).astype(np.float32) for _ in range(2))
    got = trt.Model(trt.Runtime(logger).deserialize_cuda_engine(trt.build(model.SerializeToString(), level=0)))(
        x=x, y=y
    )
    np.testing.assert_allclose(got["z"], x * 2 + y + np.array([1, 2]), rtol=1e-6)
