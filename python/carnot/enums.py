"""Enumerations with TensorRT's names and values (those of 10.x first, names of other versions behind)."""

from __future__ import annotations

import enum
import types
from typing import Any, Dict, Iterator, List, Mapping

from .version import TENSORRT_VERSION


class _Listed(enum.EnumMeta):
    """Lists the members that TensorRT of the reported version has; the others are there by name and value."""

    def _unlisted(cls) -> Any:
        return cls.__dict__.get("_newer", ())

    @property
    def __members__(cls) -> Mapping[str, Any]:  # type: ignore[override]
        return types.MappingProxyType({n: m for n, m in cls._member_map_.items() if n not in cls._unlisted()})

    def __iter__(cls) -> Iterator[Any]:
        return (cls._member_map_[name] for name in cls._member_names_ if name not in cls._unlisted())

    def __len__(cls) -> int:
        return sum(1 for _ in cls)


class _Enum(enum.Enum, metaclass=_Listed):
    """An enumeration as in TensorRT's bindings: converts to int, equals only its own members."""

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __getattr__(self, name: str) -> Any:
        # A member gives access to all members: logger.min_severity.ERROR.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return type(self)._member_map_[name]
        except KeyError:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'") from None


# NAME=VALUE@VERSION: a value without '=' is one more than the one before. Loops over an enumeration meet a member with
# '@' only if TensorRT of the reported version has it (from VERSION on; without one never); by name all are there.
_ENUMS = """
APILanguage CPP PYTHON
ActivationType RELU SIGMOID TANH LEAKY_RELU ELU SELU SOFTSIGN SOFTPLUS CLIP HARD_SIGMOID SCALED_TANH THRESHOLDED_RELU
  GELU_ERF@10.0 GELU_TANH@10.0
AllocatorFlag RESIZABLE
AttentionIOForm PADDED_BHND PACKED_NHD
AttentionNormalizationOp NONE SOFTMAX
BoundingBoxFormat CORNER_PAIRS CENTER_SIZES
BuilderFlag FP16 INT8 DEBUG GPU_FALLBACK REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS SAFETY_SCOPE
  OBEY_PRECISION_CONSTRAINTS PREFER_PRECISION_CONSTRAINTS DIRECT_IO REJECT_EMPTY_ALGORITHMS VERSION_COMPATIBLE
  EXCLUDE_LEAN_RUNTIME FP8 ERROR_ON_TIMING_CACHE_MISS@10.0 BF16@10.0 DISABLE_COMPILATION_CACHE@10.0 STRIP_PLAN@10.0
  WEIGHTLESS=19@10.0 REFIT_IDENTICAL=20@10.0 WEIGHT_STREAMING@10.0 INT4@10.1 REFIT_INDIVIDUAL@10.2 STRICT_NANS@10.6
  MONITOR_MEMORY@10.6 FP4@10.8 EDITABLE_TIMING_CACHE@10.8 DISTRIBUTIVE_INDEPENDENCE@10.12 STRICT_TYPES=40
  ENABLE_TACTIC_HEURISTIC
CalibrationAlgoType LEGACY_CALIBRATION ENTROPY_CALIBRATION ENTROPY_CALIBRATION_2 MINMAX_CALIBRATION
CausalMaskKind NONE UPPER_LEFT LOWER_RIGHT
CollectiveOperation ALL_REDUCE ALL_GATHER BROADCAST REDUCE REDUCE_SCATTER ALL_TO_ALL GATHER SCATTER
CumulativeOperation SUM
DataType FLOAT HALF INT8 INT32 BOOL UINT8 FP8 BF16@10.0 INT64@10.0 INT4@10.0 FP4@10.8 E8M0@10.12 DOUBLE=64@ INT16@
  UINT16@ UINT32@ UINT64@
DeviceType GPU DLA
DimensionOperation SUM PROD MAX MIN SUB EQUAL LESS FLOOR_DIV CEIL_DIV
ElementWiseOperation SUM PROD MAX MIN SUB DIV POW FLOOR_DIV AND OR XOR EQUAL GREATER LESS
EngineCapability STANDARD DEFAULT=0 SAFETY=1 SAFE_GPU=1 DLA_STANDALONE=2 SAFE_DLA=2
EngineStat TOTAL_WEIGHTS_SIZE STRIPPED_WEIGHTS_SIZE
ErrorCodeTRT SUCCESS UNSPECIFIED_ERROR INTERNAL_ERROR INVALID_ARGUMENT INVALID_CONFIG FAILED_ALLOCATION
  FAILED_INITIALIZATION FAILED_EXECUTION FAILED_COMPUTATION INVALID_STATE UNSUPPORTED_STATE
ErrorCode SUCCESS INTERNAL_ERROR MEM_ALLOC_FAILED MODEL_DESERIALIZE_FAILED INVALID_VALUE INVALID_GRAPH INVALID_NODE
  UNSUPPORTED_GRAPH UNSUPPORTED_NODE UNSUPPORTED_NODE_ATTR@10.0 UNSUPPORTED_NODE_INPUT@10.0
  UNSUPPORTED_NODE_DATATYPE@10.0 UNSUPPORTED_NODE_DYNAMIC@10.0 UNSUPPORTED_NODE_SHAPE@10.0 REFIT_FAILED@10.0
ExecutionContextAllocationStrategy STATIC ON_PROFILE_CHANGE USER_MANAGED
FieldType FLOAT INT32 CHAR DIMS DATATYPE UNKNOWN
FillOperation LINSPACE RANDOM_UNIFORM RANDOM_NORMAL
GatherMode DEFAULT ELEMENT ND
HardwareCompatibilityLevel NONE AMPERE_PLUS SAME_COMPUTE_CAPABILITY@10.9
InterpolationMode NEAREST LINEAR CUBIC
KVCacheMode LINEAR
LayerInformationFormat ONELINE JSON
LayerType CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION ELEMENTWISE PLUGIN UNARY
  PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY RAGGED_SOFTMAX CONSTANT IDENTITY PLUGIN_V2 SLICE SHAPE
  PARAMETRIC_RELU RESIZE TRIP_LIMIT RECURRENCE ITERATOR LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION
  CONDITIONAL_INPUT CONDITIONAL_OUTPUT SCATTER EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE NMS REVERSE_SEQUENCE
  NORMALIZATION PLUGIN_V3@10.0 SQUEEZE@10.7 UNSQUEEZE@10.7 CUMULATIVE@10.8 DYNAMIC_QUANTIZE@10.8 ATTENTION_INPUT@10.14
  ATTENTION_OUTPUT@10.14 ROTARY_EMBEDDING@10.15 KV_CACHE_UPDATE@10.15 MOE@10.16 DIST_COLLECTIVE@10.16
  FULLY_CONNECTED=100 RNN_V2 ATTENTION@ REFERENCE@
LoopOutput LAST_VALUE CONCATENATE REVERSE
MatrixOperation NONE TRANSPOSE VECTOR
MemoryPoolType WORKSPACE DLA_MANAGED_SRAM DLA_LOCAL_DRAM DLA_GLOBAL_DRAM TACTIC_DRAM TACTIC_SHARED_MEMORY@10.0
MoEActType NONE SILU
NetworkDefinitionCreationFlag EXPLICIT_BATCH STRONGLY_TYPED@10.0 PREFER_AOT_PYTHON_PLUGINS@10.9
  PREFER_JIT_PYTHON_PLUGINS@10.9 EXPLICIT_PRECISION=8
OnnxParserFlag NATIVE_INSTANCENORM ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA@10.11 REPORT_CAPABILITY_DLA@10.15
  ENABLE_PLUGIN_OVERRIDE@10.15 ADJUST_FOR_DLA@10.16
PaddingMode EXPLICIT_ROUND_DOWN EXPLICIT_ROUND_UP SAME_UPPER SAME_LOWER CAFFE_ROUND_DOWN CAFFE_ROUND_UP
PluginArgDataType INT8 INT16 INT32
PluginArgType INT
PluginCapabilityType CORE BUILD RUNTIME
PluginCreatorVersion V1 V1_PYTHON
PluginFieldType FLOAT16 FLOAT32 FLOAT64 INT8 INT16 INT32 CHAR DIMS UNKNOWN BF16@10.0 INT64@10.0 FP8@10.0 INT4@10.1
  FP4@10.8
PoolingType MAX AVERAGE MAX_AVERAGE_BLEND
PreviewFeature PROFILE_SHARING_0806 ALIASED_PLUGIN_IO_10_03@10.3 RUNTIME_ACTIVATION_RESIZE_10_10@10.11
  FASTER_DYNAMIC_SHAPES_0805=16 DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805
ProfilingVerbosity LAYER_NAMES_ONLY DEFAULT=0 NONE=1 DETAILED=2 VERBOSE=2
QuantizationFlag CALIBRATE_BEFORE_FUSION
QuickPluginCreationRequest UNKNOWN PREFER_JIT PREFER_AOT STRICT_JIT STRICT_AOT
RNNDirection UNIDIRECTION BIDIRECTION
RNNGateType INPUT OUTPUT FORGET UPDATE RESET CELL HIDDEN
RNNInputMode LINEAR SKIP
RNNOperation RELU TANH LSTM GRU
ReduceOperation SUM PROD MAX MIN AVG NONE@10.16
ResizeCoordinateTransformation ALIGN_CORNERS ASYMMETRIC HALF_PIXEL
ResizeRoundMode HALF_UP HALF_DOWN FLOOR CEIL
ResizeSelector FORMULA UPPER
RuntimePlatform SAME_AS_BUILD WINDOWS_AMD64
SampleMode STRICT_BOUNDS DEFAULT=0 WRAP=1 CLAMP FILL REFLECT
ScaleMode UNIFORM CHANNEL ELEMENTWISE
ScatterMode ELEMENT ND
SeekPosition SET CUR END
SerializationFlag EXCLUDE_WEIGHTS EXCLUDE_LEAN_RUNTIME INCLUDE_REFIT@10.14
Severity INTERNAL_ERROR ERROR WARNING INFO VERBOSE
TacticSource CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS
TempfileControlFlag ALLOW_IN_MEMORY_FILES ALLOW_TEMPORARY_FILES
TensorFormat LINEAR CHW2 HWC8 CHW4 CHW16 CHW32 DHWC8 CDHW32 HWC DLA_LINEAR DLA_HWC4 HWC16 DHWC
TensorIOMode NONE INPUT OUTPUT
TensorLocation DEVICE HOST
TensorRTPhase BUILD RUNTIME
TilingOptimizationLevel NONE FAST MODERATE FULL
TopKOperation MAX MIN
TripLimit COUNT WHILE
UffInputOrder NCHW NHWC NC
UnaryOperation EXP LOG SQRT RECIP ABS NEG SIN COS TAN SINH COSH ASIN ACOS ATAN ASINH ACOSH ATANH CEIL FLOOR ERF NOT SIGN
  ROUND ISINF ISNAN@10.1
WeightsRole KERNEL BIAS SHIFT SCALE CONSTANT ANY
"""


def _make_enums() -> Dict[str, Any]:
    made = {}
    for line in _ENUMS.strip().replace("\n  ", " ").splitlines():
        name, *words = line.split()
        members: Dict[str, int] = {}
        newer = set()
        value = -1
        for word in words:
            word, at, version = word.partition("@")
            member, _, given = word.partition("=")
            value = int(given) if given else value + 1
            members[member] = value
            if at and (not version or tuple(map(int, version.split("."))) > TENSORRT_VERSION[:2]):
                newer.add(member)
        made[name] = _Enum(name, members, module="carnot")
        made[name]._newer = frozenset(newer)
        setattr(made[name], "__entries", {m.name: (m, None) for m in made[name]._member_map_.values()})
    return made


_made = _make_enums()
globals().update(_made)
__all__: List[str] = [name for name in _made if name != "Severity"]
