// Element types of the reductions: X(type, dtype, accumulator).
#ifndef CARNOT_KERNEL_CUDA_REDUCE_REDUCE_TYPES_H_
#define CARNOT_KERNEL_CUDA_REDUCE_REDUCE_TYPES_H_

// clang-format off
#define CARNOT_CUDA_REDUCE_TYPES(X)                                                \
  X(f32, F32, f32) X(f16, F16, f32) X(bf16, BF16, f32) X(f64, F64, f64)             \
  X(i32, I32, i32) X(i64, I64, i64) X(i8, I8, i32) X(u8, U8, i32) X(b8, BOOL, i32)  \
  X(u32, U32, u32) X(u64, U64, u64)
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_REDUCE_REDUCE_TYPES_H_
