// The loop nest of an element-wise step.
#include "backend/cpu/pointwise/nest.h"

static carnot_layout layout_of(const carnot_problem* problem) {
  const carnot_operand_desc* out = &problem->outputs[0];
  bool wanted = false;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    if (t->rank == out->rank && !t->is_constant) {
      wanted |= t->format.layout == CARNOT_LAYOUT_CHANNELS_LAST;
      continue;
    }
    // Read in row-major order: only one of channels and pixels may vary.
    bool channels = false, pixels = false;
    for (int d = 0; d < t->rank; d++) {
      int at = d + out->rank - t->rank;
      bool varies = t->dims[d] != 1 || t->max[d] != 1;
      if (at == 1) channels |= varies;
      if (at > 1) pixels |= varies;
    }
    if (channels && pixels) return CARNOT_LAYOUT_ROW_MAJOR;
  }
  return wanted && out->rank > 2 ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
}

void carnot_pw_choose_layout(carnot_problem* problem) {
  carnot_layout layout = layout_of(problem);
  for (uint32_t i = 0; i < problem->input_count; i++) {
    bool whole =
        problem->inputs[i].rank == problem->outputs[0].rank && !problem->inputs[i].is_constant;
    problem->inputs[i].format.layout = whole ? layout : CARNOT_LAYOUT_ROW_MAJOR;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.layout = layout;
}

static carnot_status* operand_strides(const carnot_operand* t, const carnot_operand* out,
                                      int64_t* strides) {
  CARNOT_CHECK(t->rank <= out->rank, INVALID_ARGUMENT,
               "an operand of rank %d for a result of rank %d", t->rank, out->rank);
  for (int d = 0; d < out->rank; d++) {
    int at = d - (out->rank - t->rank);
    int64_t dim = at < 0 ? 1 : t->dims[at];
    CARNOT_CHECK(dim == 1 || dim == out->dims[d], INVALID_ARGUMENT,
                 "an operand's dimension %d is %lld, must be 1 or %lld", d, (long long)dim,
                 (long long)out->dims[d]);
    strides[d] = dim == 1 ? 0 : t->strides[at];
  }
  return NULL;
}

// Dimensions of the result by falling stride, without those of size 1.
static int order_dims(const carnot_operand* out, int* order) {
  int count = 0;
  for (int d = 0; d < out->rank; d++) {
    if (out->dims[d] == 1) continue;
    int at = count++;
    for (; at > 0 && out->strides[order[at - 1]] < out->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  return count;
}

static bool joins(const carnot_pw_nest* s, const int64_t* out, const int64_t (*in)[CARNOT_MAX_RANK],
                  int d, int64_t dim) {
  int last = s->rank - 1;
  if (s->out[last] != out[d] * dim) return false;
  for (int i = 0; i < s->input_count; i++)
    if (s->in[i][last] != in[i][d] * dim) return false;
  return true;
}

static carnot_status* join_dims(carnot_pw_nest* s, const carnot_operand* out,
                                const int64_t (*in)[CARNOT_MAX_RANK]) {
  int order[CARNOT_MAX_RANK];
  int count = order_dims(out, order);
  s->rank = 0;
  for (int k = 0; k < count; k++) {
    int d = order[k];
    int64_t dim = out->dims[d];
    bool joined = s->rank > 0 && joins(s, out->strides, in, d, dim);
    int at = joined ? s->rank - 1 : s->rank++;
    s->dims[at] = joined ? s->dims[at] * dim : dim;
    s->out[at] = out->strides[d];
    for (int i = 0; i < s->input_count; i++) s->in[i][at] = in[i][d];
  }
  if (s->rank == 0 || s->out[s->rank - 1] != 1) {
    CARNOT_CHECK(s->rank < CARNOT_MAX_RANK, INVALID_ARGUMENT,
                 "the result's innermost dimension is not dense");
    s->dims[s->rank] = 1;
    s->out[s->rank] = 1;
    for (int i = 0; i < s->input_count; i++) s->in[i][s->rank] = 0;
    s->rank++;
  }
  for (int i = 0; i < s->input_count; i++)
    CARNOT_CHECK(s->in[i][s->rank - 1] == 0 || s->in[i][s->rank - 1] == 1, INVALID_ARGUMENT,
                 "an operand has stride %lld in the innermost dimension",
                 (long long)s->in[i][s->rank - 1]);
  return NULL;
}

carnot_status* carnot_pw_nest_make(carnot_pw_nest* s, int count,
                                   const carnot_operand* const* inputs, const carnot_operand* out,
                                   int64_t cost) {
  int64_t in[CARNOT_PW_MAX_INPUTS][CARNOT_MAX_RANK];
  s->input_count = count;
  for (int i = 0; i < count; i++) CARNOT_TRY(operand_strides(inputs[i], out, in[i]));
  CARNOT_TRY(join_dims(s, out, (const int64_t(*)[CARNOT_MAX_RANK])in));
  s->n = s->dims[s->rank - 1];
  s->rows = s->rank > 1 ? s->dims[s->rank - 2] : 1;
  s->outer = s->rank > 2 ? carnot_dims_count(s->dims, s->rank - 2) : 1;
  // One long row is cut like many: it is dense or constant in every operand.
  if (s->rows == 1 && s->outer == 1 && s->n > 1 << 14) {
    s->rows_per_part = 1 << 13;
    s->parts_per_outer = carnot_ceildiv(s->n, s->rows_per_part);
  } else {
    s->rows_per_part =
        carnot_min_i64(s->rows, carnot_rows_per_part(s->rows * s->outer, s->n * cost));
    s->parts_per_outer = carnot_ceildiv(s->rows, s->rows_per_part);
  }
  return NULL;
}

void carnot_pw_nest_part(const carnot_pw_nest* s, int64_t part, carnot_pw_block* out) {
  int64_t rest = part / s->parts_per_outer, piece = part % s->parts_per_outer;
  const bool one_row = s->rows == 1 && s->outer == 1 && s->parts_per_outer > 1;
  const int64_t start = one_row ? piece * s->rows_per_part : 0;
  out->out = start;
  for (int i = 0; i < s->input_count; i++) out->in[i] = start * s->in[i][s->rank - 1];
  for (int d = s->rank - 3; d >= 0; d--) {
    int64_t index = rest % s->dims[d];
    rest /= s->dims[d];
    out->out += index * s->out[d];
    for (int i = 0; i < s->input_count; i++) out->in[i] += index * s->in[i][d];
  }
  out->row0 = one_row ? 0 : piece * s->rows_per_part;
  out->row1 = one_row ? 1 : carnot_min_i64(out->row0 + s->rows_per_part, s->rows);
  out->n = one_row ? carnot_min_i64(s->rows_per_part, s->n - start) : s->n;
}

static char* at_element(const carnot_operand* t, int64_t index) {
  return (char*)t->data + index * (carnot_dtype_bits(t->format.dtype) / 8);
}

carnot_pw_operand carnot_pw_nest_in(const carnot_pw_nest* s, const carnot_pw_block* block, int i,
                                    const carnot_operand* t) {
  return (carnot_pw_operand){at_element(t, block->in[i]), s->rank > 1 ? s->in[i][s->rank - 2] : 0,
                             s->in[i][s->rank - 1]};
}

carnot_pw_operand carnot_pw_nest_out(const carnot_pw_nest* s, const carnot_pw_block* block,
                                     const carnot_operand* t) {
  return (carnot_pw_operand){at_element(t, block->out), s->rank > 1 ? s->out[s->rank - 2] : 0, 1};
}
