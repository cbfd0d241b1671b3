"""IAlgorithmSelector: choices are offered for every layer and honoured, and what was taken is reported."""

import json

import carnot as trt
import numpy as np
import pytest
from models import conv_model, infer, matmul_model, ort_run


class Selector(trt.IAlgorithmSelector):
    """Keeps what it is given and answers with |choose|."""

    def __init__(self, choose=None):
        trt.IAlgorithmSelector.__init__(self)
        self.choose = choose or (lambda context, choices: range(len(choices)))
        self.offered, self.taken = {}, {}

    def select_algorithms(self, context, choices):
        self.offered[context.name] = [choice.algorithm_variant.name for choice in choices]
        return list(self.choose(context, choices))

    def report_algorithms(self, contexts, choices):
        assert len(contexts) == len(choices)
        self.contexts, self.choices = contexts, choices
        self.taken = {c.name: choice.algorithm_variant.name for c, choice in zip(contexts, choices)}


def build(logger, data, selector, level=3, flags=()):
    builder = trt.Builder(logger)
    network, config = builder.create_network(0), builder.create_builder_config()
    assert trt.OnnxParser(network, logger).parse(data)
    config.builder_optimization_level = level
    config.algorithm_selector = selector
    for flag in flags:
        config.set_flag(flag)
    return builder.build_serialized_network(network, config)


def tactics(logger, plan):
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    layers = json.loads(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))
    return {layer["Name"]: layer["TacticName"] for layer in layers["Layers"]}


def test_choices_are_offered_and_reported(logger):
    selector = Selector()
    plan = build(logger, matmul_model(), selector)
    assert selector.offered and set(selector.taken) == set(selector.offered)
    for name, tactic in selector.taken.items():
        assert tactic in selector.offered[name] and tactics(logger, plan)[name] == tactic
    context, algorithm = selector.contexts[0], selector.choices[0]
    assert (context.num_inputs, context.num_outputs) == (1, 1)
    assert [tuple(shape) for shape in context.get_shape(0)] == [(2, 4)] * 3 and context.get_shape(2) == []
    info = algorithm.get_algorithm_io_info(0)
    assert info.dtype == trt.float32 and tuple(info.strides) == (4, 1) and info.components_per_element == 1
    assert algorithm.get_algorithm_io_info(2) is None and algorithm.algorithm_variant.implementation > 0


@pytest.mark.parametrize("pick", [0, -1])
def test_choices_are_honoured(logger, pick):
    """Of a layer with several tactics the one that is chosen is in the engine, and gives right results."""
    data = conv_model()
    selector = Selector(lambda context, choices: [range(len(choices))[pick]])
    plan = build(logger, data, selector, level=5)
    assert any(len(names) > 1 for names in selector.offered.values())
    for name, names in selector.offered.items():
        assert tactics(logger, plan)[name] == selector.taken[name] == names[pick]
    context = trt.Runtime(logger).deserialize_cuda_engine(plan).create_execution_context()
    (name,) = [context.engine.get_tensor_name(0)]
    shape = [2 if d < 0 else d for d in context.engine.get_tensor_shape(name)]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got = infer(context, {name: x})
    for one, wanted in zip(got.values(), ort_run(data, {name: x})):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)


def test_nothing_chosen(logger):
    """An empty answer leaves all choices; under REJECT_EMPTY_ALGORITHMS it fails the build, which names the layer."""
    selector = Selector(lambda context, choices: [])
    assert build(logger, matmul_model(), selector) is not None and selector.taken
    assert build(logger, matmul_model(), selector, flags=[trt.BuilderFlag.REJECT_EMPTY_ALGORITHMS]) is None
    assert "REJECT_EMPTY_ALGORITHMS" in logger.errors()[-1] and next(iter(selector.offered)) in logger.errors()[-1]


def test_wrong_choices_and_exceptions(logger):
    assert build(logger, matmul_model(), Selector(lambda context, choices: [len(choices)])) is None
    assert "must be in [0, " in logger.errors()[-1]

    def fails(context, choices):
        raise ValueError("no choice today")

    with pytest.raises(ValueError, match="no choice today"):
        build(logger, matmul_model(), Selector(fails))
