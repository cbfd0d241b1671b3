// Strided copies of any rank, and fill.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/copy/transpose.h"

typedef struct axes {
  int rank;
  int64_t sizes[CARNOT_COPY_MAX_RANK], src[CARNOT_COPY_MAX_RANK], dst[CARNOT_COPY_MAX_RANK];
} axes;

// Drops axes of size 1 and joins neighbours that are one run on both sides.
static axes axes_joined(const carnot_copy_desc* p) {
  axes a = {.rank = 0};
  for (int i = 0; i < p->rank; ++i) {
    if (p->sizes[i] == 1) continue;
    const int last = a.rank - 1;
    if (a.rank > 0 && a.src[last] == p->sizes[i] * p->src_strides[i] &&
        a.dst[last] == p->sizes[i] * p->dst_strides[i]) {
      a.sizes[last] *= p->sizes[i];
      a.src[last] = p->src_strides[i], a.dst[last] = p->dst_strides[i];
      continue;
    }
    a.sizes[a.rank] = p->sizes[i];
    a.src[a.rank] = p->src_strides[i], a.dst[a.rank] = p->dst_strides[i];
    ++a.rank;
  }
  return a;
}

static void move_axis_to_end(axes* a, int axis) {
  const int64_t size = a->sizes[axis], src = a->src[axis], dst = a->dst[axis];
  for (int i = axis; i + 1 < a->rank; ++i) {
    a->sizes[i] = a->sizes[i + 1], a->src[i] = a->src[i + 1], a->dst[i] = a->dst[i + 1];
  }
  a->sizes[a->rank - 1] = size, a->src[a->rank - 1] = src, a->dst[a->rank - 1] = dst;
}

static int axis_with_unit(const axes* a, const int64_t* strides) {
  for (int i = a->rank - 1; i >= 0; --i) {
    if (strides[i] == 1) return i;
  }
  return -1;
}

// One element n times.
#define FILL(type)                                                \
  {                                                               \
    type one;                                                     \
    memcpy(&one, src, sizeof(one));                               \
    for (int64_t i = 0; i < n; ++i) ((type*)(void*)dst)[i] = one; \
    return;                                                       \
  }
static void fill_elements(int bytes, int64_t n, const char* src, char* dst) {
  switch (bytes) {
    case 1: FILL(uint8_t)
    case 2: FILL(uint16_t)
    case 4: FILL(uint32_t)
    default: FILL(uint64_t)
  }
}
#undef FILL

enum { kMostStep = 4 };  // between elements that vectors are made of

// Every |step|-th element: constant steps are loads and permutations of vectors.
#define EVERY(type, step)                                               \
  for (int64_t i = 0; i < n; ++i)                                       \
    ((type*)(void*)dst)[i] = ((const type*)(const void*)src)[i * step]; \
  return;
#define EVERY_STEP(type)            \
  switch (step) {                   \
    case 2: EVERY(type, 2)          \
    case 3: EVERY(type, 3)          \
    default: EVERY(type, kMostStep) \
  }
static void copy_every(int bytes, int64_t n, const char* src, int64_t step, char* dst) {
  if (bytes == 2) EVERY_STEP(uint16_t)
  EVERY_STEP(uint32_t)
}
#undef EVERY_STEP
#undef EVERY

static void copy_elements(int bytes, int64_t n, const char* src, int64_t src_step, char* dst,
                          int64_t dst_step) {
  if (src_step == 0 && dst_step == 1) {
    fill_elements(bytes, n, src, dst);
    return;
  }
  if (dst_step == 1 && src_step >= 2 && src_step <= kMostStep && (bytes == 2 || bytes == 4)) {
    copy_every(bytes, n, src, src_step, dst);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    switch (bytes) {  // constant sizes: each is one load and one store
      case 1: memcpy(dst, src, 1); break;
      case 2: memcpy(dst, src, 2); break;
      case 4: memcpy(dst, src, 4); break;
      default: memcpy(dst, src, 8); break;
    }
    src += src_step * bytes, dst += dst_step * bytes;
  }
}

