"""Enumerations and structures of the CUDA runtime's Python module, as far as scripts that run engines name them."""

from __future__ import annotations

import enum
from typing import Any, Dict

# Name and values; a value without '=' is one more than the one before.
_TABLE = """
cudaError_t cudaSuccess=0 cudaErrorInvalidValue=1 cudaErrorMemoryAllocation=2 cudaErrorNotSupported=801
cudaMemcpyKind cudaMemcpyHostToHost=0 cudaMemcpyHostToDevice cudaMemcpyDeviceToHost cudaMemcpyDeviceToDevice
  cudaMemcpyDefault
cudaDeviceAttr cudaDevAttrMaxThreadsPerBlock=1 cudaDevAttrMaxBlockDimX cudaDevAttrMaxBlockDimY cudaDevAttrMaxBlockDimZ
  cudaDevAttrMaxGridDimX cudaDevAttrMaxGridDimY cudaDevAttrMaxGridDimZ cudaDevAttrMaxSharedMemoryPerBlock
  cudaDevAttrTotalConstantMemory cudaDevAttrWarpSize cudaDevAttrMaxPitch cudaDevAttrMaxRegistersPerBlock
  cudaDevAttrClockRate cudaDevAttrMultiProcessorCount=16 cudaDevAttrIntegrated=18 cudaDevAttrCanMapHostMemory
  cudaDevAttrConcurrentKernels=31 cudaDevAttrMemoryClockRate=36 cudaDevAttrGlobalMemoryBusWidth cudaDevAttrL2CacheSize
  cudaDevAttrMaxThreadsPerMultiProcessor cudaDevAttrAsyncEngineCount cudaDevAttrUnifiedAddressing
  cudaDevAttrComputeCapabilityMajor=75 cudaDevAttrComputeCapabilityMinor cudaDevAttrManagedMemory=83
  cudaDevAttrConcurrentManagedAccess=89 cudaDevAttrCooperativeLaunch=95 cudaDevAttrMaxSharedMemoryPerBlockOptin=97
  cudaDevAttrMemoryPoolsSupported=115
cudaMemAllocationType cudaMemAllocationTypeInvalid=0 cudaMemAllocationTypePinned
cudaMemAllocationHandleType cudaMemHandleTypeNone=0 cudaMemHandleTypePosixFileDescriptor
cudaMemLocationType cudaMemLocationTypeInvalid=0 cudaMemLocationTypeDevice cudaMemLocationTypeHost
cudaMemPoolAttr cudaMemPoolReuseFollowEventDependencies=1 cudaMemPoolReuseAllowOpportunistic
  cudaMemPoolReuseAllowInternalDependencies cudaMemPoolAttrReleaseThreshold cudaMemPoolAttrReservedMemCurrent
  cudaMemPoolAttrReservedMemHigh cudaMemPoolAttrUsedMemCurrent cudaMemPoolAttrUsedMemHigh
cudaStreamCaptureMode cudaStreamCaptureModeGlobal=0 cudaStreamCaptureModeThreadLocal cudaStreamCaptureModeRelaxed
cudaStreamCaptureStatus cudaStreamCaptureStatusNone=0 cudaStreamCaptureStatusActive cudaStreamCaptureStatusInvalidated
"""


def _make() -> Dict[str, Any]:
    made = {}
    for line in _TABLE.strip().replace("\n  ", " ").splitlines():
        name, *words = line.split()
        members: Dict[str, int] = {}
        value = -1
        for word in words:
            member, _, given = word.partition("=")
            value = members[member] = int(given) if given else value + 1
        made[name] = enum.IntEnum(name, members, module=__name__)
    return made


ENUMS = _make()
cudaError_t = ENUMS["cudaError_t"]  # noqa: N816 - CUDA's name


class cudaMemLocation:  # noqa: N801
    """Where the memory of a pool is."""

    def __init__(self) -> None:
        self.type = ENUMS["cudaMemLocationType"].cudaMemLocationTypeInvalid
        self.id = 0


class cudaMemPoolProps:  # noqa: N801
    """The properties of a memory pool."""

    def __init__(self) -> None:
        self.allocType = ENUMS["cudaMemAllocationType"].cudaMemAllocationTypeInvalid  # noqa: N815
        self.handleTypes = ENUMS["cudaMemAllocationHandleType"].cudaMemHandleTypeNone  # noqa: N815
        self.location = cudaMemLocation()
        self.win32SecurityAttributes = None  # noqa: N815


class _Integer(int):
    """An integer type of the driver's interface."""

    def getPtr(self) -> int:  # noqa: N802
        return int(self)


def contents() -> Dict[str, Any]:
    """The names of the runtime module."""
    return {**ENUMS, "cudaMemLocation": cudaMemLocation, "cudaMemPoolProps": cudaMemPoolProps}


INTEGERS = {name: type(name, (_Integer,), {}) for name in ("cuuint32_t", "cuuint64_t", "CUdeviceptr", "CUdevice")}
