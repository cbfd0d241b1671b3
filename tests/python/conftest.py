"""Fixtures of the tests of the Python package."""

import gc
import os
import pathlib

import carnot as trt
import carnot.plugin as trtp
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", ROOT.parent / "shared" / "models"))


@pytest.fixture
def model():
    def find(name):
        path = MODELS / name
        if not path.exists():
            pytest.skip(f"{path} is absent")
        return str(path)

    return find


class Messages(trt.ILogger):
    """A logger that keeps all messages."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))

    def errors(self):
        return [msg for severity, msg in self.lines if severity.value <= trt.Logger.ERROR.value]


@pytest.fixture
def logger():
    return Messages()


class Net:
    """A network under test: inputs come from arrays, outputs are built and run."""

    def __init__(self, logger):
        self.logger = logger
        self.builder = trt.Builder(logger)
        self.network = self.builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
        self.config = self.builder.create_builder_config()
        self.config.builder_optimization_level = 0
        self.arrays = {}

    def input(self, array, shape=None, name=None):
        name = name or f"in{len(self.arrays)}"
        self.arrays[name] = np.asarray(array, order="C")
        return self.network.add_input(name, dtypes()[array.dtype], array.shape if shape is None else shape)

    def constant(self, array):
        array = np.ascontiguousarray(array)
        return self.network.add_constant(array.shape, array).get_output(0)

    def engine(self):
        plan = self.builder.build_serialized_network(self.network, self.config)
        assert plan is not None, self.logger.errors()
        return trt.Runtime(self.logger).deserialize_cuda_engine(plan)

    def run(self, *tensors):
        """Marks |tensors| as outputs, builds and runs; returns their values."""
        for i, tensor in enumerate(tensors):
            tensor.name = f"out{i}"
            self.network.mark_output(tensor)
        got = trt.Model(self.engine())(**self.arrays)
        return [got[f"out{i}"] for i in range(len(tensors))]


def dtypes():
    return {
        np.dtype(np.float32): trt.float32,
        np.dtype(np.int32): trt.int32,
        np.dtype(np.int64): trt.int64,
        np.dtype(np.bool_): trt.bool,
        np.dtype(np.float16): trt.float16,
    }


@pytest.fixture
def net(logger):
    return Net(logger)


@pytest.fixture
def registry():
    """The plugin registry; creators that the test adds are removed again."""
    found = trt.get_plugin_registry()
    before = found.all_creators
    yield found
    gc.collect()
    for creator in found.all_creators:
        if creator not in before and not type(creator).__name__.startswith("Native"):
            assert found.deregister_creator(creator), creator.name
    for namespace in vars(trtp.op).values():
        for definition in vars(namespace).values() if hasattr(namespace, "affine") else ():
            if hasattr(definition, "creator"):
                definition.creator = None
