// Reads the GEMM problem of a region: operands, transposes, scales, sizes and epilogue.
#include "tactic/problem/gemm.h"

const char* carnot_gemm_read(const carnot_region* region, uint32_t input_count,
                             carnot_gemm_problem* out) {
  const carnot_plan_node* node = &region->nodes[0];
  if (!carnot_is_gemm(node->op)) return "";
  return carnot_gemm_read_at(region, /*anchor=*/0, node->inputs[1], input_count, out);
}

const char* carnot_gemm_read_at(const carnot_region* region, uint32_t anchor, uint32_t b,
                                uint32_t input_count, carnot_gemm_problem* out) {
  const carnot_plan_node* node = &region->nodes[anchor];
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (carnot_gemm_problem){
      .a = node->inputs[0],
      .b = b,
      .c = CARNOT_PLAN_NONE,
      .trans_a = carnot_attr_int(row, &node->attrs, "transA") != 0,
      .trans_b = carnot_attr_int(row, &node->attrs, "transB") != 0,
      .alpha = (float)carnot_attr_float(row, &node->attrs, "alpha"),
      .beta = 1,
  };
  if (out->a >= input_count || out->b >= input_count) return "a matrix is no input of the step";
  if (node->op != CARNOT_OP_GEMM || node->input_count < 3 || node->inputs[2] == CARNOT_PLAN_NONE)
    return NULL;
  out->c = node->inputs[2];
  out->beta = (float)carnot_attr_float(row, &node->attrs, "beta");
  return out->c < input_count ? NULL : "C is no input of the step";
}

bool carnot_gemm_c_is_bias(const carnot_gemm_problem* problem, const carnot_operand_facts* facts) {
  return problem->c != CARNOT_PLAN_NONE && problem->beta == 1 &&
         (facts[problem->c] & CARNOT_FACT_CHANNEL);
}

int64_t carnot_gemm_sizes_of(const carnot_gemm_problem* problem, int a_rank, const int64_t* a_dims,
                             int b_rank, const int64_t* b_dims, carnot_gemm_sizes* out) {
  const bool trans_a = problem->trans_a && a_rank > 1, trans_b = problem->trans_b && b_rank > 1;
  out->a_axes = a_rank > 1 ? 2 : 1, out->b_axes = b_rank > 1 ? 2 : 1;
  out->y_axes = out->a_axes + out->b_axes - 2;
  out->m = a_rank > 1 ? a_dims[a_rank - (trans_a ? 1 : 2)] : 1;
  out->k = a_dims[a_rank - (trans_a ? 2 : 1)];
  out->n = b_rank > 1 ? b_dims[b_rank - (trans_b ? 2 : 1)] : 1;
  return b_dims[b_rank > 1 && !trans_b ? b_rank - 2 : b_rank - 1];
}

void carnot_gemm_match_epilogue(const carnot_gemm_problem* problem, const carnot_region* region,
                                const carnot_operand_facts* facts, uint32_t input_count,
                                const carnot_epilogue_mask* mask, carnot_epilogue* out) {
  static const carnot_epilogue_mask kNothing = {.biases = CARNOT_EPILOGUE_NO_BIAS};
  const bool is_bias = carnot_gemm_c_is_bias(problem, facts);
  const bool preloads_c = carnot_gemm_adds_c(problem) && !is_bias;
  carnot_epilogue_match(region, /*anchor=*/0, is_bias ? problem->c : CARNOT_PLAN_NONE, facts,
                        input_count, preloads_c ? &kNothing : mask, out);
}

double carnot_gemm_flops(const carnot_problem* problem) {
  carnot_gemm_problem p;
  if (carnot_gemm_read(problem->region, problem->input_count, &p)) return 0;
  const carnot_operand_desc *a = &problem->inputs[p.a], *y = &problem->outputs[0];
  double k = a->rank ? (double)a->dims[a->rank - (p.trans_a && a->rank > 1 ? 2 : 1)] : 1;
  return 2 * k * (double)carnot_dims_count(y->dims, y->rank);
}
