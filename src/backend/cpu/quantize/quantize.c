// Quantization of float32 to 8 bits and back, per tensor or along an axis.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/pointwise/convert.h"

enum { kX, kScale, kZero };

// The operand with float32 elements and the one with 8 bits, for either direction.
static const char* quantize_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_op op = problem->tactic->anchor;
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != op || problem->region->node_count != 1) return "";
  bool down = op == CARNOT_OP_QUANTIZE_LINEAR;
  if (!carnot_view_is(carnot_attr_text(carnot_op_get(op), &node->attrs, "rounding"), "nearest"))
    return "it does not round to nearest";
  const carnot_operand_desc *x = &problem->inputs[kX], *y = &problem->outputs[0],
                            *scale = &problem->inputs[kScale];
  const carnot_operand_desc *wide = down ? x : y, *narrow = down ? y : x;
  const char* why = carnot_not_f32(wide, "the wide side", 0, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!carnot_is_8bit(narrow->format.dtype))
    return carnot_because(reason, size, "the narrow side is %s",
                          carnot_dtype_name(narrow->format.dtype));
  if (scale->format.dtype != CARNOT_DTYPE_F32 || scale->rank < 0 || scale->rank > 1)
    return "the scale is no number or list of float32";
  const carnot_operand_desc* zero =
      problem->input_count > kZero && problem->inputs[kZero].kind == CARNOT_VALUE_TENSOR
          ? &problem->inputs[kZero]
          : NULL;
  if (zero && (zero->format.dtype != narrow->format.dtype || zero->rank != scale->rank))
    return "the zero point is not like the scale";
  const carnot_op_row* row = carnot_op_get(op);
  int64_t precision = carnot_attr_int(row, &node->attrs, "precision");
  if (precision && precision != CARNOT_DTYPE_F32) return "it asks for another precision";
  // With one scale for all, elements stay where they are.
  if (scale->rank == 1 && scale->dims[0] != 1)
    problem->inputs[kX].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = problem->inputs[kX].format.layout;
  return NULL;
}

static carnot_status* quantize_validate(const carnot_step_view* step) {
  carnot_op op = step->region->nodes[0].op;
  CARNOT_CHECK(step->region->node_count == 1 && step->input_count >= 2 &&
                   (op == CARNOT_OP_QUANTIZE_LINEAR || op == CARNOT_OP_DEQUANTIZE_LINEAR),
               INVALID_MODEL, "the step does not quantize");
  return NULL;
}

// |rows| runs of |n| elements; run r has scale r % |scales|.
typedef struct quantize_state {
  int64_t rows, n, scales, rows_per_part, part_count, per_part;
  bool is_signed, per_column;
} quantize_state;

