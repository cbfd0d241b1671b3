// Copies of elements between strided arrays, for elements of any size.
#include "ops/strided_copy.h"

// Bytes of an element; 0 where elements are smaller than a byte.
static size_t element_bytes(carnot_dtype dtype) {
  if (dtype == CARNOT_DTYPE_STRING) return sizeof(carnot_strview);
  int bits = carnot_dtype_bits(dtype);
  return bits % 8 ? 0 : (size_t)bits / 8;
}

void carnot_copy_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count) {
  size_t bytes = element_bytes(dtype);
  if (bytes && count > 0) {
    memcpy((char*)dst + (size_t)dst_index * bytes, (const char*)src + (size_t)src_index * bytes,
           (size_t)count * bytes);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    carnot_copy_element(dtype, dst, (size_t)(dst_index + i), src, (size_t)(src_index + i));
  }
}

void carnot_fill_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count) {
  size_t bytes = element_bytes(dtype);
  if (!bytes) {
    for (int64_t i = 0; i < count; i++) {
      carnot_copy_element(dtype, dst, (size_t)(dst_index + i), src, (size_t)src_index);
    }
    return;
  }
  if (count <= 0) return;
  // What is there already is copied behind itself, while it is in the cache.
  enum { kMostAtOnce = 16 << 10 };
  char* at = (char*)dst + (size_t)dst_index * bytes;
  const size_t all = (size_t)count * bytes;
  memcpy(at, (const char*)src + (size_t)src_index * bytes, bytes);
  for (size_t done = bytes, next; done < all; done += next) {
    next = done < kMostAtOnce ? done : kMostAtOnce;
    if (next > all - done) next = all - done;
    memcpy(at + done, at, next);
  }
}

// Drops dimensions of one and joins neighbours that lie behind one another on both sides.
static void simplify(carnot_strided_copy* m) {
  int rank = 0;
  for (int i = 0; i < m->rank; i++) {
    if (m->dims[i] == 1) continue;
    int last = rank - 1;
    if (rank && m->src_strides[last] == m->src_strides[i] * m->dims[i] &&
        m->dst_strides[last] == m->dst_strides[i] * m->dims[i]) {
      m->dims[last] *= m->dims[i];
      m->src_strides[last] = m->src_strides[i];
      m->dst_strides[last] = m->dst_strides[i];
      continue;
    }
    m->dims[rank] = m->dims[i];
    m->src_strides[rank] = m->src_strides[i];
    m->dst_strides[rank++] = m->dst_strides[i];
  }
  m->rank = rank;
}

static void run_of_bytes(char* dst, int64_t dst_step, const char* src, int64_t src_step,
                         int64_t count, size_t bytes) {
  // Constant sizes let the compiler turn each copy into one load and one store.
#define LOOP(size)                    \
  for (int64_t i = 0; i < count; i++) \
    memcpy(dst + i * dst_step * (size), src + i * src_step * (size), (size));
  switch (bytes) {
    case 1: LOOP(1) break;
    case 2: LOOP(2) break;
    case 4: LOOP(4) break;
    case 8: LOOP(8) break;
    default: LOOP(16) break;
  }
#undef LOOP
}

// One innermost run.
static void run(const carnot_strided_copy* m, void* dst, int64_t dst_at, const void* src,
                int64_t src_at, int64_t count, int64_t dst_step, int64_t src_step) {
  size_t bytes = element_bytes(m->dtype);
  if (dst_step == 1 && src_step == 1) {
    carnot_copy_elements(m->dtype, dst, dst_at, src, src_at, count);
  } else if (bytes) {
    run_of_bytes((char*)dst + dst_at * (int64_t)bytes, dst_step,
                 (const char*)src + src_at * (int64_t)bytes, src_step, count, bytes);
  } else {
    for (int64_t i = 0; i < count; i++) {
      carnot_copy_element(m->dtype, dst, (size_t)(dst_at + i * dst_step), src,
                          (size_t)(src_at + i * src_step));
    }
  }
}

void carnot_strided_copy_run(const carnot_strided_copy* move, void* dst, const void* src) {
  carnot_strided_copy m = *move;
  for (int i = 0; i < m.rank; i++) {
    if (m.dims[i] == 0) return;
  }
  simplify(&m);
  int last = m.rank - 1;
  if (last < 0) {
    run(&m, dst, m.dst_offset, src, m.src_offset, 1, 1, 1);
    return;
  }
  int64_t index[CARNOT_STRIDED_COPY_RANK] = {0}, src_at = m.src_offset, dst_at = m.dst_offset;
  for (;;) {
    run(&m, dst, dst_at, src, src_at, m.dims[last], m.dst_strides[last], m.src_strides[last]);
    int d = last - 1;
    for (; d >= 0; d--) {
      src_at += m.src_strides[d];
      dst_at += m.dst_strides[d];
      if (++index[d] < m.dims[d]) break;
      src_at -= m.src_strides[d] * m.dims[d];
      dst_at -= m.dst_strides[d] * m.dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
