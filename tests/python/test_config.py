"""Builder configuration and optimization profiles."""

import os
import pathlib

import carnot as trt
import numpy as np
import pytest
from conftest import Net


def test_config_keeps_what_it_is_told(net):
    config = net.config
    assert not config.get_flag(trt.BuilderFlag.TF32)
    for flag in trt.BuilderFlag:
        config.set_flag(flag)
        assert config.get_flag(flag)
        config.clear_flag(flag)
    assert config.flags == 0
    for pool in trt.MemoryPoolType:
        config.set_memory_pool_limit(pool, 1 << 20)
        assert config.get_memory_pool_limit(pool) == 1 << 20
    assert config.max_workspace_size == 1 << 20
    config.builder_optimization_level = 9
    assert config.builder_optimization_level == 0 and "9" in net.logger.errors()[-1]
    config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    assert config.get_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    assert config.default_device_type == trt.DeviceType.GPU and config.DLA_core == -1
    assert config.engine_capability == trt.EngineCapability.STANDARD and config.get_tactic_sources()
    assert not config.can_run_on_DLA(None) and config.get_timing_cache() is None
    config.reset()
    assert config.profiling_verbosity == trt.ProfilingVerbosity.LAYER_NAMES_ONLY
    assert net.builder.platform_has_fast_fp16 and net.builder.platform_has_fast_int8


def test_profiles(net):
    profile = net.builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (4, 3))
    profile.set_shape_input("s", (1,), (2,), (3,))
    assert (
        profile
        and profile.get_shape("x") == [(1, 3), (2, 3), (4, 3)]
        and profile.get_shape_input("s") == [[1], [2], [3]]
    )
    with pytest.raises(RuntimeError, match="min <= opt <= max"):
        profile.set_shape("x", (3, 3), (2, 3), (4, 3))
    assert net.config.add_optimization_profile(profile) == 0 and net.config.num_optimization_profiles == 1
    x = net.network.add_input("y", trt.float32, (-1, 3))
    net.network.mark_output(net.network.add_identity(x).get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "names x" in net.logger.errors()[-1]


def test_config_keeps_what_has_no_effect_here(logger):
    network = trt.Builder(logger).create_network(0)
    config = network.builder.create_builder_config()
    layer = network.add_identity(network.add_input("x", trt.float32, (2,)))
    given = {
        "avg_timing_iterations": 3,
        "min_timing_iterations": 2,
        "build_route": "route",
        "hardware_compatibility_level": trt.HardwareCompatibilityLevel.AMPERE_PLUS,
        "l2_limit_for_tiling": 5,
        "max_aux_streams": 4,
        "max_num_tactics": 7,
        "plugins_to_serialize": ["a.so"],
        "profile_stream": 9,
        "remote_auto_tuning_config": "r",
        "runtime_platform": trt.RuntimePlatform.WINDOWS_AMD64,
        "tiling_optimization_level": trt.TilingOptimizationLevel.FAST,
        "algorithm_selector": trt.IAlgorithmSelector(),
    }
    for name, value in given.items():
        assert getattr(config, name) != value
        setattr(config, name, value)
        assert getattr(config, name) == value
    assert config.all_build_routes == "[]"
    flag = trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION
    config.set_quantization_flag(flag)
    assert config.get_quantization_flag(flag) and config.quantization_flags == 1
    config.clear_quantization_flag(flag)
    assert not config.get_quantization_flag(flag)
    config.set_device_type(layer, trt.DeviceType.DLA)
    assert config.get_device_type(layer) == trt.DeviceType.DLA and config.is_device_type_set(layer)
    config.reset_device_type(layer)
    assert config.get_device_type(layer) == trt.DeviceType.GPU and not config.is_device_type_set(layer)
    profile = network.builder.create_optimization_profile()
    assert (
        isinstance(profile, trt.IOptimizationProfile)
        and bool(profile)
        and profile.__bool__()
        and profile.__nonzero__()
        and profile.extra_memory_target == 1.0
    )
    assert config.set_calibration_profile(profile) and config.get_calibration_profile() is profile
    config.DLA_core = 0
    assert config.DLA_core == -1  # as TensorRT on a machine without a DLA
    assert config.get_tactic_sources() == 24  # what TensorRT 10 reports; every source is used until it is set
    sources = 1 << int(trt.TacticSource.CUDNN)
    assert config.set_tactic_sources(sources) and config.get_tactic_sources() == sources


def test_plugins_to_serialize(logger, tmp_path):
    """Plugin libraries to serialize are stored in the engine, compressed."""
    library = os.environ.get("CARNOT_PLUGIN_LIBRARY")
    if not library:
        pytest.skip("CARNOT_PLUGIN_LIBRARY does not name the example plugin")
    random = 1 << 16  # bytes behind the library that no compression removes
    stored = tmp_path / "plugin.so"
    stored.write_bytes(pathlib.Path(library).read_bytes() + os.urandom(random))
    net = Net(logger)
    net.network.mark_output(net.network.add_identity(net.input(np.ones(3, np.float32))).get_output(0))
    plain = net.builder.build_serialized_network(net.network, net.config).nbytes
    net.config.plugins_to_serialize = [str(stored)]
    assert net.builder.build_serialized_network(net.network, net.config).nbytes >= plain + random
    net.config.plugins_to_serialize = [str(tmp_path / "absent.so")]
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "absent.so" in logger.errors()[-1]