static carnot_status* quantize_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  quantize_state* s = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *x = &inputs[kX], *y = &outputs[0], *scale = &inputs[kScale];
  const carnot_operand* zero = step->input_count > kZero ? &inputs[kZero] : NULL;
  bool down = node->op == CARNOT_OP_QUANTIZE_LINEAR;
  carnot_dtype narrow = down ? y->format.dtype : x->format.dtype,
               wide = down ? x->format.dtype : y->format.dtype;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(carnot_is_8bit(narrow) && wide == CARNOT_DTYPE_F32 &&
                   scale->format.dtype == CARNOT_DTYPE_F32 && x->rank == y->rank,
               INVALID_MODEL, "operands are not float32 and 8 bits");
  int64_t count = carnot_dims_count(x->dims, x->rank),
          scales = carnot_dims_count(scale->dims, scale->rank);
  int64_t row_major[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, x->rank, x->dims, row_major);
  int64_t extent = 1;
  for (int d = 0; d < x->rank; d++) {
    bool same = x->dims[d] == y->dims[d] && (x->dims[d] == 1 || x->strides[d] == y->strides[d]);
    CARNOT_CHECK(same && (scales == 1 || x->dims[d] == 1 || x->strides[d] == row_major[d]),
                 INVALID_MODEL, "dimension %d lies differently on both sides", d);
    if (x->dims[d] > 1) extent += (x->dims[d] - 1) * x->strides[d];
  }
  CARNOT_CHECK(count == 0 || extent == count, INVALID_MODEL, "the elements are not dense");
  bool has_zero = zero && zero->rank >= 0 && zero->format.dtype != CARNOT_DTYPE_INVALID;
  CARNOT_CHECK(!has_zero || (zero->format.dtype == narrow &&
                             carnot_dims_count(zero->dims, zero->rank) == scales),
               INVALID_MODEL, "the zero point is not like the scale");
  *s = (quantize_state){.rows = 1, .n = count, .scales = 1, .is_signed = narrow == CARNOT_DTYPE_I8};
  if (scales != 1 && x->rank > 0) {
    int axis;
    CARNOT_TRY(carnot_axis(carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), x->rank,
                           "axis", &axis));
    CARNOT_CHECK(x->dims[axis] == scales, INVALID_MODEL,
                 "scale has %lld elements; dimension %d of x is %lld", (long long)scales, axis,
                 (long long)x->dims[axis]);
    s->scales = scales;
    s->n = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
    s->rows = s->n ? count / s->n : 0;
    if (s->n == 1) {  // the last axis: rows of scales
      s->per_column = true;
      s->n = scales;
      s->rows = scales ? count / scales : 0;
    }
  } else {
    CARNOT_CHECK(scales == 1, INVALID_MODEL, "scale has %lld elements for one number",
                 (long long)scales);
  }
  s->rows_per_part = carnot_rows_per_part(s->rows, s->n);
  s->part_count = s->rows ? carnot_ceildiv(s->rows, s->rows_per_part) : 0;
  s->per_part = s->n;
  if (s->rows == 1 && !s->per_column && s->n > 1 << 14) {  // one run is cut
    s->per_part = 1 << 14;
    s->part_count = carnot_ceildiv(s->n, s->per_part);
  }
  return NULL;
}

typedef struct quantize_run {
  const carnot_cpu_kernels* kernels;
  const quantize_state* s;
  const void* x;
  void* y;
  const float* scale;
  const char* zero;
  bool down;
} quantize_run;

static void convert(const quantize_run* run, const carnot_quantize* q, int64_t rows, int64_t at) {
  if (run->down)
    run->kernels->quantize_f32(q, rows, (const float*)run->x + at, q->n, (char*)run->y + at, q->n);
  else
    run->kernels->dequantize_f32(q, rows, (const char*)run->x + at, q->n, (float*)run->y + at,
                                 q->n);
}

static void quantize_part(void* argument, int64_t part) {
  const quantize_run* run = argument;
  const quantize_state* s = run->s;
  carnot_quantize q = {.n = s->n,
                       .is_signed = s->is_signed,
                       .per_column = s->per_column,
                       .scale = run->scale,
                       .zero_point = run->zero};
  if (s->per_part != s->n) {
    int64_t at = part * s->per_part;
    q.n = carnot_min_i64(s->per_part, s->n - at);
    convert(run, &q, 1, at);
    return;
  }
  int64_t first = part * s->rows_per_part, end = carnot_min_i64(first + s->rows_per_part, s->rows);
  if (s->per_column || s->scales == 1) {
    convert(run, &q, end - first, first * s->n);
    return;
  }
  for (int64_t r = first; r < end; r++) {
    q.scale = run->scale + r % s->scales;
    q.zero_point = run->zero ? run->zero + r % s->scales : NULL;
    convert(run, &q, 1, r * s->n);
  }
}

static carnot_status* quantize_run_all(const carnot_step_view* step, void* memory,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       void* workspace, carnot_executor* executor) {
  (void)workspace;
  const quantize_state* s = memory;
  quantize_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                      .s = s,
                      .x = inputs[kX].data,
                      .y = outputs[0].data,
                      .scale = inputs[kScale].data,
                      .zero = step->input_count > kZero ? inputs[kZero].data : NULL,
                      .down = step->region->nodes[0].op == CARNOT_OP_QUANTIZE_LINEAR};
  carnot_executor_parallel(executor, s->part_count, quantize_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(quantize_f32, .anchor = CARNOT_OP_QUANTIZE_LINEAR, .reject = quantize_reject,
                   .validate = quantize_validate, .configure = quantize_configure,
                   .run = quantize_run_all);
CARNOT_CPU_TACTICS(dequantize_f32, .anchor = CARNOT_OP_DEQUANTIZE_LINEAR, .reject = quantize_reject,
                   .validate = quantize_validate, .configure = quantize_configure,
                   .run = quantize_run_all);
