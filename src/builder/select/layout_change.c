// What a change of layout takes on the CPU.
#include "builder/select/candidates.h"

// Where nothing is timed.
static double estimate_ns(const carnot_operand_desc* operand) {
  enum { kBytesPerNs = 32 };  // measured: 26 to 58, read and written
  return 2 * carnot_operand_bytes(operand) / kBytesPerNs;
}

carnot_status* carnot_time_layout_change(carnot_builder* builder, const carnot_problem* problem,
                                         const carnot_operand_desc* operand, carnot_layout layout,
                                         double* out_ns) {
  enum { kTimedLevel = 2 };
  carnot_operand_desc operands[2] = {*operand, *operand};
  *out_ns = estimate_ns(operand);
  if (builder->config->level < kTimedLevel) return NULL;
  operands[0].format.layout = layout;
  operands[1].format.layout =
      layout == CARNOT_LAYOUT_ROW_MAJOR ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  // The region of the step that lowering adds: one Identity.
  static const uint32_t kLocals[] = {0, 1};
  carnot_plan_node node = {.op = CARNOT_OP_IDENTITY,
                           .name = "reformat",
                           .input_count = 1,
                           .output_count = 1,
                           .inputs = &kLocals[0],
                           .outputs = &kLocals[1]};
  const carnot_region region = {
      .node_count = 1, .value_count = 2, .nodes = &node, .output_count = 1, .outputs = &kLocals[1]};
  carnot_candidate c = {.tactic = carnot_tactic_find(CARNOT_HOST_REFORMAT_TACTIC),
                        .problem = *problem,
                        .ns = UINT64_MAX};
  c.problem.region = &region;
  c.problem.inputs = &operands[0];
  c.problem.outputs = &operands[1];
  c.problem.inner = NULL;
  c.problem.input_count = c.problem.output_count = 1;
  c.problem.tactic = c.tactic;
  CARNOT_TRY(carnot_measure_candidates(builder, "a change of layout", &c.problem, &c, 1));
  if (c.ns != UINT64_MAX) *out_ns = (double)c.ns;
  return NULL;
}
