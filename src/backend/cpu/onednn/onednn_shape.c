// From shapes to primitive descriptors of oneDNN, and the packing of their weights.
#include "backend/cpu/onednn/onednn_shape.h"

#include <string.h>

#include "base/hash.h"

static int type_of(int64_t dtype) {
  return dtype == CARNOT_DTYPE_BF16 ? ONEDNN_TYPE_BF16 : ONEDNN_TYPE_F32;
}

// The descriptors that a primitive descriptor is made from, which copies them.
typedef struct operands {
  onednn_memory_desc *src, *weights, *bias, *dst;
  onednn_post_ops* post_ops;
  onednn_attr* attr;
} operands;

static void destroy(const carnot_onednn* library, operands* o) {
  onednn_memory_desc* const descs[] = {o->src, o->weights, o->bias, o->dst};
  for (size_t i = 0; i < sizeof(descs) / sizeof(descs[0]); i++)
    if (descs[i]) library->memory_desc_destroy(descs[i]);
  if (o->post_ops) library->post_ops_destroy(o->post_ops);
  if (o->attr) library->primitive_attr_destroy(o->attr);
}

// [n,c,h,w] with channels innermost.
static carnot_status* make_pixels(const carnot_onednn* library, int64_t n, int64_t c, int64_t h,
                                  int64_t w, int64_t dtype, onednn_memory_desc** out) {
  const onednn_dims dims = {n, c, h, w}, strides = {h * w * c, 1, w * c, c};
  CARNOT_ONEDNN_TRY(library, memory_desc_create_with_strides, out, 4, dims, type_of(dtype),
                    strides);
  return NULL;
}

static carnot_status* make_rows(const carnot_onednn* library, int64_t rows, int64_t columns,
                                int64_t dtype, onednn_memory_desc** out) {
  const onednn_dims dims = {rows, columns}, strides = {columns, 1};
  CARNOT_ONEDNN_TRY(library, memory_desc_create_with_strides, out, 2, dims, type_of(dtype),
                    strides);
  return NULL;
}

// The dimensions of the weights; the rank is returned.
static int weights_dims(const carnot_onednn_shape* s, onednn_dims out) {
  const onednn_dims matrix = {s->c, s->k}, plain = {s->k, s->c, s->r, s->s},
                    grouped = {s->group, s->k / (s->group ? s->group : 1),
                               s->c / (s->group ? s->group : 1), s->r, s->s};
  const int64_t* dims = s->is_matmul ? matrix : s->group > 1 ? grouped : plain;
  memcpy(out, dims, sizeof(onednn_dims));
  return s->is_matmul ? 2 : s->group > 1 ? 5 : 4;
}

static carnot_status* make_attr(const carnot_onednn* library, const carnot_onednn_shape* s,
                                operands* o) {
  CARNOT_ONEDNN_TRY(library, primitive_attr_create, &o->attr);
  CARNOT_ONEDNN_TRY(library, primitive_attr_set_scratchpad_mode, o->attr, ONEDNN_SCRATCHPAD_USER);
  // The environment may have another default.
  CARNOT_ONEDNN_TRY(library, primitive_attr_set_fpmath_mode, o->attr, ONEDNN_FPMATH_STRICT);
  if (!s->sums) return NULL;
  CARNOT_ONEDNN_TRY(library, post_ops_create, &o->post_ops);
  CARNOT_ONEDNN_TRY(library, post_ops_append_sum, o->post_ops, /*scale=*/1, /*zero_point=*/0,
                    type_of(s->dst_dtype));
  CARNOT_ONEDNN_TRY(library, primitive_attr_set_post_ops, o->attr, o->post_ops);
  return NULL;
}

static carnot_status* make_operands(const carnot_onednn* library, const carnot_onednn_shape* s,
                                    operands* o) {
  CARNOT_TRY(s->is_matmul ? make_rows(library, s->n, s->c, s->dtype, &o->src)
                          : make_pixels(library, s->n, s->c, s->h, s->w, s->dtype, &o->src));
  onednn_dims dims;
  const int rank = weights_dims(s, dims);
  CARNOT_ONEDNN_TRY(library, memory_desc_create_with_tag, &o->weights, rank, dims,
                    type_of(s->dtype), ONEDNN_FORMAT_ANY);
  CARNOT_TRY(s->is_matmul ? make_rows(library, s->n, s->k, s->dst_dtype, &o->dst)
                          : make_pixels(library, s->n, s->k, s->p, s->q, s->dst_dtype, &o->dst));
  const onednn_dims row = {1, s->k}, row_strides = {s->k, 1}, one = {1};
  const int vector = s->is_matmul ? 2 : 1;
  if (s->has_bias)
    CARNOT_ONEDNN_TRY(library, memory_desc_create_with_strides, &o->bias, vector,
                      s->is_matmul ? row : row + 1, ONEDNN_TYPE_F32,
                      s->is_matmul ? row_strides : one);
  return make_attr(library, s, o);
}

static carnot_status* make_desc(const carnot_onednn* library, const carnot_onednn_shape* s,
                                const onednn_memory_desc* weights, const operands* o,
                                onednn_primitive_desc** out) {
  if (!weights) weights = o->weights;
  if (s->is_matmul) {
    CARNOT_ONEDNN_TRY(library, matmul_primitive_desc_create, out, library->engine, o->src, weights,
                      o->bias, o->dst, o->attr);
    return NULL;
  }
  const onednn_dims strides = {s->stride_h, s->stride_w},
                    dilations = {s->dilation_h - 1, s->dilation_w - 1}, pads = {s->pad_h, s->pad_w},
                    pads_end = {s->pad_h_end, s->pad_w_end};
  CARNOT_ONEDNN_TRY(library, convolution_forward_primitive_desc_create, out, library->engine,
                    ONEDNN_FORWARD_INFERENCE, ONEDNN_CONVOLUTION_DIRECT, o->src, weights, o->bias,
                    o->dst, strides, dilations, pads, pads_end, o->attr);
  return NULL;
}

