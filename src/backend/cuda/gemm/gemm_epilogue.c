// Reads GEMM regions, at build and when shapes are set: the same matcher over descriptors and
// operands.
#include "backend/cuda/gemm/gemm_epilogue.h"

// A result of one column has no bias: its one number may be a scalar of the region.
static void drop_scalars(carnot_operand_facts* facts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (facts[i] & CARNOT_FACT_SCALAR) facts[i] &= (carnot_operand_facts)~CARNOT_FACT_CHANNEL;
}

static const char* read_region(const carnot_region* region, uint32_t input_count,
                               const carnot_operand_facts* facts, const carnot_epilogue_mask* mask,
                               carnot_cuda_gemm_region* out, char* reason, size_t size) {
  *out = (carnot_cuda_gemm_region){.c = CARNOT_PLAN_NONE};
  const char* why = carnot_gemm_read(region, input_count, &out->gemm);
  if (why) return why;
  carnot_epilogue e;
  carnot_gemm_match_epilogue(&out->gemm, region, facts, input_count, mask, &e);
  out->c_is_bias = e.bias_count > 0;
  if (out->c_is_bias)
    out->c = carnot_epilogue_bias(&e);
  else if (carnot_gemm_adds_c(&out->gemm))
    out->c = out->gemm.c;
  out->residual = e.residual;
  out->activation = carnot_cuda_epilogue_from(&e.activation);
  return carnot_cuda_chain_make(region, input_count, e.rest, e.acc, &out->chain, reason, size);
}

const char* carnot_cuda_gemm_read(const carnot_problem* problem, const carnot_epilogue_mask* mask,
                                  carnot_cuda_gemm_region* out, char* reason, size_t size) {
  if (!carnot_is_gemm(problem->region->nodes[0].op)) return "";
  const carnot_operand_desc* y = &problem->outputs[0];
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  const char* why = carnot_epilogue_facts_of_problem(problem, y->format.dtype, /*channel_axis=*/1,
                                                     y->rank > 0 ? y->dims[y->rank - 1] : 1, facts);
  if (why) return why;
  drop_scalars(facts, problem->input_count);
  return read_region(problem->region, problem->input_count, facts, mask, out, reason, size);
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
                                        const carnot_epilogue_mask* mask,
                                        carnot_cuda_gemm_region* out) {
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  char reason[256];
  CARNOT_CHECK(carnot_is_gemm(step->region->nodes[0].op) &&
                   (residual == CARNOT_PLAN_NONE || residual < step->input_count),
               INVALID_MODEL, "a GEMM of %u operands whose residual is input %u", step->input_count,
               residual);
  CARNOT_TRY(carnot_epilogue_facts_of_operands(inputs, step->input_count, y, /*channel_axis=*/1,
                                               y->rank > 0 ? y->dims[y->rank - 1] : 1, facts));
  drop_scalars(facts, step->input_count);
  // Which full operand is the residual was decided at build, at every shape of the profile.
  for (uint32_t i = 0; i < step->input_count; i++)
    facts[i] &= (carnot_operand_facts)~CARNOT_FACT_FULL;
  if (residual != CARNOT_PLAN_NONE) facts[residual] = CARNOT_FACT_FULL;
  carnot_epilogue_mask with_residual = *mask;
  with_residual.residual = residual != CARNOT_PLAN_NONE;
  const char* why = read_region(step->region, step->input_count, facts, &with_residual, out, reason,
                                sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  const carnot_operand used[] = {inputs[out->gemm.a], inputs[out->gemm.b], *y};
  CARNOT_TRY(carnot_cuda_on_device(used, 3));
  if (out->c != CARNOT_PLAN_NONE) CARNOT_TRY(carnot_cuda_on_device(&inputs[out->c], 1));
  return out->residual == CARNOT_PLAN_NONE ? NULL : check_residual(&inputs[out->residual], y);
}

void carnot_cuda_gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc* y = &problem->outputs[0];
  *out_flops = carnot_gemm_flops(problem);
  *out_bytes = (double)carnot_dims_count(y->dims, y->rank) * carnot_dtype_bits(y->format.dtype) / 8;
  for (uint32_t i = 0; i < problem->input_count; i++)
    *out_bytes += (double)carnot_dims_count(problem->inputs[i].dims,
                                            carnot_max_i64(0, problem->inputs[i].rank)) *
                  carnot_dtype_bits(problem->inputs[i].format.dtype) / 8;
}
