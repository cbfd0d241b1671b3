// cuDNN backend operation graphs of convolutions and attention.
#include "backend/cuda/library/cudnn_graph.h"

#include "backend/cuda/common/tactic.h"

typedef carnot_cuda_cudnn_graph graph;
typedef cudnnBackendDescriptor_t descriptor;

// ---- descriptors ----

descriptor carnot_cuda_cudnn_make(graph* g, cudnnBackendDescriptorType_t type) {
  descriptor d = NULL;
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->count < (int)(sizeof(g->made) / sizeof(g->made[0]))
                    ? g->cuda->cudnnBackendCreateDescriptor(type, &d)
                    : CUDNN_STATUS_INTERNAL_ERROR;
  if (d) g->made[g->count++] = d;
  return d;
}
void carnot_cuda_cudnn_set(graph* g, descriptor d, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count, const void* value) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->cuda->cudnnBackendSetAttribute(d, name, type, count, value);
}
descriptor carnot_cuda_cudnn_finish(graph* g, descriptor d) {
  if (g->status == CUDNN_STATUS_SUCCESS) g->status = g->cuda->cudnnBackendFinalize(d);
  return d;
}
void carnot_cuda_cudnn_drop(graph* g) {
  for (int i = g->count - 1; i >= 0; i--) g->cuda->cudnnBackendDestroyDescriptor(g->made[i]);
  g->count = 0;
}

static void set_ints(graph* g, descriptor d, cudnnBackendAttributeName_t name, int64_t count,
                     const int64_t* values) {
  carnot_cuda_cudnn_set(g, d, name, CUDNN_TYPE_INT64, count, values);
}
static void set_type(graph* g, descriptor d, cudnnBackendAttributeName_t name,
                     cudnnDataType_t type) {
  carnot_cuda_cudnn_set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}
