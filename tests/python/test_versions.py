"""What follows from the TensorRT version that scripts see, CARNOT_TRT_VERSION."""

import os
import pathlib
import subprocess
import sys

import carnot as trt
import pytest

SHOW = """
import carnot as trt
config = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_builder_config()
on = [feature.name for feature in trt.PreviewFeature if config.get_preview_feature(feature)]
print(config.get_tactic_sources(), on, config.get_memory_pool_limit(trt.MemoryPoolType.DLA_GLOBAL_DRAM) >> 20)
print(*(kind in trt.LayerType.__members__ for kind in ("PLUGIN_V3", "SQUEEZE", "MOE", "REFERENCE")))
print(*(kind in trt.DataType.__members__ for kind in ("BF16", "FP4", "E8M0", "DOUBLE")))
print(trt.get_nv_onnx_parser_version())
"""


def show(version):
    environment = {
        **os.environ,
        "CARNOT_TRT_VERSION": version,
        "PYTHONPATH": str(pathlib.Path(trt.__file__).parents[1]),
    }
    return subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    "version, wanted",
    [
        (
            "8.6.1",
            "31 ['FASTER_DYNAMIC_SHAPES_0805', 'DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805'] 512\n"
            "False False False False\nFalse False False False\n80601\n",
        ),
        ("10.3.0", "24 ['PROFILE_SHARING_0806'] 512\nTrue False False False\nTrue False False False\n100300\n"),
        ("11.1", "24 ['PROFILE_SHARING_0806'] 512\nTrue True True False\nTrue True True False\n110100\n"),
    ],
)
def test_defaults_and_members(version, wanted):
    """Defaults are those of the version, and loops over enumerations meet no newer member."""
    done = show(version)
    assert done.stdout == wanted, done.stderr


@pytest.mark.parametrize("version", ["bogus", "9.1.0", "10"])
def test_unknown_versions_are_refused(version):
    done = show(version)
    assert done.returncode == 1 and f"CARNOT_TRT_VERSION is '{version}'" in done.stderr


def test_newer_members_are_there_by_name_and_value():
    assert trt.LayerType.MOE.name == "MOE" and trt.LayerType(trt.LayerType.MOE.value) is trt.LayerType.MOE
    assert trt.DataType["DOUBLE"] is trt.DataType.DOUBLE and trt.DataType.FLOAT.DOUBLE is trt.DataType.DOUBLE
    assert trt.DataType.DOUBLE not in list(trt.DataType) and len(trt.DataType) == len(list(trt.DataType))
