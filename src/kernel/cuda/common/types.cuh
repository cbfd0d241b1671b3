// Storage types of device code (f32, f16, bf16, i8, ...), loads and stores between storage and
// compute types, and the programmatic dependent launch barrier. The text is part of every generated
// program and of its hash in an engine file, hence the separate file that must not change without a
// new engine version.
#pragma once

#include "kernel/cuda/common/prelude_types.inl"
