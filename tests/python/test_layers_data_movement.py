"""Layers that move data: shuffle, squeeze, concatenation, slice, gather, scatter, one-hot, non-zero."""

import carnot as trt
import numpy as np
import pytest
from reference import close, floats


def test_shuffle_in_any_order_of_setting(net):
    x = floats(2, 3, 4)
    layer = net.network.add_shuffle(net.input(x))
    layer.second_transpose = (1, 0)
    layer.reshape_dims = (0, -1)
    layer.first_transpose = (2, 0, 1)
    assert layer.get_output(0).shape == (6, 4)
    assert layer.reshape_dims == (0, -1) and layer.first_transpose[:3] == (2, 0, 1)
    (y,) = net.run(layer.get_output(0))
    close(y, x.transpose(2, 0, 1).reshape(4, 6).T)


def test_shuffle_by_tensor(net):
    x = floats(2, 6)
    layer = net.network.add_shuffle(net.input(x))
    layer.set_input(1, net.constant(np.array([3, 4], np.int32)))
    (y,) = net.run(layer.get_output(0))
    close(y, x.reshape(3, 4))


def test_squeeze_unsqueeze_concatenation_shape(net):
    x = floats(2, 1, 3)
    tx = net.input(x)
    join = net.network.add_concatenation([tx, tx])
    assert join.axis == 0
    join.axis = 2
    made = [
        net.network.add_squeeze(tx, net.constant(np.array([1], np.int64))),
        net.network.add_unsqueeze(tx, net.constant(np.array([0, 4], np.int64))),
        join,
        net.network.add_shape(tx),
    ]
    got = net.run(*[layer.get_output(0) for layer in made])
    close(got[0], x[:, 0])
    close(got[1], x[None, ..., None])
    close(got[2], np.concatenate([x, x], 2))
    assert got[3].tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    "mode, pad", [("FILL", "constant"), ("CLAMP", "edge"), ("WRAP", "wrap"), ("REFLECT", "reflect")]
)
def test_slice_modes(net, mode, pad):
    x = floats(4, 5)
    layer = net.network.add_slice(net.input(x), (-1, 1), (3, 4), (2, 2))
    layer.mode = trt.SampleMode[mode]
    (y,) = net.run(layer.get_output(0))
    around = np.pad(x, ((1, 0), (0, 3)), pad)
    close(y, around[0:5:2, 1:8:2])


def test_slice_backwards_with_axes_and_computed_bounds(net):
    x = floats(4, 5)
    tx = net.input(x)
    some = net.network.add_slice(tx, (4,), (3,), (-2,))
    some.axes = (1,)
    computed = net.network.add_slice(tx, (0, 0), (1, 1), (1, 1))
    computed.set_input(1, net.constant(np.array([3, 0], np.int32)))
    computed.set_input(2, net.constant(np.array([4, 3], np.int32)))
    computed.set_input(3, net.constant(np.array([-1, 2], np.int32)))
    got = net.run(some.get_output(0), computed.get_output(0))
    close(got[0], x[:, 4::-2])
    close(got[1], x[::-1, 0:5:2])


def test_slice_out_of_bounds_is_an_error(net):
    layer = net.network.add_slice(net.input(floats(4, 5)), (0, 2), (4, 4), (1, 1))
    layer.name = "window"
    net.network.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert any("window" in m and "dimension 1, which has 5" in m for m in net.logger.errors())


def test_gather_scatter_onehot_nonzero_reverse(net):
    x = floats(3, 4)
    tx, rows = net.input(x), net.constant(np.array([2, 0], np.int32))
    nd = net.network.add_gather_v2(tx, net.constant(np.array([[0, 1], [2, 3]], np.int64)), trt.GatherMode.ND)
    element = net.network.add_gather_v2(tx, net.constant(np.array([[1, 0, 2, 2]], np.int64)), trt.GatherMode.ELEMENT)
    scatter = net.network.add_scatter(
        tx, net.constant(np.array([[1], [0]], np.int32)), net.constant(np.ones((2, 4), np.float32)), trt.ScatterMode.ND
    )
    onehot = net.network.add_one_hot(
        rows, net.constant(np.array([0, 5], np.float32)), net.constant(np.array(3, np.int32)), -1
    )
    nonzero = net.network.add_non_zero(net.network.add_activation(tx, trt.ActivationType.RELU).get_output(0))
    reverse = net.network.add_reverse_sequence(tx, net.constant(np.array([1, 3, 2, 0], np.int64)))
    made = [net.network.add_gather(tx, rows, 0), nd, element, scatter, onehot, nonzero, reverse]
    got = net.run(*[layer.get_output(0) for layer in made])
    close(got[0], x[[2, 0]])
    close(got[1], x[[0, 2], [1, 3]])
    close(got[2], x[[1, 0, 2, 2], range(4)][None])
    wanted = x.copy()
    wanted[:2] = 1
    close(got[3], wanted)
    close(got[4], np.eye(3)[[2, 0]] * 5)
    assert got[5].dtype == np.int32 and (got[5] == np.stack(np.nonzero(x > 0))).all()
    wanted = x.copy()
    for column, count in enumerate([1, 3, 2, 0]):
        wanted[:count, column] = x[:count, column][::-1]
    close(got[6], wanted)