// The inner two axes: [m,n] with the second contiguous in src, the first in dst.
static void copy_transposed(int bytes, int64_t m, int64_t n, const void* src, int64_t src_ld,
                            void* dst, int64_t dst_ld) {
  switch (bytes) {
    case 1: CARNOT_KERNEL(transpose_u8)(m, n, src, src_ld, dst, dst_ld); break;
    case 2: CARNOT_KERNEL(transpose_u16)(m, n, src, src_ld, dst, dst_ld); break;
    case 4: CARNOT_KERNEL(transpose_f32)(m, n, src, src_ld, dst, dst_ld); break;
    default:
      for (int64_t i = 0; i < m; ++i) {
        copy_elements(bytes, n, (const char*)src + i * src_ld * bytes, 1, (char*)dst + i * bytes,
                      dst_ld);
      }
  }
}

// |rows| runs of |bytes|; constant sizes are a few loads and stores.
static void copy_runs(int64_t rows, size_t bytes, const char* src, int64_t src_step, char* dst,
                      int64_t dst_step) {
#define RUNS(size)                                          \
  case size:                                                \
    for (int64_t i = 0; i < rows; ++i) {                    \
      memcpy(dst + i * dst_step, src + i * src_step, size); \
    }                                                       \
    return;
  switch (bytes) {
    RUNS(4)
    RUNS(8)
    RUNS(16)
    RUNS(32)
    RUNS(64)
    default:
      for (int64_t i = 0; i < rows; ++i) memcpy(dst + i * dst_step, src + i * src_step, bytes);
  }
#undef RUNS
}

typedef enum inner_form { INNER_RUN, INNER_TRANSPOSED, INNER_ELEMENTS } inner_form;

static void copy_inner(inner_form form, int bytes, const axes* a, const char* src, char* dst) {
  const int last = a->rank - 1;
  switch (form) {
    case INNER_RUN: {
      const int64_t rows = last ? a->sizes[last - 1] : 1, src_step = last ? a->src[last - 1] : 0,
                    dst_step = last ? a->dst[last - 1] : 0;
      copy_runs(rows, (size_t)(a->sizes[last] * bytes), src, src_step * bytes, dst,
                dst_step * bytes);
      break;
    }
    case INNER_TRANSPOSED:
      copy_transposed(bytes, a->sizes[last - 1], a->sizes[last], src, a->src[last - 1], dst,
                      a->dst[last]);
      break;
    default: copy_elements(bytes, a->sizes[last], src, a->src[last], dst, a->dst[last]); break;
  }
}

// Sorts the axes into iteration order and selects how the inner ones are copied.
static inner_form plan(axes* a) {
  const int src = axis_with_unit(a, a->src), dst = axis_with_unit(a, a->dst);
  if (dst >= 0 && a->src[dst] == 1) {
    move_axis_to_end(a, dst);
    return INNER_RUN;
  }
  const bool interleaved = src >= 0 && dst >= 0 && a->src[dst] == a->sizes[src] &&
                           a->sizes[src] <= kMostStep && a->sizes[dst] >= V_LANES;
  if (src < 0 || dst < 0 || a->src[dst] == 0 || interleaved) {
    if (dst >= 0) move_axis_to_end(a, dst);
    return INNER_ELEMENTS;
  }
  move_axis_to_end(a, dst);
  move_axis_to_end(a, src > dst ? src - 1 : src);
  return INNER_TRANSPOSED;
}

void CARNOT_KERNEL(copy_strided)(const carnot_copy_desc* p, const void* src, void* dst) {
  const int bytes = p->element_bytes;
  for (int i = 0; i < p->rank; ++i) {
    if (p->sizes[i] == 0) return;
  }
  axes a = axes_joined(p);
  if (a.rank == 0) {
    memcpy(dst, src, (size_t)bytes);
    return;
  }
  const inner_form form = plan(&a);
  const int outer = a.rank - (form != INNER_ELEMENTS && a.rank > 1 ? 2 : 1);
  int64_t at[CARNOT_COPY_MAX_RANK] = {0}, src_at = 0, dst_at = 0;
  for (;;) {
    copy_inner(form, bytes, &a, (const char*)src + src_at * bytes, (char*)dst + dst_at * bytes);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      src_at += a.src[axis], dst_at += a.dst[axis];
      if (++at[axis] < a.sizes[axis]) break;
      src_at -= a.sizes[axis] * a.src[axis], dst_at -= a.sizes[axis] * a.dst[axis];
      at[axis] = 0;
    }
    if (axis < 0) return;
  }
}

void CARNOT_KERNEL(fill)(int32_t element_bytes, int64_t count, const void* value, void* dst) {
  if (element_bytes == 1) {
    memset(dst, *(const uint8_t*)value, (size_t)count);
  } else {
    copy_elements(element_bytes, count, value, 0, dst, 1);
  }
}
