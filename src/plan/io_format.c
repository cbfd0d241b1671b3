// Memory layouts of network inputs and outputs: names, checks, dimensions, strides and copies.
#include "plan/io_format.h"

#include <stdio.h>

#include "base/checked.h"

static const struct {
  const char* name;
  carnot_io_format format;
} kFormats[CARNOT_TENSOR_FORMAT_COUNT] = {
#define FORMAT_ROW(NAME, number, name, kind, block, spatial) \
  [CARNOT_TENSOR_##NAME] = {name, {CARNOT_IO_##kind, block, spatial}},
    CARNOT_TENSOR_FORMATS(FORMAT_ROW)
#undef FORMAT_ROW
};

const char* carnot_tensor_format_name(carnot_tensor_format format) {
  return (unsigned)format < CARNOT_TENSOR_FORMAT_COUNT ? kFormats[format].name : "unknown";
}

carnot_tensor_format carnot_tensor_format_find(const char* name) {
  for (int i = 0; i < CARNOT_TENSOR_FORMAT_COUNT; i++)
    if (strcmp(kFormats[i].name, name) == 0) return (carnot_tensor_format)i;
  return CARNOT_TENSOR_FORMAT_COUNT;
}

carnot_io_format carnot_io_format_of(carnot_tensor_format format) {
  return kFormats[format].format;
}

carnot_status* carnot_io_format_check(carnot_tensor_format format, const char* name,
                                      carnot_dtype dtype, int rank, const int64_t* dims) {
  CARNOT_CHECK((unsigned)format < CARNOT_TENSOR_FORMAT_COUNT, INVALID_ARGUMENT,
               "tensor %s: format %d, must be in [0, %d)", name, (int)format,
               (int)CARNOT_TENSOR_FORMAT_COUNT);
  carnot_io_format f = carnot_io_format_of(format);
  const char* text = carnot_tensor_format_name(format);
  CARNOT_CHECK(f.kind != CARNOT_IO_DLA, INVALID_ARGUMENT, "tensor %s: format %s is for DLA alone",
               name, text);
  if (f.kind == CARNOT_IO_LINEAR) return NULL;
  CARNOT_CHECK(carnot_dtype_bits(dtype) >= 8, INVALID_ARGUMENT,
               "tensor %s: format %s is for types of 8 bits and more, not for %s", name, text,
               carnot_dtype_name(dtype));
  CARNOT_CHECK(rank > f.spatial && rank < CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "tensor %s: format %s is for %d to %d dimensions, not for %d", name, text,
               f.spatial + 1, CARNOT_MAX_RANK - 1, rank);
  CARNOT_CHECK(!dims || f.block == 1 || dims[carnot_io_channel(&f, rank)] >= 0, INVALID_ARGUMENT,
               "tensor %s: format %s needs a fixed number of channels, dimension %d is dynamic",
               name, text, carnot_io_channel(&f, rank));
  return NULL;
}

int carnot_io_stored_dims(carnot_tensor_format format, int rank, const int64_t* dims,
                          int64_t* out_dims) {
  carnot_io_format f = carnot_io_format_of(format);
  if (f.kind == CARNOT_IO_LINEAR || f.kind == CARNOT_IO_DLA) {
    for (int i = 0; i < rank; i++) out_dims[i] = dims[i];
    return rank;
  }
  int channel = carnot_io_channel(&f, rank), at = channel;
  int64_t blocks = dims[channel] < 0 ? -1 : (dims[channel] + f.block - 1) / f.block;
  for (int i = 0; i < channel; i++) out_dims[i] = dims[i];
  if (f.kind == CARNOT_IO_BLOCKED) out_dims[at++] = blocks;
  for (int i = channel + 1; i < rank; i++) out_dims[at++] = dims[i];
  out_dims[at++] = f.kind == CARNOT_IO_BLOCKED ? f.block : blocks < 0 ? -1 : blocks * f.block;
  return at;
}

bool carnot_io_shown_dims(carnot_tensor_format format, int rank, const int64_t* declared,
                          int stored_rank, const int64_t* stored, int64_t* out_dims) {
  carnot_io_format f = carnot_io_format_of(format);
  if (rank <= f.spatial || stored_rank != rank + (f.kind == CARNOT_IO_BLOCKED)) return false;
  int channel = carnot_io_channel(&f, rank), gap = f.kind == CARNOT_IO_BLOCKED ? 0 : 1;
  for (int i = 0; i < channel; i++) out_dims[i] = stored[i];
  for (int i = channel + 1; i < rank; i++) out_dims[i] = stored[i - gap];
  out_dims[channel] = f.block == 1 ? stored[stored_rank - 1] : declared[channel];
  return true;
}

carnot_status* carnot_tensor_layout_of(carnot_tensor_format format, carnot_dtype dtype,
                                       const carnot_dims* dims, carnot_tensor_layout* out) {
  *out = (carnot_tensor_layout){.vectorized_dim = -1, .components = 1};
  CARNOT_CHECK(dims && dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "a layout of %d dimensions", dims ? dims->rank : -1);
  CARNOT_TRY(carnot_io_format_check(format, "of the layout", dtype, dims->rank, dims->d));
  carnot_io_format f = carnot_io_format_of(format);
  int64_t stored[CARNOT_MAX_RANK];
  int rank = carnot_io_stored_dims(format, dims->rank, dims->d, stored);
  CARNOT_TRY(carnot_dims_bytes(dtype, stored, rank, &out->bytes));
  int channel = f.kind == CARNOT_IO_LINEAR ? -1 : carnot_io_channel(&f, dims->rank);
  if (f.block > 1) {
    out->vectorized_dim = channel;
    out->components = f.block;
  }
  int64_t stride = 1;
  if (f.kind == CARNOT_IO_LAST) {
    out->strides[channel] = 1;
    stride = stored[rank - 1] / f.block;
  }
  for (int i = dims->rank - 1; i >= 0; i--) {
    if (f.kind == CARNOT_IO_LAST && i == channel) continue;
    out->strides[i] = stride;
    stride *= i == channel ? stored[channel] : dims->d[i];
  }
  return NULL;
}

// ---- copies ----

// Copies every element, from row-major to |format| or back.
static carnot_status* copy(carnot_tensor_format format, carnot_dtype dtype, const carnot_dims* dims,
                           const char* src, char* dst, bool is_to) {
  carnot_tensor_layout layout;
  CARNOT_TRY(carnot_tensor_layout_of(format, dtype, dims, &layout));
  int64_t count = carnot_dims_count(dims->d, dims->rank), index[CARNOT_MAX_RANK] = {0};
  if (is_to) memset(dst, 0, layout.bytes);
  if (format == CARNOT_TENSOR_LINEAR) {
    memcpy(dst, src, layout.bytes);
    return NULL;
  }
  size_t size = (size_t)carnot_dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int d = 0; d < dims->rank; d++)
      at += d == layout.vectorized_dim
                ? index[d] / layout.components * layout.strides[d] * layout.components +
                      index[d] % layout.components
                : index[d] * layout.strides[d] * layout.components;
    size_t linear = (size_t)i * size, other = (size_t)at * size;
    memcpy(dst + (is_to ? other : linear), src + (is_to ? linear : other), size);
    for (int d = dims->rank - 1; d >= 0 && ++index[d] == dims->d[d]; d--) index[d] = 0;
  }
  return NULL;
}

carnot_status* carnot_tensor_to_format(carnot_tensor_format format, carnot_dtype dtype,
                                       const carnot_dims* dims, const void* src, void* dst) {
  return copy(format, dtype, dims, src, dst, /*is_to=*/true);
}

carnot_status* carnot_tensor_from_format(carnot_tensor_format format, carnot_dtype dtype,
                                         const carnot_dims* dims, const void* src, void* dst) {
  return copy(format, dtype, dims, src, dst, /*is_to=*/false);
}
