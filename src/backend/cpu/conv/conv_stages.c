// Steps of several convolutions: packing, checks and 1x1 convolutions of a stage.
#include "backend/cpu/conv/conv_stages.h"

#include "backend/cpu/common/packed_weights.h"

// ---- build ----

// Floats that the bias of a stage takes.
static int64_t bias_room(const carnot_conv_params* p) {
  return (int64_t)carnot_align_up((size_t)p->filters, 16);
}

static void use_step_inputs(const carnot_conv_stage* stage, carnot_epilogue_plan* plan) {
  if (plan->residual >= 0) plan->residual = (int32_t)stage->step_inputs[plan->residual];
  for (int i = 0; i < plan->operand_count; i++)
    plan->operands[i].input = (int32_t)stage->step_inputs[plan->operands[i].input];
}

carnot_status* carnot_conv_stages_prepare(carnot_conv_stage* const* stages, int count,
                                          carnot_conv_params* params, carnot_prepared* out) {
  const float* from[CARNOT_CONV_CHAIN_MAX_STAGES];
  int64_t room = 0;
  void* biases;
  for (int i = 0; i < count; i++) {
    const carnot_conv_stage* stage = stages[i];
    carnot_prepared one = {.arena = out->arena, .executor = out->executor};
    CARNOT_TRY(stage->problem.tactic->prepare(&stage->problem, &one));
    params[i] = *(const carnot_conv_params*)one.params;
    use_step_inputs(stage, &params[i].epilogue_plan);
    out->constants[i] = one.constants[0];
    from[i] = one.constants[1].data;
    for (uint32_t k = 0; k < stage->problem.input_count; k++)
      if (one.packed_inputs >> k & 1) out->packed_inputs |= (uint64_t)1 << stage->step_inputs[k];
    room += bias_room(&params[i]);
  }
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)room, sizeof(float), "biases", &biases));
  float* bias = biases;
  for (int i = 0; i < count; bias += bias_room(&params[i++]))
    memcpy(bias, from[i], (size_t)params[i].filters * sizeof(float));
  out->constants[count].packing = "dense f32";
  out->constants[count].data = biases;
  out->constants[count].bytes = (size_t)room * sizeof(float);
  out->constant_count = (uint32_t)count + 1;
  return NULL;
}

// ---- load ----

static size_t weight_bytes(const carnot_conv_params* p) {
  if (p->weights == CARNOT_WEIGHTS_BF16_TILES)
    return carnot_packed_weights_bytes(CARNOT_WEIGHTS_BF16_TILES,
                                       carnot_conv_tiles_weights_shape(p));
  if (!carnot_conv_is_point(p)) {
    const int64_t depth = carnot_conv_taps(p) * (p->channels / p->group);
    return (size_t)carnot_packed_k1n16_count(depth, p->filters) * sizeof(float);
  }
  return carnot_packed_weights_bytes(
      (carnot_weights_type)p->weights,
      (carnot_packed_weights_shape){carnot_conv_taps(p), p->channels, p->filters});
}

carnot_status* carnot_conv_stage_check(const carnot_step_view* step,
                                       const carnot_conv_params* params, int i,
                                       const carnot_tactic* tactic) {
  const carnot_conv_params* p = &params[i];
  CARNOT_TRY(carnot_conv_params_check(p, step->input_count, 2));
  CARNOT_CHECK(p->window.rank == 2, INVALID_MODEL, "a window of %d dimensions, must have 2",
               p->window.rank);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(tactic));
  CARNOT_CHECK(p->channels <= CARNOT_CONV_MAX_CHANNELS, INVALID_MODEL, "%lld channels",
               (long long)p->channels);
  CARNOT_CHECK(carnot_conv_taps(p) <= INT32_MAX, INVALID_MODEL, "a window of %lld elements",
               (long long)carnot_conv_taps(p));
  CARNOT_CHECK(step->constant_bytes[i] == weight_bytes(p), INVALID_MODEL,
               "the packed weights have %zu bytes, must have %zu", step->constant_bytes[i],
               weight_bytes(p));
  return NULL;
}

carnot_status* carnot_conv_stages_check_constants(const carnot_step_view* step,
                                                  const carnot_conv_params* params, int count) {
  int64_t room = 0;
  CARNOT_CHECK(step->constant_count == (uint32_t)count + 1, INVALID_MODEL,
               "%u constants, must be %d", step->constant_count, count + 1);
  for (int i = 0; i < count; i++) room += bias_room(&params[i]);
  CARNOT_CHECK(step->constant_bytes[count] == (size_t)room * sizeof(float), INVALID_MODEL,
               "the biases have %zu bytes, must have %zu", step->constant_bytes[count],
               (size_t)room * sizeof(float));
  return NULL;
}

static bool is_conv_constant(const carnot_step_view* step, uint32_t input) {
  for (uint32_t n = 0; n < step->region->node_count; n++) {
    const carnot_plan_node* node = &step->region->nodes[n];
    for (uint32_t i = 1; node->op == CARNOT_OP_CONV && i < node->input_count; i++)
      if (node->inputs[i] == input) return true;
  }
  return false;
}

bool carnot_conv_stages_uses_input(const carnot_step_view* step, const carnot_conv_params* params,
                                   int count, uint32_t input) {
  for (int i = 0; i < count; i++)
    if (carnot_epilogue_plan_uses_input(&params[i].epilogue_plan, input)) return true;
  return input == 0 || !is_conv_constant(step, input);
}