static carnot_status* check_implementation(const carnot_onednn* library,
                                           const onednn_primitive_desc* desc) {
  const char* name = "";
  CARNOT_ONEDNN_TRY(library, primitive_desc_query, desc, ONEDNN_QUERY_IMPLEMENTATION, 0, &name);
  CARNOT_CHECK(!strstr(name, "ref"), UNSUPPORTED, "oneDNN has reference code alone (%s)", name);
  return NULL;
}

carnot_status* carnot_onednn_describe(const carnot_onednn* library,
                                      const carnot_onednn_shape* shape,
                                      const onednn_memory_desc* weights, bool takes_reference,
                                      onednn_primitive_desc** out_desc) {
  *out_desc = NULL;
  operands o = {0};
  carnot_status* status = make_operands(library, shape, &o);
  if (!status) status = make_desc(library, shape, weights, &o, out_desc);
  destroy(library, &o);
  if (!status && !takes_reference) status = check_implementation(library, *out_desc);
  if (!status || !*out_desc) return status;
  library->primitive_desc_destroy(*out_desc);
  *out_desc = NULL;
  return status;
}

carnot_status* carnot_onednn_hash_layout(const carnot_onednn* library,
                                         const carnot_onednn_shape* shape,
                                         const onednn_memory_desc* weights, uint64_t* hash) {
  int kind = 0, block_count = 0;
  const int64_t *strides, *padded, *blocks, *axes;
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_FORMAT_KIND, &kind);
  CARNOT_CHECK(kind == ONEDNN_FORMAT_KIND_BLOCKED, UNSUPPORTED,
               "oneDNN packs the weights in a layout that cannot be stored");
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_STRIDES, &strides);
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_PADDED_DIMS, &padded);
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_BLOCK_COUNT, &block_count);
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_BLOCKS, &blocks);
  CARNOT_ONEDNN_TRY(library, memory_desc_query, weights, ONEDNN_QUERY_BLOCK_AXES, &axes);
  onednn_dims dims;
  const size_t rank = (size_t)weights_dims(shape, dims) * sizeof(int64_t),
               inner = (size_t)block_count * sizeof(int64_t);
  *hash = carnot_hash_pair(strides, rank, padded, rank, *hash);
  *hash = carnot_hash_pair(blocks, inner, axes, inner, *hash);
  return NULL;
}

// ---- packing ----

static carnot_status* execute(const carnot_onednn* library, const onednn_primitive_desc* desc,
                              onednn_stream* stream, onednn_argument* arguments) {
  onednn_primitive* primitive;
  CARNOT_ONEDNN_TRY(library, primitive_create, &primitive, desc);
  int result = library->primitive_execute(primitive, stream, 2, arguments);
  if (result == ONEDNN_SUCCESS) result = library->stream_wait(stream);
  library->primitive_destroy(primitive);
  return carnot_onednn_check(result, "primitive_execute (reorder)");
}

carnot_status* carnot_onednn_reorder(const carnot_onednn* library, const onednn_memory_desc* from,
                                     const onednn_memory_desc* to, const void* src, void* dst) {
  onednn_primitive_desc* desc = NULL;
  onednn_stream* stream = NULL;
  onednn_argument arguments[] = {{ONEDNN_ARG_SRC, NULL}, {ONEDNN_ARG_DST, NULL}};
  carnot_status* status =
      carnot_onednn_check(library->reorder_primitive_desc_create(&desc, from, library->engine, to,
                                                                 library->engine, NULL),
                          "reorder_primitive_desc_create");
  if (!status)
    status = carnot_onednn_check(
        library->stream_create(&stream, library->engine, ONEDNN_STREAM_IN_ORDER), "stream_create");
  if (!status)
    status = carnot_onednn_check(
        library->memory_create(&arguments[0].memory, from, library->engine, (void*)(uintptr_t)src),
        "memory_create");
  if (!status)
    status = carnot_onednn_check(
        library->memory_create(&arguments[1].memory, to, library->engine, dst), "memory_create");
  if (!status) status = execute(library, desc, stream, arguments);
  for (int i = 0; i < 2; i++)
    if (arguments[i].memory) library->memory_destroy(arguments[i].memory);
  if (stream) library->stream_destroy(stream);
  if (desc) library->primitive_desc_destroy(desc);
  return status;
}

carnot_status* carnot_onednn_pack(const carnot_onednn* library, const carnot_onednn_shape* shape,
                                  const onednn_memory_desc* weights, const float* src,
                                  int64_t row_stride, int64_t column_stride, void* packed) {
  onednn_dims dims, strides = {row_stride, column_stride};
  const int rank = weights_dims(shape, dims);
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0 && !shape->is_matmul; d--) {
    strides[d] = stride;
    stride *= dims[d];
  }
  onednn_memory_desc* plain;
  CARNOT_ONEDNN_TRY(library, memory_desc_create_with_strides, &plain, rank, dims, ONEDNN_TYPE_F32,
                    strides);
  carnot_status* status = carnot_onednn_reorder(library, plain, weights, src, packed);
  library->memory_desc_destroy(plain);
  return status;
}
