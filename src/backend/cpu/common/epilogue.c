// Epilogue plans: the matched epilogue in the form that kernels take, and the rest of the region as
// a pointwise program.
#include "backend/cpu/common/epilogue.h"

#include "tactic/problem/epilogue.h"

enum { kMaxValues = 256 };  // locals of a region that a plan can read

typedef struct maker {
  const carnot_problem* problem;
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  carnot_epilogue_plan* plan;
  int8_t register_of[kMaxValues];  // by local value; -1: none
  char* reason;
  size_t size;
} maker;

// By carnot_fused_activation; NONE: the kernels do not apply it.
static const int8_t kActivations[CARNOT_FUSED_COUNT] = {
    [CARNOT_FUSED_RELU] = CARNOT_KERNEL_ACTIVATION_RELU,
    [CARNOT_FUSED_CLAMP] = CARNOT_KERNEL_ACTIVATION_CLIP,
    [CARNOT_FUSED_LEAKY_RELU] = CARNOT_KERNEL_ACTIVATION_LEAKY_RELU,
    [CARNOT_FUSED_SIGMOID] = CARNOT_KERNEL_ACTIVATION_SIGMOID,
    [CARNOT_FUSED_SILU] = CARNOT_KERNEL_ACTIVATION_SILU,
    [CARNOT_FUSED_HARD_SWISH] = CARNOT_KERNEL_ACTIVATION_HARD_SWISH,
    [CARNOT_FUSED_TANH] = CARNOT_KERNEL_ACTIVATION_TANH,
    [CARNOT_FUSED_GELU_ERF] = CARNOT_KERNEL_ACTIVATION_GELU_ERF};

int carnot_epilogue_kernel_activation(carnot_fused_activation kind) { return kActivations[kind]; }

// What the kernels' carnot_epilogue_f32 holds; biases only where the tactic packs one.
static carnot_epilogue_mask kernel_mask(bool has_bias) {
  carnot_epilogue_mask mask = {
      .biases = has_bias ? CARNOT_EPILOGUE_SUM_BIASES : CARNOT_EPILOGUE_NO_BIAS, .residual = true};
  for (int i = 0; i < CARNOT_FUSED_COUNT; i++)
    if (kActivations[i] != CARNOT_KERNEL_ACTIVATION_NONE) mask.activations |= 1u << i;
  return mask;
}

// How an operand of the program is broadcast over the tile; -1: it cannot be.
static int shape_of(carnot_operand_facts facts) {
  if (facts & CARNOT_FACT_FULL) return CARNOT_EPILOGUE_FULL;
  if (facts & CARNOT_FACT_SCALAR) return CARNOT_EPILOGUE_SCALAR;
  return facts & CARNOT_FACT_CHANNEL ? CARNOT_EPILOGUE_CHANNEL : -1;
}

static void add_to_bias(const carnot_tensor* t, float* bias, int64_t channels) {
  bool scalar = carnot_tensor_count(t) == 1;
  const float* values = t->data;
  for (int64_t i = 0; i < channels; i++) bias[i] += values[scalar ? 0 : i];
}

// The type of an operand of the program: the tile, or an input.
static uint8_t type_of(const carnot_operand_desc* t) {
  return t->format.dtype == CARNOT_DTYPE_BF16 ? CARNOT_PW_BF16 : CARNOT_PW_F32;
}

static int register_of(maker* m, uint32_t local) {
  if (m->register_of[local] >= 0) return m->register_of[local];
  carnot_epilogue_plan* plan = m->plan;
  if (local >= m->problem->input_count || plan->operand_count == CARNOT_EPILOGUE_MAX_OPERANDS)
    return -1;
  int shape = shape_of(m->facts[local]);
  if (shape < 0) return -1;
  plan->operands[plan->operand_count].input = (int32_t)local;
  plan->operands[plan->operand_count].shape = shape;
  plan->operand_count++;
  m->register_of[local] = (int8_t)plan->operand_count;
  return plan->operand_count;
}