void carnot_conv_stages_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  const carnot_region* region = problem->region;
  *out_flops = 0;
  *out_bytes = sizeof(float) * ((double)carnot_dims_count(x->dims, x->rank) +
                                (double)carnot_dims_count(y->dims, y->rank));
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (node->op != CARNOT_OP_CONV) continue;
    const carnot_operand_desc* w = &problem->inputs[node->inputs[1]];
    const carnot_operand_desc* made = &problem->inner[node->outputs[0] - problem->input_count];
    const double weights = (double)carnot_dims_count(w->dims, w->rank);
    *out_flops += 2 * weights * (double)carnot_dims_count(made->dims, made->rank) /
                  (double)carnot_max_i64(1, made->dims[1]);
    *out_bytes += sizeof(float) * weights;
  }
}

// ---- run ----

void carnot_conv_stages_biases(const carnot_step_view* step, const carnot_conv_params* params,
                               int count, const float** out_biases) {
  const float* bias = step->constants[count];
  for (int i = 0; i < count; bias += bias_room(&params[i++]))
    out_biases[i] = params[i].has_bias ? bias : NULL;
}

carnot_epilogue_f32 carnot_conv_stage_epilogue(const carnot_conv_params* p, const float* bias,
                                               const carnot_operand* inputs, int64_t pixel,
                                               bool* out_residual_is_bf16) {
  carnot_epilogue_f32 e;
  carnot_epilogue_plan_bind(&p->epilogue_plan, inputs, bias, &e);
  *out_residual_is_bf16 = false;
  if (!e.residual) return e;
  const carnot_operand* residual = &inputs[p->epilogue_plan.residual];
  *out_residual_is_bf16 = residual->format.dtype == CARNOT_DTYPE_BF16;
  e.residual = carnot_pixels_element(residual->data, *out_residual_is_bf16, pixel * e.residual_ld);
  return e;
}

carnot_pixels carnot_conv_stage_src(const carnot_conv_params* p, bool is_bf16, void* data) {
  enum { kTileDepth = 32 };
  const bool by_tiles = is_bf16 && p->weights == CARNOT_WEIGHTS_BF16_TILES;
  const int64_t ld = by_tiles ? carnot_ceildiv(p->channels, kTileDepth) * kTileDepth : p->channels;
  return (carnot_pixels){data, is_bf16, ld, ld > p->channels};
}

void carnot_conv_stage_pad(carnot_pixels pixels, int64_t channels, int64_t m) {
  if (!pixels.zero_padded) return;
  uint16_t* to = (uint16_t*)pixels.data + channels;
  for (int64_t i = 0; i < m; i++, to += pixels.ld)
    memset(to, 0, (size_t)(pixels.ld - channels) * sizeof *to);
}

carnot_conv2d_bf16_tiles carnot_conv_stage_tiles(const carnot_conv_params* p, int64_t m,
                                                 carnot_pixels src, int64_t ldc) {
  const int64_t channels = src.zero_padded ? src.ld : p->channels;
  carnot_conv2d_bf16_tiles call =
      carnot_conv2d_bf16_tiles_of_gemm(m, channels, p->filters, src.ld, ldc);
  call.src_is_bf16 = src.is_bf16;
  return call;
}

void carnot_conv_stage_run_point(const carnot_conv_stage_point* point, int64_t m, int64_t n0,
                                 int64_t n1) {
  const carnot_conv_params* p = point->params;
  if (p->weights == CARNOT_WEIGHTS_BF16_TILES) {
    carnot_conv2d_bf16_tiles call = carnot_conv_stage_tiles(p, m, point->src, point->dst.ld);
    call.dst_is_bf16 = point->dst.is_bf16;
    call.residual_is_bf16 = point->residual_is_bf16;
    call.scratch = point->scratch;
    call.conv.src = point->src.data, call.conv.dst = point->dst.data;
    call.conv.weights = point->weights;
    call.conv.epilogue = point->epilogue;
    point->kernels->conv2d_bf16_tiles(&call, 0, m, n0, n1);
    return;
  }
  const carnot_gemm_f32 gemm = {.m = m,
                                .n = p->filters,
                                .k = p->channels,
                                .a = point->src.data,
                                .lda = point->src.ld,
                                .b = point->weights,
                                .c = point->dst.data,
                                .ldc = point->dst.ld,
                                .epilogue = point->epilogue};
  carnot_packed_weights_gemm(point->kernels, (carnot_weights_type)p->weights)(&gemm, 0, m, n0, n1);
}

int carnot_conv_take_slot(_Atomic uint32_t* taken, int64_t count) {
  uint32_t now = atomic_load_explicit(taken, memory_order_relaxed);
  for (;;) {
    const int slot = __builtin_ctz(~now);
    if (slot >= count) {
      now = atomic_load_explicit(taken, memory_order_relaxed);
      continue;
    }
    if (atomic_compare_exchange_weak_explicit(taken, &now, now | 1u << slot, memory_order_acquire,
                                              memory_order_relaxed))
      return slot;
  }
}

void carnot_conv_return_slot(_Atomic uint32_t* taken, int slot) {
  atomic_fetch_and_explicit(taken, ~(1u << slot), memory_order_release);
}
