"""Loops and conditionals in TensorRT's flat form."""

import carnot as trt
import numpy as np
import pytest

rng = np.random.default_rng(3)


@pytest.mark.parametrize("kind, axis", [("CONCATENATE", 0), ("CONCATENATE", 1), ("REVERSE", 0)])
def test_loop_with_count(net, kind, axis):
    """Loops and conditionals in TensorRT's flat form."""

    x = rng.standard_normal((5, 3)).astype(np.float32)
    loop = net.network.add_loop()
    loop.add_trip_limit(net.constant(np.array(5, np.int32)), trt.TripLimit.COUNT)
    step = loop.add_iterator(net.input(x), 0, False)
    total = loop.add_recurrence(net.constant(np.zeros(3, np.float32)))
    added = net.network.add_elementwise(total.get_output(0), step.get_output(0), trt.ElementWiseOperation.SUM)
    total.set_input(1, added.get_output(0))
    last = loop.add_loop_output(total.get_output(0), trt.LoopOutput.LAST_VALUE)
    every = loop.add_loop_output(added.get_output(0), trt.LoopOutput[kind], axis)
    every.set_input(1, net.constant(np.array(5, np.int32)))
    a, b = net.run(last.get_output(0), every.get_output(0))
    sums = np.cumsum(x.astype(np.float64), 0)
    np.testing.assert_allclose(a, sums[-1], rtol=1e-5, atol=1e-5)
    wanted = {"CONCATENATE": sums if axis == 0 else sums.T, "REVERSE": sums[::-1]}[kind]
    np.testing.assert_allclose(b, wanted, rtol=1e-5, atol=1e-5)


def test_loop_while(net):
    start = np.array([1, 1], np.float32)
    loop = net.network.add_loop()
    value = loop.add_recurrence(net.input(start))
    total = net.network.add_reduce(value.get_output(0), trt.ReduceOperation.SUM, 1, False).get_output(0)
    less = net.network.add_elementwise(total, net.constant(np.array(100, np.float32)), trt.ElementWiseOperation.LESS)
    loop.add_trip_limit(less.get_output(0), trt.TripLimit.WHILE)
    doubled = net.network.add_elementwise(value.get_output(0), value.get_output(0), trt.ElementWiseOperation.SUM)
    value.set_input(1, doubled.get_output(0))
    (y,) = net.run(loop.add_loop_output(value.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
    assert y.tolist() == [64, 64]


@pytest.mark.parametrize("flag", [True, False])
def test_conditional(net, flag):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    choice = net.network.add_if_conditional()
    choice.set_condition(net.input(np.array(flag)))
    entry = choice.add_input(net.input(x)).get_output(0)
    yes = net.network.add_unary(entry, trt.UnaryOperation.EXP).get_output(0)
    no = net.network.add_unary(entry, trt.UnaryOperation.NEG).get_output(0)
    (y,) = net.run(choice.add_output(yes, no).get_output(0))
    np.testing.assert_allclose(y, np.exp(x) if flag else -x, rtol=1e-6)


def test_shapes_inside_an_unfinished_loop(net):
    """A tensor of a body has a shape and a type as soon as what it is computed from has."""
    x = net.input(np.arange(12, dtype=np.float32).reshape(4, 3))
    n = net.network
    zero = n.add_constant((3,), np.zeros(3, np.float32)).get_output(0)
    count = n.add_constant((), np.array(4, np.int32)).get_output(0)
    loop = n.add_loop()
    loop.add_trip_limit(count, trt.TripLimit.COUNT)
    step = loop.add_iterator(x).get_output(0)
    recurrence = loop.add_recurrence(zero)
    state = recurrence.get_output(0)
    assert tuple(step.shape) == tuple(state.shape) == (3,) and state.dtype == trt.float32
    total = n.add_elementwise(step, state, trt.ElementWiseOperation.SUM).get_output(0)
    as_row = n.add_shuffle(total)
    as_row.reshape_dims = (1, total.shape[0])
    whole = n.add_cast(as_row.get_output(0), trt.int32).get_output(0)
    assert tuple(whole.shape) == (1, 3) and whole.dtype == trt.int32
    recurrence.set_input(1, total)
    out = loop.add_loop_output(state, trt.LoopOutput.LAST_VALUE).get_output(0)
    rows = loop.add_loop_output(whole, trt.LoopOutput.CONCATENATE)
    rows.set_input(1, count)
    assert tuple(out.shape) == (3,) and tuple(total.shape) == (3,)
    np.testing.assert_array_equal(net.run(out)[0], np.arange(12).reshape(4, 3).sum(0))


def test_shapes_inside_an_unfinished_conditional(net):
    x = net.input(np.ones((2, 5), np.float32))
    conditional = net.network.add_if_conditional()
    inside = conditional.add_input(x).get_output(0)
    assert tuple(inside.shape) == (2, 5)
    assert tuple(net.network.add_softmax(inside).get_output(0).shape) == (2, 5)