static const char* take_in_program(maker* m, const carnot_plan_node* node, carnot_fn fn) {
  carnot_pw_program* program = &m->plan->program;
  if (carnot_pw_arity((int)fn) != (int)node->input_count)
    return carnot_because(m->reason, m->size, "no program for %s of %u operands",
                          carnot_fn_get(fn)->name, node->input_count);
  if (program->instruction_count == CARNOT_PW_MAX_INSTRUCTIONS)
    return "the pointwise program is too long";
  carnot_pw_instruction* in = &program->instructions[program->instruction_count++];
  const carnot_op_row* row = carnot_op_get(node->op);
  in->fn = (uint8_t)fn;
  in->a = (float)carnot_attr_float(row, &node->attrs, "alpha");
  in->b = (float)carnot_attr_float(row, &node->attrs, "beta");
  for (uint32_t i = 0; i < node->input_count; i++) {
    int source = node->inputs[i] == CARNOT_PLAN_NONE ? -1 : register_of(m, node->inputs[i]);
    if (source < 0)
      return carnot_because(m->reason, m->size, "operand %u of %s (%s) does not fit the tile", i,
                            node->name, carnot_fn_get(fn)->name);
    in->src[i] = (uint8_t)source;
  }
  return NULL;
}

// Inputs come first in the register file: results get their numbers when all operands are counted.
static const char* number_results(maker* m, uint32_t first_node) {
  const carnot_region* region = m->problem->region;
  carnot_pw_program* program = &m->plan->program;
  int next = m->plan->operand_count + 1;
  for (uint32_t n = first_node; n < region->node_count; n++, next++) {
    if (next >= CARNOT_PW_MAX_REGISTERS) return "the pointwise program needs too many registers";
    m->register_of[region->nodes[n].outputs[0]] = (int8_t)next;
    program->instructions[n - first_node].dst = (uint8_t)next;
  }
  program->register_count = (uint8_t)next;
  program->input_count = (uint8_t)(m->plan->operand_count + 1);
  program->output_count = 1;
  program->output_register[0] = (uint8_t)(next - 1);
  program->input_type[0] = program->output_type[0] = type_of(&m->problem->outputs[0]);
  for (int i = 0; i < m->plan->operand_count; i++)
    program->input_type[i + 1] = type_of(&m->problem->inputs[m->plan->operands[i].input]);
  return NULL;
}

