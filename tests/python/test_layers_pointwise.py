"""Pointwise layers: activation, unary, element-wise, scale, select, cast."""

import math

import carnot as trt
import numpy as np
import pytest
from reference import F, close, floats, needs_torch, t64, torch

rng = np.random.default_rng(7)


ACTIVATIONS = (
    {}
    if torch is None
    else {
        "RELU": (0, 0, F.relu),
        "SIGMOID": (0, 0, torch.sigmoid),
        "TANH": (0, 0, torch.tanh),
        "LEAKY_RELU": (0.1, 0, lambda x: F.leaky_relu(x, 0.1)),
        "ELU": (0.7, 0, lambda x: F.elu(x, 0.7)),
        "SELU": (1.6732632, 1.0507010, F.selu),
        "SOFTSIGN": (0, 0, F.softsign),
        "SOFTPLUS": (1, 1, F.softplus),
        "CLIP": (-0.5, 0.8, lambda x: x.clamp(-0.5, 0.8)),
        "HARD_SIGMOID": (0.2, 0.5, lambda x: (0.2 * x + 0.5).clamp(0, 1)),
        "SCALED_TANH": (1.5, 0.5, lambda x: 1.5 * torch.tanh(0.5 * x)),
        "THRESHOLDED_RELU": (0.3, 0, lambda x: torch.where(x > 0.3, x, torch.zeros_like(x))),
        "GELU_ERF": (0, 0, F.gelu),
        "GELU_TANH": (0, 0, lambda x: F.gelu(x, approximate="tanh")),
    }
)


@needs_torch
@pytest.mark.parametrize("name", list(trt.ActivationType.__members__))
def test_activation(net, name):
    alpha, beta, wanted = ACTIVATIONS[name]
    x = floats(3, 50)
    layer = net.network.add_activation(net.input(x), trt.ActivationType[name])
    layer.alpha, layer.beta = alpha, beta
    (y,) = net.run(layer.get_output(0))
    close(y, wanted(t64(x)))


UNARIES = {
    "EXP": np.exp,
    "LOG": np.log,
    "SQRT": np.sqrt,
    "RECIP": np.reciprocal,
    "ABS": np.abs,
    "NEG": np.negative,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "ASINH": np.arcsinh,
    "ACOSH": lambda x: np.arccosh(x + 1),
    "ATANH": np.arctanh,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "SIGN": np.sign,
    "ROUND": np.round,
    "ERF": np.vectorize(math.erf),
    "ISINF": np.isinf,
    "ISNAN": np.isnan,
}


@pytest.mark.parametrize("name", [n for n in trt.UnaryOperation.__members__ if n != "NOT"])
def test_unary(net, name):
    x = rng.uniform(0.05, 0.95, (4, 9)).astype(np.float32)
    given = x + np.float32(1) if name == "ACOSH" else x
    if name in ("ISINF", "ISNAN"):
        given = x.copy()
        given[0, :3] = [np.inf, -np.inf, np.nan]
    (y,) = net.run(net.network.add_unary(net.input(given), trt.UnaryOperation[name]).get_output(0))
    if name in ("ISINF", "ISNAN"):
        assert (y == UNARIES[name](given)).all()
    else:
        close(y, UNARIES[name]((given - (name == "ACOSH")).astype(np.float64)))


def test_logic(net):
    a, b = rng.integers(0, 2, (2, 8)).astype(bool), rng.integers(0, 2, (2, 8)).astype(bool)
    ta, tb = net.input(a), net.input(b)
    made = [net.network.add_unary(ta, trt.UnaryOperation.NOT)]
    made += [net.network.add_elementwise(ta, tb, trt.ElementWiseOperation[n]) for n in ("AND", "OR", "XOR")]
    got = net.run(*[layer.get_output(0) for layer in made])
    for y, wanted in zip(got, (~a, a & b, a | b, a ^ b)):
        assert (y == wanted).all()


ELEMENTWISE = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "SUB": np.subtract,
    "DIV": np.divide,
    "POW": np.power,
    "FLOOR_DIV": np.floor_divide,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "LESS": np.less,
}


@pytest.mark.parametrize("name", list(ELEMENTWISE))
def test_elementwise(net, name):
    a, b = rng.uniform(0.5, 3, (2, 3, 4)).astype(np.float32), rng.uniform(0.5, 3, (1, 3, 1)).astype(np.float32)
    b[0, 0] = a[0, 0, 0]
    (y,) = net.run(
        net.network.add_elementwise(net.input(a), net.input(b), trt.ElementWiseOperation[name]).get_output(0)
    )
    wanted = ELEMENTWISE[name](a.astype(np.float64), b.astype(np.float64))
    assert (y == wanted).all() if wanted.dtype == bool else close(y, wanted) is None


@pytest.mark.parametrize("mode", ["UNIFORM", "CHANNEL", "ELEMENTWISE"])
def test_scale(net, mode):
    x = np.abs(floats(2, 3, 4, 5))
    shape = {"UNIFORM": (), "CHANNEL": (3,), "ELEMENTWISE": (3, 4, 5)}[mode]
    shift, scale, power = (np.abs(rng.standard_normal(shape)).astype(np.float32) for _ in range(3))
    layer = net.network.add_scale(net.input(x), trt.ScaleMode[mode], shift, scale, power)
    (y,) = net.run(layer.get_output(0))
    wide = [
        np.asarray(v, np.float64).reshape(shape + (1, 1) if mode == "CHANNEL" else shape) for v in (shift, scale, power)
    ]
    close(y, (x * wide[1] + wide[0]) ** wide[2])


def test_prelu_select_identity_cast(net):
    x, slopes, condition = floats(2, 3, 4), floats(1, 3, 1), rng.integers(0, 2, (2, 3, 4)).astype(bool)
    tx = net.input(x)
    made = [
        net.network.add_parametric_relu(tx, net.input(slopes)),
        net.network.add_select(net.input(condition), tx, net.constant(np.zeros((1, 1, 1), np.float32))),
        net.network.add_identity(tx),
        net.network.add_cast(tx, trt.int32),
    ]
    got = net.run(*[layer.get_output(0) for layer in made])
    wanted = np.where(x < 0, x * slopes, x), np.where(condition, x, 0), x, x.astype(np.int32)
    for y, w in zip(got, wanted):
        close(y, w)
    assert got[3].dtype == np.int32
