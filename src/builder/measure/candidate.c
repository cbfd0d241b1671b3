// One candidate: its work and its packed weights.
#include "builder/measure/benchmark.h"

double carnot_operand_bytes(const carnot_operand_desc* t) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return 0;
  double bytes = carnot_dtype_bits(t->format.dtype) / 8.0;
  for (int d = 0; d < t->rank; d++) bytes *= (double)carnot_max_i64(0, t->dims[d]);
  return bytes;
}

void carnot_candidate_work(const carnot_candidate* c, double* out_flops, double* out_bytes) {
  const carnot_problem* p = &c->problem;
  *out_flops = *out_bytes = 0;
  if (c->tactic->work) {
    c->tactic->work(p, out_flops, out_bytes);
    return;
  }
  for (uint32_t i = 0; i < p->input_count; i++) *out_bytes += carnot_operand_bytes(&p->inputs[i]);
  for (uint32_t i = 0; i < p->output_count; i++) *out_bytes += carnot_operand_bytes(&p->outputs[i]);
}

carnot_status* carnot_candidate_prepare(carnot_builder* builder, const char* node,
                                        carnot_candidate* c) {
  if (c->prepared.arena) return NULL;
  c->prepared = (carnot_prepared){.arena = builder->memory, .executor = builder->config->executor};
  if (!c->tactic->prepare) return NULL;
  CARNOT_TRY_AT(c->tactic->prepare(&c->problem, &c->prepared), "node %s, tactic %s", node,
                c->tactic->name);
  return NULL;
}