// Operands are found in a first walk; a second one writes the instructions with their final
// registers.
static const char* make_program(maker* m, uint32_t first_node, uint32_t acc) {
  const carnot_region* region = m->problem->region;
  if (first_node == region->node_count) return NULL;
  m->register_of[acc] = 0;
  for (uint32_t n = first_node; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    for (uint32_t i = 0; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local == CARNOT_PLAN_NONE || (local >= m->problem->input_count && local != acc)) continue;
      if (register_of(m, local) < 0)
        return carnot_because(m->reason, m->size, "operand %u of %s does not fit the tile", i,
                              node->name);
    }
  }
  const char* why = number_results(m, first_node);
  if (why) return why;
  for (uint32_t n = first_node; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    uint8_t dst = m->plan->program.instructions[n - first_node].dst;
    why = take_in_program(m, node,
                          (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn"));
    if (why) return why;
    m->plan->program.instructions[n - first_node].dst = dst;
  }
  return carnot_pw_check(&m->plan->program);
}

static const char* check_pointwise(maker* m, uint32_t anchor) {
  const carnot_region* region = m->problem->region;
  for (uint32_t n = anchor + 1; n < region->node_count; n++) {
    carnot_op op = region->nodes[n].op;
    if (op != CARNOT_OP_UNARY && op != CARNOT_OP_BINARY && op != CARNOT_OP_TERNARY)
      return carnot_because(m->reason, m->size, "%s behind the anchor is not pointwise",
                            carnot_op_get(op)->name);
  }
  return NULL;
}

static const char* read_facts(maker* m, int64_t channels) {
  const carnot_problem* problem = m->problem;
  const int axis = m->plan->channel_axis;
  const char* why =
      carnot_epilogue_facts_of_problem(problem, CARNOT_DTYPE_F32, axis, channels, m->facts);
  if (why || !problem->tactic || !problem->tactic->takes_bf16) return why;
  carnot_operand_facts half[CARNOT_EPILOGUE_MAX_INPUTS];
  why = carnot_epilogue_facts_of_problem(problem, CARNOT_DTYPE_BF16, axis, channels, half);
  // Constants keep the type of the network; what kernels read of them is float32.
  for (uint32_t i = 0; i < problem->input_count && !why; i++)
    m->facts[i] |= half[i] & CARNOT_FACT_FULL;
  return why;
}

const char* carnot_epilogue_plan_make(const carnot_problem* problem, uint32_t anchor,
                                      int channel_axis, float* bias, int64_t channels,
                                      bool* out_has_bias, carnot_epilogue_plan* out, char* reason,
                                      size_t size) {
  const carnot_region* region = problem->region;
  *out = (carnot_epilogue_plan){.residual = -1, .channel_axis = channel_axis};
  if (region->value_count > kMaxValues) return "the region has too many values";
  if (region->output_count != 1 || region->outputs[0] != region->value_count - 1)
    return "an inner value is read outside the region";
  maker m = {.problem = problem, .plan = out, .reason = reason, .size = size};
  memset(m.register_of, -1, sizeof(m.register_of));
  const char* why = check_pointwise(&m, anchor);
  if (!why) why = read_facts(&m, channels);
  if (why) return why;
  carnot_epilogue e;
  const carnot_epilogue_mask mask = kernel_mask(bias != NULL);
  carnot_epilogue_match(region, anchor, CARNOT_PLAN_NONE, m.facts, problem->input_count, &mask, &e);
  for (uint32_t i = 0; i < e.bias_count; i++)
    add_to_bias(problem->inputs[e.biases[i]].tensor, bias, channels);
  if (e.bias_count) *out_has_bias = true;
  if (e.residual != CARNOT_PLAN_NONE) out->residual = (int32_t)e.residual;
  out->activation = kActivations[e.activation.kind];
  out->a = e.activation.a, out->b = e.activation.b;
  return make_program(&m, e.rest, e.acc);
}

carnot_status* carnot_epilogue_plan_validate(const carnot_epilogue_plan* plan,
                                             uint32_t input_count) {
  CARNOT_CHECK(plan->residual >= -1 && plan->residual < (int64_t)input_count, INVALID_MODEL,
               "residual %d of %u inputs", plan->residual, input_count);
  CARNOT_CHECK(plan->channel_axis >= 1 && plan->channel_axis < CARNOT_MAX_RANK, INVALID_MODEL,
               "channels along axis %d from the end", plan->channel_axis);
  CARNOT_CHECK(plan->activation >= 0 && plan->activation < CARNOT_KERNEL_ACTIVATION_COUNT,
               INVALID_MODEL, "activation %d", plan->activation);
  CARNOT_CHECK(plan->operand_count >= 0 && plan->operand_count <= CARNOT_EPILOGUE_MAX_OPERANDS,
               INVALID_MODEL, "%d operands of a pointwise program", plan->operand_count);
  for (int i = 0; i < plan->operand_count; i++)
    CARNOT_CHECK(plan->operands[i].input >= 0 && plan->operands[i].input < (int64_t)input_count &&
                     plan->operands[i].shape >= 0 &&
                     plan->operands[i].shape <= CARNOT_EPILOGUE_SCALAR,
                 INVALID_MODEL, "operand %d of a pointwise program is input %d of %u", i,
                 plan->operands[i].input, input_count);
  if (!plan->program.instruction_count) return NULL;
  CARNOT_CHECK(
      plan->program.input_count == plan->operand_count + 1 && plan->program.output_count == 1,
      INVALID_MODEL, "a pointwise program takes %d inputs, has %d operands",
      plan->program.input_count, plan->operand_count);
  const char* why = carnot_pw_check(&plan->program);
  CARNOT_CHECK(!why, INVALID_MODEL, "a pointwise program is invalid: %s", why);
  return NULL;
}

bool carnot_epilogue_plan_uses_input(const carnot_epilogue_plan* plan, uint32_t input) {
  bool reads = plan->residual == (int64_t)input;
  for (int i = 0; i < plan->operand_count; i++)
    reads = reads || plan->operands[i].input == (int64_t)input;
  return reads;
}

uint8_t carnot_epilogue_activation_fn(const carnot_epilogue_plan* plan) {
  static const uint8_t kFns[CARNOT_KERNEL_ACTIVATION_COUNT] = {
      [CARNOT_KERNEL_ACTIVATION_RELU] = CARNOT_PW_RELU,
      [CARNOT_KERNEL_ACTIVATION_CLIP] = CARNOT_PW_CLAMP,
      [CARNOT_KERNEL_ACTIVATION_LEAKY_RELU] = CARNOT_PW_LEAKY_RELU,
      [CARNOT_KERNEL_ACTIVATION_SIGMOID] = CARNOT_PW_SIGMOID,
      [CARNOT_KERNEL_ACTIVATION_SILU] = CARNOT_PW_SWISH,
      [CARNOT_KERNEL_ACTIVATION_HARD_SWISH] = CARNOT_PW_HARD_SWISH,
      [CARNOT_KERNEL_ACTIVATION_TANH] = CARNOT_PW_TANH,
      [CARNOT_KERNEL_ACTIVATION_GELU_ERF] = CARNOT_PW_GELU_ERF};
  return kFns[plan->activation];
}

int64_t carnot_epilogue_row_distance(const carnot_operand* t, int channel_axis) {
  int at = channel_axis == 1 ? t->rank - 2 : t->rank - 1;
  return at < 0 ? carnot_dims_count(t->dims, t->rank) : t->strides[at];
}

bool carnot_epilogue_is_even(const carnot_operand* t, int channel_axis) {
  int channel = t->rank - channel_axis;
  int64_t stride = carnot_epilogue_row_distance(t, channel_axis);
  if (t->dims[channel] > 1 && t->strides[channel] != 1) return false;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == channel) continue;
    if (t->dims[d] > 1 && t->strides[d] != stride) return false;
    stride *= t->dims[d];
  }
  return true;
}