static void set_part(graph* g, descriptor d, cudnnBackendAttributeName_t name, descriptor part) {
  carnot_cuda_cudnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static cudnnDataType_t data_type(int32_t dtype) {
  return dtype == CARNOT_DTYPE_F32   ? CUDNN_DATA_FLOAT
         : dtype == CARNOT_DTYPE_F16 ? CUDNN_DATA_HALF
                                     : CUDNN_DATA_BFLOAT16;
}

// Virtual: of the numbers between operations, never in memory. By value: one number, in host
// memory.
typedef enum tensor_kind { kInMemory, kVirtual, kByValue } tensor_kind;
static descriptor tensor(graph* g, int64_t id, cudnnDataType_t type, int rank, const int64_t* dims,
                         const int64_t* strides, tensor_kind kind) {
  descriptor d = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t alignment = kind == kByValue ? 4 : 16;
  const bool is_virtual = kind == kVirtual, by_value = kind == kByValue;
  set_ints(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
  set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  set_ints(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
  set_ints(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, rank, dims);
  set_ints(g, d, CUDNN_ATTR_TENSOR_STRIDES, rank, strides);
  carnot_cuda_cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  carnot_cuda_cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  return carnot_cuda_cudnn_finish(g, d);
}

// ---- operations; all compute in float32 ----

static descriptor pointwise(graph* g, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                            descriptor y) {
  descriptor p = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  carnot_cuda_cudnn_set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set_type(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  carnot_cuda_cudnn_finish(g, p);
  descriptor op = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
  set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return carnot_cuda_cudnn_finish(g, op);
}

static descriptor matmul(graph* g, descriptor a, descriptor b, descriptor c) {
  descriptor p = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set_type(g, p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  carnot_cuda_cudnn_finish(g, p);
  descriptor op = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, p);
  set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  return carnot_cuda_cudnn_finish(g, op);
}

static descriptor reduction(graph* g, cudnnReduceTensorOp_t mode, descriptor x, descriptor y) {
  descriptor p = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  carnot_cuda_cudnn_set(g, p, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                        &mode);
  set_type(g, p, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  carnot_cuda_cudnn_finish(g, p);
  descriptor op = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, p);
  set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  return carnot_cuda_cudnn_finish(g, op);
}

// ---- convolution ----

typedef struct extents {
  int rank;
  int64_t x[5], w[5], y[5], x_s[5], w_s[5], y_s[5], bias[5], bias_s[5];
  int64_t pre[3], post[3], dilation[3], step[3];
} extents;

static void read_extents(const carnot_cuda_cudnn_key* key, extents* e) {
  const carnot_cuda_sliding_window* t = &key->conv.window;
  const int spatial = key->conv.spatial, first = 3 - spatial;
  *e = (extents){.rank = 2 + spatial};
  e->x[0] = e->y[0] = t->n, e->x[1] = t->channels, e->y[1] = t->filters;
  e->w[0] = t->filters, e->w[1] = t->channels / t->groups;
  e->x_s[0] = t->x_n, e->x_s[1] = t->x_c, e->y_s[0] = t->y_n, e->y_s[1] = t->y_c;
  for (int d = 0; d < spatial; d++) {
    int s = first + d;
    e->x[2 + d] = t->in[s], e->y[2 + d] = t->out[s], e->w[2 + d] = t->kernel[s];
    e->x_s[2 + d] = t->x_s[s] ? t->x_s[s] : t->in[2] * t->x_s[2];
    e->y_s[2 + d] = t->y_s[s] ? t->y_s[s] : t->out[2] * t->y_s[2];
    e->pre[d] = t->begin[s], e->post[d] = t->end[s];
    e->dilation[d] = t->dilation[s], e->step[d] = t->step[s];
  }
  int64_t stride = 1, order[5] = {0};
  bool half = carnot_cuda_is_half((carnot_dtype)key->dtype);
  for (int i = 0; i < e->rank; i++)
    order[i] = !half ? e->rank - 1 - i : i == 0 ? 1 : i == e->rank - 1 ? 0 : e->rank - i;
  for (int i = 0; i < e->rank; i++) {
    e->w_s[order[i]] = stride;
    stride *= e->w[order[i]];
    e->bias[i] = i == 1 ? t->filters : 1;
    e->bias_s[i] = i == 0 ? t->filters : i == 1 ? 1 : half ? t->filters : 1;
  }
}

static descriptor convolution(graph* g, int64_t spatial, const extents* e, descriptor x,
                              descriptor w, descriptor y) {
  descriptor conv = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  set_ints(g, conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &spatial);
  set_type(g, conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  carnot_cuda_cudnn_set(g, conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                        &mode);
  set_ints(g, conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial, e->pre);
  set_ints(g, conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial, e->post);
  set_ints(g, conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial, e->dilation);
  set_ints(g, conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial, e->step);
  carnot_cuda_cudnn_finish(g, conv);
  descriptor op = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const float one = 1, zero = 0;
  carnot_cuda_cudnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1,
                        &one);
  carnot_cuda_cudnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1,
                        &zero);
  set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv);
  set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  return carnot_cuda_cudnn_finish(g, op);
}

static int add_convolution(graph* g, const carnot_cuda_cudnn_key* key, descriptor* ops) {
  extents e;
  read_extents(key, &e);
  cudnnDataType_t type = data_type(key->dtype);
  int left =
      key->conv.bias + key->conv.residual + (key->conv.activation != CARNOT_CUDA_NO_ACTIVATION);
  int64_t next = CARNOT_CUDA_CUDNN_VIRTUAL;
#define RESULT()                                                              \
  (left-- ? tensor(g, next++, CUDNN_DATA_FLOAT, e.rank, e.y, e.y_s, kVirtual) \
          : tensor(g, CARNOT_CUDA_CUDNN_Y, type, e.rank, e.y, e.y_s, kInMemory))
  descriptor x = tensor(g, CARNOT_CUDA_CUDNN_X, type, e.rank, e.x, e.x_s, kInMemory),
             w = tensor(g, CARNOT_CUDA_CUDNN_W, type, e.rank, e.w, e.w_s, kInMemory), at = RESULT();
  int count = 0;
  ops[count++] = convolution(g, key->conv.spatial, &e, x, w, at);
  if (key->conv.bias) {
    descriptor b = tensor(g, CARNOT_CUDA_CUDNN_BIAS, type, e.rank, e.bias, e.bias_s, kInMemory),
               y = RESULT();
    ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, at, b, y);
    at = y;
  }
  if (key->conv.residual) {
    descriptor b = tensor(g, CARNOT_CUDA_CUDNN_RESIDUAL, type, e.rank, e.y, e.y_s, kInMemory),
               y = RESULT();
    ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, at, b, y);
    at = y;
  }
  if (key->conv.activation) {
    bool silu = key->conv.activation == CARNOT_CUDA_SILU;
    ops[count++] = pointwise(g, silu ? CUDNN_POINTWISE_SWISH_FWD : CUDNN_POINTWISE_RELU_FWD, at,
                             NULL, RESULT());
  }
#undef RESULT
  return count;
}

