"""What the tests of the Python package share."""

import os
import pathlib

import numpy as np
import pytest

import carnot as trt

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
    """A user's logger that keeps what it is told."""

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
    """A network under test: inputs from arrays, outputs run and compared."""

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
        """The values of |tensors|, marked as outputs."""
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