static carnot_status* check_type(const carnot_operand* in, uint8_t type) {
  const carnot_dtype wanted = type == CARNOT_PW_BF16 ? CARNOT_DTYPE_BF16 : CARNOT_DTYPE_F32;
  CARNOT_CHECK((type == CARNOT_PW_BF16 || type == CARNOT_PW_F32) && in->format.dtype == wanted,
               INVALID_MODEL, "an operand of the epilogue has type %s, must have %s",
               carnot_dtype_name(in->format.dtype), carnot_dtype_name(wanted));
  return NULL;
}

static carnot_status* check_shape(const carnot_epilogue_plan* plan, const carnot_operand* in,
                                  carnot_epilogue_operand_shape shape, const carnot_operand* out,
                                  int64_t channels) {
  if (shape == CARNOT_EPILOGUE_FULL) {
    bool same = in->rank == out->rank && in->rank >= plan->channel_axis;
    for (int d = 0; same && d < in->rank; d++) same = in->dims[d] == out->dims[d];
    CARNOT_CHECK(
        same && carnot_epilogue_is_even(in, plan->channel_axis), INVALID_ARGUMENT,
        "an operand of the epilogue has other dimensions or another layout than the result");
    return NULL;
  }
  int64_t count = carnot_dims_count(in->dims, in->rank);
  int64_t wanted = shape == CARNOT_EPILOGUE_CHANNEL ? channels : 1;
  CARNOT_CHECK(count == wanted, INVALID_ARGUMENT,
               "an operand of the epilogue has %lld elements, must have %lld", (long long)count,
               (long long)wanted);
  return NULL;
}

carnot_status* carnot_epilogue_plan_check(const carnot_step_view* step,
                                          const carnot_epilogue_plan* plan,
                                          const carnot_operand* inputs,
                                          const carnot_operand* output, int64_t channels) {
  if (plan->residual >= 0) {
    const carnot_operand* residual = &inputs[plan->residual];
    const bool is_half = step->tactic->takes_bf16 && residual->format.dtype == CARNOT_DTYPE_BF16;
    CARNOT_TRY(check_type(residual, is_half ? CARNOT_PW_BF16 : CARNOT_PW_F32));
    CARNOT_TRY(check_shape(plan, residual, CARNOT_EPILOGUE_FULL, output, channels));
  }
  if (!plan->program.instruction_count) return NULL;
  CARNOT_TRY(check_type(output, plan->program.input_type[0]));
  CARNOT_TRY(check_type(output, plan->program.output_type[0]));
  for (int i = 0; i < plan->operand_count; i++) {
    const carnot_operand* in = &inputs[plan->operands[i].input];
    CARNOT_TRY(check_type(in, plan->program.input_type[i + 1]));
    CARNOT_TRY(check_shape(plan, in, (carnot_epilogue_operand_shape)plan->operands[i].shape, output,
                           channels));
  }
  return NULL;
}