// ---- attention ----

// softmax(q k' scale) v, written out: the library recognises it.
static int add_attention(graph* g, const carnot_cuda_cudnn_key* key, descriptor* ops) {
  const carnot_cuda_attention_params* a = &key->attention.call;
  const int64_t outer = key->attention.heads / a->inner, inner = a->inner, m = a->queries,
                n = a->keys;
  const int64_t one[4] = {1, 1, 1, 1}, matrix[4] = {outer, inner, m, n},
                matrix_s[4] = {inner * m * n, m * n, n, 1}, row[4] = {outer, inner, m, 1},
                row_s[4] = {inner * m, m, 1, 1}, q_dims[4] = {outer, inner, m, a->size},
                k_dims[4] = {outer, inner, a->size, n},
                v_dims[4] = {outer, inner, n, a->value_size},
                y_dims[4] = {outer, inner, m, a->value_size};
  const int64_t q_s[4] = {a->q_s[0], a->q_s[1], a->q_s[2], 1},
                k_s[4] = {a->k_s[0], a->k_s[1], 1, a->k_s[2]},
                v_s[4] = {a->v_s[0], a->v_s[1], a->v_s[2], 1},
                y_s[4] = {a->y_s[0], a->y_s[1], a->y_s[2], 1};
  const cudnnDataType_t type = data_type(key->dtype), sums = CUDNN_DATA_FLOAT;
  int64_t next = CARNOT_CUDA_CUDNN_VIRTUAL;
#define MATRIX(type) tensor(g, next++, type, 4, matrix, matrix_s, kVirtual)
#define ROW()        tensor(g, next++, sums, 4, row, row_s, kVirtual)
  descriptor q = tensor(g, CARNOT_CUDA_CUDNN_Q, type, 4, q_dims, q_s, kInMemory),
             k = tensor(g, CARNOT_CUDA_CUDNN_K, type, 4, k_dims, k_s, kInMemory),
             v = tensor(g, CARNOT_CUDA_CUDNN_V, type, 4, v_dims, v_s, kInMemory),
             y = tensor(g, CARNOT_CUDA_CUDNN_Y, type, 4, y_dims, y_s, kInMemory),
             scale = tensor(g, CARNOT_CUDA_CUDNN_SCALE, sums, 4, one, one, kByValue);
  descriptor unscaled = MATRIX(sums), scores = MATRIX(sums), most = ROW(), below = MATRIX(sums),
             powers = MATRIX(sums), sum = ROW(), weights = MATRIX(type), log = ROW(),
             unread = ROW();
#undef MATRIX
#undef ROW
  int count = 0;
  ops[count++] = matmul(g, q, k, unscaled);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_MUL, unscaled, scale, scores);
  ops[count++] = reduction(g, CUDNN_REDUCE_TENSOR_MAX, scores, most);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_SUB, scores, most, below);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_EXP, below, NULL, powers);
  ops[count++] = reduction(g, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, log);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, most, log, unread);
  ops[count++] = pointwise(g, CUDNN_POINTWISE_DIV, powers, sum, weights);
  ops[count++] = matmul(g, weights, v, y);
  return count;
}

descriptor carnot_cuda_cudnn_operations(graph* g, const carnot_cuda_cudnn_key* key) {
  descriptor ops[10];
  int64_t count = key->kind == CARNOT_CUDA_CUDNN_CONV ? add_convolution(g, key, ops)
                                                      : add_attention(g, key, ops);
  descriptor all = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  carnot_cuda_cudnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                        ops);
  if (g->handle)
    carnot_cuda_cudnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                          &g->handle);
  return carnot_cuda_cudnn_finish(g, all);
}
