"""The timing cache."""

import copy

import carnot as trt
import numpy as np
from conftest import Net
from models import TRT_LOGGER, build_plan, conv_model

rng = np.random.default_rng(21)


def test_timing_cache(tmp_path):
    """Two builds with one timing cache give the same bytes."""

    model = conv_model(batch=1)
    config = trt.Builder(TRT_LOGGER).create_builder_config()
    cache = config.create_timing_cache(b"")
    first = build_plan(model, cache=cache)
    with cache.serialize() as buffer:
        (tmp_path / "timing.cache").write_bytes(buffer)
    again = config.create_timing_cache((tmp_path / "timing.cache").read_bytes())
    assert bytes(build_plan(model, cache=again)) == bytes(first)
    merged = config.create_timing_cache(b"")
    assert merged.combine(again, ignore_mismatch=False) and bytes(merged.serialize()) == bytes(again.serialize())
    assert config.create_timing_cache(b"nonsense") is None
    assert merged.reset() and merged.queryKeys() == []


def test_timing_cache_keys(logger):
    net = Net(logger)
    net.config.builder_optimization_level = 3
    cache = net.config.create_timing_cache(b"")
    net.config.set_timing_cache(cache, False)
    x = net.input(rng.standard_normal((64, 64)).astype(np.float32))
    none = trt.MatrixOperation.NONE
    net.run(net.network.add_matrix_multiply(x, none, net.constant(np.eye(64, dtype=np.float32)), none).get_output(0))
    keys = cache.queryKeys()
    assert isinstance(cache, trt.ITimingCache) and isinstance(keys[0], trt.TimingCacheKey)
    assert keys and str(keys[0])
    value = cache.query(keys[0])
    assert isinstance(value, trt.TimingCacheValue) and value.timingMSec >= 0 and isinstance(value.tacticHash, int)
    assert copy.copy(keys[0]) is not None
