// Splits a region of several convolutions into problems of one convolution each.
#include "tactic/problem/conv_chain.h"

// What one stage is made from: nodes [first, end) of the region of |problem|.
typedef struct cut {
  const carnot_problem* problem;
  carnot_arena* arena;
  uint32_t first, end;
  uint32_t previous;  // local value of the region that the stage before computes; NONE: the first
} cut;

static const carnot_operand_desc* desc_of(const carnot_problem* problem, uint32_t local) {
  return local < problem->input_count ? &problem->inputs[local]
                                      : &problem->inner[local - problem->input_count];
}

// The node of the stage that makes |local|; NONE: another one does, or it is an input.
static uint32_t maker_of(const cut* c, uint32_t local) {
  for (uint32_t n = c->first; n < c->end; n++)
    if (c->problem->region->nodes[n].outputs[0] == local) return n;
  return CARNOT_PLAN_NONE;
}

// The number of |local| in the stage: inputs first, then the results of its nodes.
static uint32_t renumber(const cut* c, const carnot_conv_stage* s, uint32_t local) {
  if (local == CARNOT_PLAN_NONE) return local;
  const uint32_t node = maker_of(c, local);
  if (node != CARNOT_PLAN_NONE) return s->problem.input_count + node - c->first;
  const uint32_t outer = local == c->previous ? CARNOT_PLAN_NONE : local;
  for (uint32_t i = 0; i < s->problem.input_count; i++)
    if (s->step_inputs[i] == outer) return i;
  return CARNOT_PLAN_NONE;
}

// Adds an operand that no node of the stage makes. NULL, or why the region is no chain.
static const char* add_input(const cut* c, carnot_conv_stage* s, uint32_t local) {
  if (renumber(c, s, local) != CARNOT_PLAN_NONE || local == CARNOT_PLAN_NONE) return NULL;
  if (local >= c->problem->input_count && local != c->previous)
    return "a result inside the chain is read by more than the next convolution";
  if (s->problem.input_count == CARNOT_CONV_STAGE_MAX_INPUTS)
    return "a convolution with too many operands";
  s->step_inputs[s->problem.input_count] = local == c->previous ? CARNOT_PLAN_NONE : local;
  s->inputs[s->problem.input_count++] = *desc_of(c->problem, local);
  return NULL;
}

static const char* add_inputs(const cut* c, carnot_conv_stage* s) {
  const carnot_plan_node* nodes = c->problem->region->nodes;
  if (c->previous != CARNOT_PLAN_NONE && nodes[c->first].inputs[0] != c->previous)
    return "a convolution does not read the result of the one before";
  for (uint32_t n = c->first; n < c->end; n++)
    for (uint32_t i = 0; i < nodes[n].input_count; i++) {
      const char* why = add_input(c, s, nodes[n].inputs[i]);
      if (why) return why;
    }
  return NULL;
}

static const uint32_t* renumber_all(const cut* c, const carnot_conv_stage* s, const uint32_t* from,
                                    uint32_t count) {
  uint32_t* to = CARNOT_NEW_ARRAY(c->arena, uint32_t, count + 1);
  for (uint32_t i = 0; to && i < count; i++) to[i] = renumber(c, s, from[i]);
  return to;
}

static const char* read_stage(const cut* c, carnot_conv_stage* s) {
  const carnot_plan_node* nodes = c->problem->region->nodes;
  s->problem = *c->problem;
  s->problem.input_count = 0;
  for (uint32_t n = c->first; n < c->end; n++)
    if (nodes[n].output_count != 1) return "an operator of the chain has several results";
  const char* why = add_inputs(c, s);
  if (why) return why;
  const uint32_t count = c->end - c->first;
  carnot_plan_node* own = CARNOT_NEW_ARRAY(c->arena, carnot_plan_node, count);
  carnot_operand_desc* inner = CARNOT_NEW_ARRAY(c->arena, carnot_operand_desc, count);
  if (!own || !inner) return CARNOT_REJECT_NO_MEMORY;
  for (uint32_t n = 0; n < count; n++) {
    own[n] = nodes[c->first + n];
    own[n].inputs = renumber_all(c, s, own[n].inputs, own[n].input_count);
    inner[n] = *desc_of(c->problem, own[n].outputs[0]);
    own[n].outputs = renumber_all(c, s, own[n].outputs, 1);
  }
  s->output = c->end < c->problem->region->node_count ? inner[count - 1] : c->problem->outputs[0];
  s->result = s->problem.input_count + count - 1;
  s->region = (carnot_region){.node_count = count,
                              .value_count = s->problem.input_count + count,
                              .nodes = own,
                              .output_count = 1,
                              .outputs = &s->result};
  s->problem.region = &s->region;
  s->problem.inputs = s->inputs;
  s->problem.output_count = 1;
  s->problem.outputs = &s->output;
  s->problem.inner = inner;
  return NULL;
}

const char* carnot_conv_stage_read(const carnot_problem* problem, carnot_arena* arena,
                                   uint32_t first, uint32_t end, uint32_t previous,
                                   carnot_conv_stage* out) {
  return read_stage(&(cut){problem, arena, first, end, previous}, out);
}

const char* carnot_conv_chain_read(const carnot_problem* problem, carnot_arena* arena,
                                   carnot_conv_chain* out) {
  const carnot_region* region = problem->region;
  uint32_t convolutions = 0;
  for (uint32_t n = 0; n < region->node_count; n++)
    convolutions += region->nodes[n].op == CARNOT_OP_CONV;
  if (convolutions < 2) return "";
  if (convolutions > CARNOT_CONV_CHAIN_MAX_STAGES) return "a chain of too many convolutions";
  if (region->nodes[0].op != CARNOT_OP_CONV || region->nodes[0].inputs[0] != 0)
    return "the region does not begin with its convolution";
  if (problem->output_count != 1 || region->outputs[0] != region->value_count - 1)
    return "an inner value is read outside the region";
  out->count = 0;
  uint32_t previous = CARNOT_PLAN_NONE;
  for (uint32_t first = 0, end; first < region->node_count; first = end) {
    end = first + 1;
    while (end < region->node_count && region->nodes[end].op != CARNOT_OP_CONV) end++;
    const char* why =
        carnot_conv_stage_read(problem, arena, first, end, previous, &out->stages[out->count++]);
    if (why) return why;
    previous = region->nodes[end - 1].outputs[0];
  }
  return arena->failed ? CARNOT_REJECT_NO_MEMORY : NULL;
}
