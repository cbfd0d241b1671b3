// How steps are cut into parts, and which steps oneDNN takes.
#include "backend/cpu/onednn/onednn_step.h"

// Operations that a part has, about 100 us of one thread with FMA and 50 with AMX: smaller parts of
// resnet50 made oneDNN 5 % slower with one thread. From two fifths on there are two.
static const double kPartFlops = 2.5e7, kPartHalfFlops = 1e8, kLeastShare = 0.4;
enum { kColumnUnit = 64, kRowUnit = 16, kLeastRows = 64 };

int64_t carnot_onednn_part_count(double flops, carnot_dtype dtype) {
  const double parts = flops / (dtype == CARNOT_DTYPE_BF16 ? kPartHalfFlops : kPartFlops);
  return parts < kLeastShare               ? 1
         : parts < 2                       ? 2
         : parts > CARNOT_ONEDNN_MAX_PARTS ? CARNOT_ONEDNN_MAX_PARTS
                                           : (int64_t)parts;
}

void carnot_onednn_settle(const carnot_onednn_result* result, bool apart,
                          carnot_onednn_shape* whole, carnot_onednn_parts* out) {
  const bool adds = result->residual != CARNOT_DTYPE_INVALID,
             rounds_late = result->dtype == CARNOT_DTYPE_BF16 &&
                           result->plan->activation > CARNOT_KERNEL_ACTIVATION_CLIP;
  out->is_staged = apart || rounds_late || (adds && result->residual != result->dtype);
  const bool has_pass = adds || result->plan->activation != CARNOT_KERNEL_ACTIVATION_NONE;
  whole->dst_dtype = out->is_staged && has_pass ? CARNOT_DTYPE_F32 : result->dtype;
  whole->sums = adds && !out->is_staged;
}

// Rows are cut where parts of many remain, else columns, so that no part reads all weights. Weights
// for any number of rows are in one piece.
void carnot_onednn_cut_matmul(const carnot_onednn_shape* whole, const carnot_onednn_result* result,
                              carnot_onednn_parts* out) {
  const int64_t wanted = carnot_onednn_part_count(
      2.0 * (double)whole->n * (double)whole->c * (double)whole->k, (carnot_dtype)whole->dtype);
  const bool cuts_columns =
      !out->is_open && wanted > 1 && whole->n < kLeastRows * wanted && whole->k > whole->n;
  const int64_t size = cuts_columns ? whole->k : whole->n,
                unit = cuts_columns ? kColumnUnit : kRowUnit;
  const int64_t count = carnot_min_i64(wanted, carnot_ceildiv(size, unit));
  carnot_onednn_shape shape = *whole;
  carnot_onednn_settle(result, cuts_columns && count > 1, &shape, out);
  out->ld = whole->k;
  out->columns = cuts_columns ? count : 1;
  out->count = count;
  for (int64_t i = 0; i < count; i++) {
    const int64_t first = carnot_work_cut(size, unit, count, i),
                  end = carnot_work_cut(size, unit, count, i + 1);
    carnot_onednn_part* part = &out->items[i];
    part->shape = shape;
    *(cuts_columns ? &part->shape.k : &part->shape.n) = end - first;
    *(cuts_columns ? &part->n0 : &part->m0) = first;
    part->src_at = cuts_columns ? 0 : first * whole->c;
    part->column = cuts_columns ? i : 0;
  }
}

static const char* find_unknown_size(const carnot_operand_desc* t, char* reason, size_t size) {
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1)
      return carnot_because(reason, size, "dimension %d is %lld, takes known sizes", d,
                            (long long)t->dims[d]);
  return NULL;
}

bool carnot_onednn_is_open(const carnot_problem* problem) {
  bool is_open = false;
  for (uint32_t i = 0; i < problem->input_count; i++)
    is_open |= !problem->inputs[i].is_constant && !carnot_has_fixed_dims(&problem->inputs[i]);
  return is_open;
}

const char* carnot_onednn_reject_problem(const carnot_problem* problem,
                                         const carnot_operand_desc* src, char* reason,
                                         size_t size) {
  if (problem->device) return "the network is built for an accelerator";
  const char* missing = carnot_onednn_lacks();
  if (missing) return missing;
  if (!carnot_isa_includes(carnot_isa_of_machine(), problem->isa))
    return "the engine is built for another machine";
  if (problem->tactic->takes_bf16 && src->format.dtype != CARNOT_DTYPE_BF16)
    return carnot_because(reason, size, "the input is stored as %s, takes bfloat16",
                          carnot_dtype_name(src->format.dtype));
  const char* why = NULL;
  for (uint32_t i = 0; i < problem->input_count && !why; i++)
    why = find_unknown_size(&problem->inputs[i], reason, size);
  for (uint32_t i = 0; i < problem->output_count && !why; i++)
    why = find_unknown_size(&problem->outputs[i], reason, size);
  return why;
}

const char* carnot_onednn_reject_epilogue(const carnot_problem* problem,
                                          const carnot_epilogue_plan* plan) {
  return problem->outputs[0].format.dtype == CARNOT_DTYPE_BF16 && plan->program.instruction_count
             ? "operators behind the activation would read what BF16 has rounded"
             : NULL;
}

const char* carnot_onednn_reject_parts(const carnot_onednn_parts* parts, char* reason,
                                       size_t size) {
  carnot_status* status = carnot_onednn_try_parts(parts);
  if (!status) return NULL;
  const bool no_memory = carnot_status_code(status) == CARNOT_OUT_OF_MEMORY;
  snprintf(reason, size, "%s", carnot_status_message(status));
  carnot_status_free(status);
  return no_memory ? CARNOT_REJECT_NO_MEMORY : reason;
}
