// The part of oneDNN's C interface that is called, as its version 3 publishes it: opaque handles,
// numbers of its enumerations and functions, which are looked up when the library is opened.
// Source: oneDNN Developer Guide and Reference, C API, versions 3.2 to 3.13.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_API_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_API_H_

#include <stddef.h>
#include <stdint.h>

enum { ONEDNN_MAX_DIMS = 12 };
typedef int64_t onednn_dims[ONEDNN_MAX_DIMS];

typedef struct onednn_engine onednn_engine;
typedef struct onednn_stream onednn_stream;
typedef struct onednn_memory_desc onednn_memory_desc;
typedef struct onednn_memory onednn_memory;
typedef struct onednn_attr onednn_attr;
typedef struct onednn_post_ops onednn_post_ops;
typedef struct onednn_primitive_desc onednn_primitive_desc;
typedef struct onednn_primitive onednn_primitive;

typedef struct onednn_version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;  // ONEDNN_RUNTIME_*
} onednn_version;

// An argument of a primitive: an operand by its number.
typedef struct onednn_argument {
  int number;  // ONEDNN_ARG_*
  onednn_memory* memory;
} onednn_argument;

enum {
  ONEDNN_SUCCESS = 0,
  ONEDNN_OUT_OF_MEMORY = 1,
  ONEDNN_UNIMPLEMENTED = 3,

  ONEDNN_RUNTIME_SEQUENTIAL = 1,
  ONEDNN_RUNTIME_OPENMP = 2,
  ONEDNN_RUNTIME_TBB = 4,
  ONEDNN_RUNTIME_THREADPOOL = 8,
  ONEDNN_RUNTIME_SYCL = 512,

  ONEDNN_ENGINE_CPU = 1,
  ONEDNN_STREAM_IN_ORDER = 1,
  ONEDNN_TYPE_BF16 = 2,
  ONEDNN_TYPE_F32 = 3,
  ONEDNN_FORMAT_ANY = 1,
  ONEDNN_FORMAT_KIND_BLOCKED = 2,
  ONEDNN_FORWARD_INFERENCE = 96,
  ONEDNN_CONVOLUTION_DIRECT = 1,
  ONEDNN_SCRATCHPAD_USER = 1,
  ONEDNN_FPMATH_STRICT = 0,

  ONEDNN_QUERY_IMPLEMENTATION = 8,
  ONEDNN_QUERY_STRIDES = 14,
  ONEDNN_QUERY_ARGUMENT = 255,  // the memory descriptor of an argument
  ONEDNN_QUERY_PADDED_DIMS = 260,
  ONEDNN_QUERY_FORMAT_KIND = 262,
  ONEDNN_QUERY_BLOCK_COUNT = 263,
  ONEDNN_QUERY_BLOCKS = 264,
  ONEDNN_QUERY_BLOCK_AXES = 265,

  ONEDNN_ARG_SRC = 1,  // of a reorder too
  ONEDNN_ARG_DST = 17,
  ONEDNN_ARG_WEIGHTS = 33,
  ONEDNN_ARG_BIAS = 41,
  ONEDNN_ARG_SCRATCHPAD = 80
};

// F(result, name, parameters): dnnl_<name>. Statuses are 0, or ONEDNN_* above.
#define CARNOT_ONEDNN_FUNCTIONS(F)                                                             \
  F(int, engine_create, (onednn_engine * *out, int kind, size_t index))                        \
  F(int, stream_create, (onednn_stream * *out, onednn_engine * engine, unsigned flags))        \
  F(int, stream_destroy, (onednn_stream * stream))                                             \
  F(int, stream_wait, (onednn_stream * stream))                                                \
  F(int, memory_desc_create_with_strides,                                                      \
    (onednn_memory_desc * *out, int rank, const onednn_dims dims, int type,                    \
     const onednn_dims strides))                                                               \
  F(int, memory_desc_create_with_tag,                                                          \
    (onednn_memory_desc * *out, int rank, const onednn_dims dims, int type, int format))       \
  F(int, memory_desc_destroy, (onednn_memory_desc * desc))                                     \
  F(size_t, memory_desc_get_size, (const onednn_memory_desc* desc))                            \
  F(int, memory_desc_query, (const onednn_memory_desc* desc, int what, void* out))             \
  F(int, memory_create,                                                                        \
    (onednn_memory * *out, const onednn_memory_desc* desc, onednn_engine* engine, void* data)) \
  F(int, memory_destroy, (onednn_memory * memory))                                             \
  F(int, memory_set_data_handle, (onednn_memory * memory, void* data))                         \
  F(int, primitive_attr_create, (onednn_attr * *out))                                          \
  F(int, primitive_attr_destroy, (onednn_attr * attr))                                         \
  F(int, primitive_attr_set_scratchpad_mode, (onednn_attr * attr, int mode))                   \
  F(int, primitive_attr_set_fpmath_mode, (onednn_attr * attr, int mode))                       \
  F(int, primitive_attr_set_post_ops, (onednn_attr * attr, const onednn_post_ops* post_ops))   \
  F(int, post_ops_create, (onednn_post_ops * *out))                                            \
  F(int, post_ops_destroy, (onednn_post_ops * post_ops))                                       \
  F(int, post_ops_append_sum,                                                                  \
    (onednn_post_ops * post_ops, float scale, int32_t zero_point, int type))                   \
  F(int, convolution_forward_primitive_desc_create,                                            \
    (onednn_primitive_desc * *out, onednn_engine * engine, int kind, int algorithm,            \
     const onednn_memory_desc* src, const onednn_memory_desc* weights,                         \
     const onednn_memory_desc* bias, const onednn_memory_desc* dst, const onednn_dims strides, \
     const onednn_dims dilations, const onednn_dims pads, const onednn_dims pads_end,          \
     const onednn_attr* attr))                                                                 \
  F(int, matmul_primitive_desc_create,                                                         \
    (onednn_primitive_desc * *out, onednn_engine * engine, const onednn_memory_desc* src,      \
     const onednn_memory_desc* weights, const onednn_memory_desc* bias,                        \
     const onednn_memory_desc* dst, const onednn_attr* attr))                                  \
  F(int, reorder_primitive_desc_create,                                                        \
    (onednn_primitive_desc * *out, const onednn_memory_desc* src, onednn_engine* src_engine,   \
     const onednn_memory_desc* dst, onednn_engine* dst_engine, const onednn_attr* attr))       \
  F(int, primitive_desc_query,                                                                 \
    (const onednn_primitive_desc* desc, int what, int index, void* out))                       \
  F(const onednn_memory_desc*, primitive_desc_query_md,                                        \
    (const onednn_primitive_desc* desc, int what, int index))                                  \
  F(int, primitive_desc_destroy, (onednn_primitive_desc * desc))                               \
  F(int, primitive_create, (onednn_primitive * *out, const onednn_primitive_desc* desc))       \
  F(int, primitive_destroy, (onednn_primitive * primitive))                                    \
  F(int, primitive_execute,                                                                    \
    (const onednn_primitive* primitive, onednn_stream* stream, int count,                      \
     const onednn_argument* arguments))

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_API_H_
