"""Carnot: an inference optimizer and runtime with TensorRT's Python interface.

import carnot as trt          # scripts written for TensorRT work unchanged
carnot.load("model.onnx")(x=array)
"""

from __future__ import annotations

from typing import Any as _Any

from .convenience import Model, Profile, build, load, report
from .core import CarnotError, IErrorRecorder, ILogger, Logger
from .engine import (
    Builder,
    EngineInspector,
    IBuilderConfig,
    ICudaEngine,
    IExecutionContext,
    IOptimizationProfile,
    IRuntimeConfig,
    ISerializationConfig,
    ITimingCache,
    Refitter,
    Runtime,
    TimingCacheKey,
    TimingCacheValue,
)
from .enums import *  # noqa: F403
from .interfaces import *  # noqa: F403
from .network import INetworkDefinition, ITensor
from .network.control import (
    IConditionLayer,
    IIfConditional,
    IIfConditionalBoundaryLayer,
    IIfConditionalInputLayer,
    IIfConditionalOutputLayer,
    IIteratorLayer,
    ILoop,
    ILoopBoundaryLayer,
    ILoopOutputLayer,
    IRecurrenceLayer,
    ITripLimitLayer,
)
from .network.layer import ILayer
from .network.layers import *  # noqa: F403
from .parser import OnnxParser
from .parser_caffe import CaffeParser, IBlobNameToTensor, ICaffePluginFactoryV2
from .parser_errors import ParserError
from .parser_refitter import OnnxParserRefitter
from .parser_uff import UffParser
from .plugin.classes import *  # noqa: F403
from .plugin.registry import *  # noqa: F403
from .plugin.types import *  # noqa: F403
from .predictor import Predictor
from .types import (
    Dims,
    Dims2,
    Dims3,
    Dims4,
    DimsHW,
    IHostMemory,
    Permutation,
    Weights,
    bfloat16,
    bool,
    e8m0,
    float16,
    float32,
    fp4,
    fp8,
    int4,
    int8,
    int32,
    int64,
    nptype,
    uint8,
    volume,
)
from .version import CARNOT_VERSION, TENSORRT_VERSION, VERSION

carnot_version = CARNOT_VERSION
__version__ = VERSION


class FallbackString:
    """A placeholder text for an unknown name."""


def init_libnvinfer_plugins(logger: _Any, namespace: str) -> _Any:
    """Built-in plugins are always loaded."""
    return True


def get_nv_onnx_parser_version() -> int:
    major, minor, patch = (*TENSORRT_VERSION, 0)[:3]
    return major * 10000 + minor * 100 + patch


def shutdown_protobuf_library() -> None:
    pass