void carnot_epilogue_plan_bind(const carnot_epilogue_plan* plan, const carnot_operand* inputs,
                               const float* bias, carnot_epilogue_f32* out) {
  *out = (carnot_epilogue_f32){.bias = bias,
                               .activation = (carnot_kernel_activation)plan->activation,
                               .a = plan->a,
                               .b = plan->b};
  if (plan->residual < 0) return;
  out->residual = inputs[plan->residual].data;
  out->residual_ld = carnot_epilogue_row_distance(&inputs[plan->residual], plan->channel_axis);
}

static int64_t bytes_of(uint8_t type) { return type == CARNOT_PW_BF16 ? 2 : 4; }

void carnot_epilogue_plan_run(const carnot_cpu_kernels* kernels, const carnot_epilogue_plan* plan,
                              const carnot_operand* inputs, void* data, int64_t ld, int64_t m0,
                              int64_t m1, int64_t n0, int64_t n1) {
  if (!plan->program.instruction_count || m0 >= m1 || n0 >= n1) return;
  char* tile = (char*)data + n0 * bytes_of(plan->program.input_type[0]);
  carnot_pw_operand in[CARNOT_PW_MAX_INPUTS] = {{tile, ld, 1}};
  carnot_pw_operand out = {tile, ld, 1};
  for (int i = 0; i < plan->operand_count; i++) {
    const carnot_operand* operand = &inputs[plan->operands[i].input];
    char* base = operand->data;
    char* column = base + n0 * bytes_of(plan->program.input_type[i + 1]);
    switch (plan->operands[i].shape) {
      case CARNOT_EPILOGUE_FULL:
        in[i + 1] = (carnot_pw_operand){
            column, carnot_epilogue_row_distance(operand, plan->channel_axis), 1};
        break;
      case CARNOT_EPILOGUE_CHANNEL: in[i + 1] = (carnot_pw_operand){column, 0, 1}; break;
      default: in[i + 1] = (carnot_pw_operand){base, 0, 0}; break;
    }
  }
  kernels->pointwise(&plan->program, in, &out, m0, m1, n1 - n0);
}

void carnot_epilogue_plan_run_by_channel(const carnot_cpu_kernels* kernels,
                                         const carnot_epilogue_plan* plan,
                                         const carnot_operand* inputs, float* data, int64_t ld,
                                         int64_t channels, int64_t n0, int64_t n1) {
  if (!plan->program.instruction_count || n0 >= n1) return;
  carnot_pw_operand in[CARNOT_PW_MAX_INPUTS] = {{data + n0, ld, 1}};
  carnot_pw_operand out = {data + n0, ld, 1};
  for (int i = 0; i < plan->operand_count; i++)
    in[i + 1] = (carnot_pw_operand){inputs[plan->operands[i].input].data,
                                    plan->operands[i].shape == CARNOT_EPILOGUE_CHANNEL, 0};
  kernels->pointwise(&plan->program, in, &out, 0, channels, n1 - n0);
}

bool carnot_epilogue_plan_has_full_operand(const carnot_epilogue_plan* plan) {
  bool full = plan->residual >= 0;
  for (int i = 0; i < plan->operand_count; i++)
    full |= plan->operands[i].shape == CARNOT_EPILOGUE_FULL;
  return full;
}

bool carnot_epilogue_plan_may_share(const carnot_epilogue_plan* plan, const carnot_step_view* step,
                                    uint32_t input, uint32_t output) {
  return output == 0 && plan->residual >= 0 && (uint32_t)plan->residual == input &&
         carnot_cpu_reads_once(step, input);
}
