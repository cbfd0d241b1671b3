// Matches what follows a GEMM in its region: bias, residual, activation, and the rest as a
// pointwise chain.
#include "backend/cuda/gemm/gemm_epilogue.h"

enum { kMostInputs = 64 };

// One number a column: all dimensions are 1 but the last, which is the result's.
static bool is_column(int rank, const int64_t* dims, int64_t columns) {
  for (int d = 0; d + 1 < rank; d++)
    if (dims[d] != 1) return false;
  return rank >= 1 && dims[rank - 1] == columns && columns > 1;
}

static const char* read_node(const carnot_region* region, uint32_t input_count, const bool* column,
                             carnot_cuda_gemm_region* out) {
  const carnot_plan_node* node = &region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (carnot_cuda_gemm_region){.a = node->inputs[0],
                                   .b = node->inputs[1],
                                   .c = CARNOT_PLAN_NONE,
                                   .residual = CARNOT_PLAN_NONE,
                                   .beta = 1};
  out->trans_a = carnot_attr_int(row, &node->attrs, "transA") != 0;
  out->trans_b = carnot_attr_int(row, &node->attrs, "transB") != 0;
  out->alpha = (float)carnot_attr_float(row, &node->attrs, "alpha");
  if (out->a >= input_count || out->b >= input_count) return "no operands";
  if (node->op != CARNOT_OP_GEMM) return NULL;
  out->beta = (float)carnot_attr_float(row, &node->attrs, "beta");
  if (node->input_count > 2 && out->beta != 0) out->c = node->inputs[2];
  if (out->c == CARNOT_PLAN_NONE) return NULL;
  if (out->c >= input_count) return "no operands";
  out->c_is_bias = out->beta == 1 && column[out->c];
  return NULL;
}

// |column[i]|: input i is one number a column of the result; |whole[i]|: it has its dimensions and
// may be added by the kernel.
static const char* read_region(const carnot_region* region, uint32_t input_count,
                               const bool* column, const bool* whole,
                               bool (*activation)(const carnot_cuda_epilogue*),
                               carnot_cuda_gemm_region* out, char* reason, size_t size) {
  const char* why = read_node(region, input_count, column, out);
  if (why) return why;
  uint32_t acc = region->nodes[0].outputs[0], next = 1;
  // A C operand that is not a per-column bias is preloaded into the output and accumulated with
  // beta, so neither residual nor activation can be fused.
  bool plain = out->c == CARNOT_PLAN_NONE || out->c_is_bias;
  for (;
       plain && next < region->node_count && carnot_cuda_is_fn(&region->nodes[next], CARNOT_FN_ADD);
       next++) {
    const carnot_plan_node* add = &region->nodes[next];
    uint32_t other = add->inputs[0] == acc ? add->inputs[1] : add->inputs[0];
    if (add->inputs[0] == add->inputs[1] || other >= input_count) break;
    if (column[other] && out->c == CARNOT_PLAN_NONE && out->residual == CARNOT_PLAN_NONE)
      out->c = other, out->c_is_bias = true;
    else if (whole[other] && out->residual == CARNOT_PLAN_NONE)
      out->residual = other;
    else
      break;
    acc = add->outputs[0];
  }
  if (plain && activation && next < region->node_count) {
    carnot_cuda_epilogue e = carnot_cuda_epilogue_of(&region->nodes[next]);
    if (e.kind && activation(&e)) {
      out->activation = e;
      acc = region->nodes[next++].outputs[0];
    }
  }
  return carnot_cuda_chain_make(region, input_count, next, acc, &out->chain, reason, size);
}

const char* carnot_cuda_gemm_describe(const carnot_problem* problem,
                                      const carnot_cuda_gemm_takes* takes,
                                      carnot_cuda_gemm_region* out, char* reason, size_t size) {
  if (!carnot_cuda_is_gemm(problem->region->nodes[0].op)) return "";
  bool column[kMostInputs] = {false}, whole[kMostInputs] = {false};
  const carnot_operand_desc* y = &problem->outputs[0];
  if (problem->input_count > kMostInputs) return "too many operands";
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->format.dtype != y->format.dtype || t->rank < 0) continue;
    column[i] = t->is_constant && y->rank > 0 && is_column(t->rank, t->dims, y->dims[y->rank - 1]);
    whole[i] = takes->residual && !t->is_constant && t->rank == y->rank;
    for (int d = 0; whole[i] && d < y->rank; d++)
      whole[i] = t->dims[d] == y->dims[d] && t->min[d] == y->min[d] && t->max[d] == y->max[d];
  }
  return read_region(problem->region, problem->input_count, column, whole, takes->activation, out,
                     reason, size);
}

// The kernel reads it in the result's layout.
static carnot_status* check_residual(const carnot_operand* t, const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  CARNOT_CHECK(t->format.dtype == y->format.dtype && t->rank == y->rank, INVALID_ARGUMENT,
               "the residual is %s of rank %d", carnot_dtype_name(t->format.dtype), t->rank);
  for (int d = 0; d < y->rank; d++)
    CARNOT_CHECK(t->dims[d] == y->dims[d] && (t->strides[d] == y->strides[d] || y->dims[d] == 1),
                 INVALID_ARGUMENT, "dimension %d of the residual is %lld, the result's %lld", d,
                 (long long)t->dims[d], (long long)y->dims[d]);
  return NULL;
}

carnot_status* carnot_cuda_gemm_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* y, uint32_t residual,
                                        bool (*activation)(const carnot_cuda_epilogue*),
                                        carnot_cuda_gemm_region* out) {
  bool column[kMostInputs] = {false}, whole[kMostInputs] = {false};
  char reason[256];
  CARNOT_CHECK(step->input_count <= kMostInputs && carnot_cuda_is_gemm(step->region->nodes[0].op) &&
                   (residual == CARNOT_PLAN_NONE || residual < step->input_count),
               INVALID_MODEL, "a product of %u operands whose residual is input %u",
               step->input_count, residual);
  for (uint32_t i = 0; i < step->input_count; i++)
    column[i] = i != residual && y->rank > 0 && inputs[i].format.dtype == y->format.dtype &&
                is_column(inputs[i].rank, inputs[i].dims, y->dims[y->rank - 1]);
  if (residual != CARNOT_PLAN_NONE) whole[residual] = true;
  const char* why = read_region(step->region, step->input_count, column, whole, activation, out,
                                reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  const carnot_operand used[] = {inputs[out->a], inputs[out->b], *y};
  CARNOT_TRY(carnot_cuda_on_device(used, 3));
  if (out->c != CARNOT_PLAN_NONE) CARNOT_TRY(carnot_cuda_on_device(&inputs[out->c], 1));
  return out->residual == CARNOT_PLAN_NONE ? NULL : check_residual(&inputs[out->residual], y);
}

void carnot_cuda_gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_operand_desc *a = &problem->inputs[node->inputs[0]], *y = &problem->outputs[0];
  bool trans = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "transA") != 0;
  double k = a->rank ? (double)a->dims[a->rank - (trans && a->rank > 1 ? 2 : 1)] : 1;
  *out_flops = 2 * k * (double)carnot_dims_count(y->dims, y->rank);
  *out_bytes = (double)carnot_dims_count(y->dims, y->rank) * carnot_dtype_bits(y->format.dtype) / 8;
  for (uint32_t i = 0; i < problem->input_count; i++)
    *out_bytes += (double)carnot_dims_count(problem->inputs[i].dims,
                                            carnot_max_i64(0, problem->inputs[i].rank)) *
                  carnot_dtype_bits(problem->inputs[i].format.dtype) / 8;
}
