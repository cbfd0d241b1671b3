// Convolutions by constant integer weights: packing, checks and parts.
#include "backend/cpu/conv/integer_conv.h"

#include "backend/cpu/conv/int8_conv.h"
#include "tactic/problem/conv.h"

static carnot_int8_weights_shape weights_of(const carnot_integer_conv* s) {
  return (carnot_int8_weights_shape){s->group, s->taps, s->channels / s->group,
                                     s->filters / s->group};
}

static const carnot_operand_desc* given(const carnot_problem* p, uint32_t i) {
  return i < p->input_count && p->inputs[i].kind == CARNOT_VALUE_TENSOR ? &p->inputs[i] : NULL;
}

// The weights less their zero points to |out|, which may be NULL, and the sums of each filter to
// |out_sums|, likewise. NULL, or the reason.
static const char* center(const carnot_problem* problem, uint32_t w_input, uint32_t w_zero,
                          int64_t filters, int8_t* out, int32_t* out_sums, char* reason,
                          size_t size) {
  const carnot_tensor* w = problem->inputs[w_input].tensor;
  const carnot_operand_desc* zeros = given(problem, w_zero);
  if (zeros && (!carnot_is_known(zeros) || (carnot_tensor_count(zeros->tensor) != 1 &&
                                            carnot_tensor_count(zeros->tensor) != filters)))
    return "the weights' zero points are not known, one or one a filter";
  const carnot_tensor* zero = zeros ? zeros->tensor : NULL;
  const int64_t count = carnot_tensor_count(w), each = count / filters;
  for (int64_t i = 0; i < count; i++) {
    const size_t at = zero && carnot_tensor_count(zero) > 1 ? (size_t)(i / each) : 0;
    const int64_t z = zero ? carnot_load_i64(zero->dtype, zero->data, at) : 0,
                  v = carnot_load_i64(w->dtype, w->data, (size_t)i) - z;
    if (v < INT8_MIN || v > INT8_MAX)
      return carnot_because(reason, size, "weight %lld less its zero point is %lld, exceeds int8",
                            (long long)i, (long long)v);
    if (out) out[i] = (int8_t)v;
    if (out_sums) out_sums[i / each] += (int32_t)v;
  }
  return NULL;
}

// One group; what operands hold is missing.
static carnot_conv2d_u8s8 call_of(const carnot_integer_conv* s, const carnot_window_geometry* g) {
  return (carnot_conv2d_u8s8){CARNOT_WINDOW_FIELDS(g),
                              .c = s->channels / s->group,
                              .k = s->filters / s->group,
                              .src_n = g->src_n,
                              .src_h = g->src_h,
                              .src_w = g->src_w,
                              .ld = g->ld};
}

static const char* tiles_reject(const carnot_integer_conv* s, char* reason, size_t size) {
  const carnot_window_geometry any = carnot_window_geometry_of_any_size(&s->window, s->channels);
  const carnot_conv2d_u8s8 call = call_of(s, &any);
  return carnot_int8_tiles_reject(&call, s->group, reason, size);
}

const char* carnot_integer_conv_read(const carnot_problem* problem, const carnot_plan_node* node,
                                     uint32_t x_input, uint32_t w_input, uint32_t w_zero,
                                     carnot_integer_conv* out, char* reason, size_t size) {
  const carnot_operand_desc *x = &problem->inputs[x_input], *w = given(problem, w_input);
  if (x->rank != 3 && x->rank != 4) return "the activations are no tensors of rank 3 or 4";
  if (!w || !carnot_is_known(w) || !carnot_is_8bit(w->format.dtype))
    return "the weights are no known int8 or uint8";
  carnot_conv_problem conv = {.node = node};
  const char* why = carnot_conv_problem_sizes(x, w, &conv, reason, size);
  if (why) return why;
  *out = (carnot_integer_conv){conv.window, conv.group, conv.channels, conv.filters, 1};
  for (int d = 0; d < conv.window.rank; d++) out->taps *= conv.window.kernel[d];
  if (out->channels < 1 || out->filters < 1 || out->channels > CARNOT_INT8_MAX_CHANNELS ||
      out->filters > CARNOT_INT8_MAX_CHANNELS || out->filters % out->group ||
      out->taps > CARNOT_INT8_MAX_TAPS)
    return carnot_because(reason, size, "%lld channels, %lld filters and %lld taps",
                          (long long)out->channels, (long long)out->filters, (long long)out->taps);
  why = center(problem, w_input, w_zero, out->filters, NULL, NULL, reason, size);
  if (why) return why;
  return carnot_int8_uses_tiles(problem->tactic) ? tiles_reject(out, reason, size) : NULL;
}

carnot_status* carnot_integer_conv_prepare(const carnot_problem* problem, uint32_t w,
                                           uint32_t w_zero, const carnot_integer_conv* s,
                                           carnot_prepared* out) {
  void *centered, *sums;
  char reason[256];
  const carnot_int8_weights_shape shape = weights_of(s);
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)carnot_tensor_count(problem->inputs[w].tensor), 1,
                              "weights before packing", &centered));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)s->filters, sizeof(int32_t), "sums", &sums));
  memset(sums, 0, (size_t)s->filters * sizeof(int32_t));
  const char* why = center(problem, w, w_zero, s->filters, centered, sums, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "quantized weights: %s", why);
  CARNOT_TRY(carnot_int8_pack(problem->tactic, &shape, centered, shape.c * shape.taps, 1,
                              shape.taps, CARNOT_INTEGER_CONV_WEIGHTS, out));
  out->constant_count = CARNOT_INTEGER_CONV_CONSTANTS;
  out->constants[CARNOT_INTEGER_CONV_SUMS].packing = "i32 filter sums";
  out->constants[CARNOT_INTEGER_CONV_SUMS].data = sums;
  out->constants[CARNOT_INTEGER_CONV_SUMS].bytes = (size_t)s->filters * sizeof(int32_t);
  out->packed_inputs = (uint64_t)1 << w;
  if (given(problem, w_zero)) out->packed_inputs |= (uint64_t)1 << w_zero;
  return NULL;
}

carnot_status* carnot_integer_conv_validate(const carnot_integer_conv* s,
                                            const carnot_step_view* step) {
  CARNOT_TRY(carnot_sliding_window_check(&s->window, 1, 2));
  int64_t taps = 1;
  for (int d = 0; d < s->window.rank; d++) taps *= s->window.kernel[d];
  CARNOT_CHECK(step->constant_count == CARNOT_INTEGER_CONV_CONSTANTS && s->group >= 1 &&
                   s->channels >= 1 && s->channels <= CARNOT_INT8_MAX_CHANNELS && s->filters >= 1 &&
                   s->filters <= CARNOT_INT8_MAX_CHANNELS && s->channels % s->group == 0 &&
                   s->filters % s->group == 0 && s->taps == taps && taps <= CARNOT_INT8_MAX_TAPS,
               INVALID_MODEL, "%u constants, %lld channels, %lld filters, %lld groups, %lld taps",
               step->constant_count, (long long)s->channels, (long long)s->filters,
               (long long)s->group, (long long)s->taps);
  const carnot_int8_weights_shape shape = weights_of(s);
  CARNOT_CHECK(
      step->constant_bytes[CARNOT_INTEGER_CONV_WEIGHTS] ==
              carnot_int8_group_bytes(step->tactic, &shape) * (size_t)s->group &&
          step->constant_bytes[CARNOT_INTEGER_CONV_SUMS] == (size_t)s->filters * sizeof(int32_t),
      INVALID_MODEL, "packed weights of %zu bytes, sums of %zu",
      step->constant_bytes[CARNOT_INTEGER_CONV_WEIGHTS],
      step->constant_bytes[CARNOT_INTEGER_CONV_SUMS]);
  return NULL;
}

carnot_status* carnot_integer_conv_configure(const carnot_integer_conv* conv,
                                             const carnot_step_view* step, const carnot_operand* x,
                                             const carnot_operand* y,
                                             carnot_integer_conv_state* s) {
  CARNOT_TRY(carnot_window_geometry_of(&conv->window, x, y, &s->geometry));
  const carnot_window_geometry* g = &s->geometry;
  CARNOT_CHECK(g->c == conv->channels && g->k == conv->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)g->c, (long long)g->k, (long long)conv->channels,
               (long long)conv->filters);
  const carnot_conv2d_u8s8 call = call_of(conv, g);
  s->partition = carnot_int8_conv_partition(step, &call);
  if (carnot_int8_uses_tiles(step->tactic)) CARNOT_TRY(carnot_int8_tiles_check(&call));
  const int64_t parts = carnot_work_partition_count(&s->partition) * conv->group;
  s->border = (size_t)conv->filters * sizeof(int32_t);
  s->tiles = carnot_align_up(s->border + (size_t)conv->channels + 64, 64);
  s->part_bytes = carnot_int8_conv_workspace(step->tactic, &call, /*readable=*/false);
  s->bytes = s->tiles + s->part_bytes * (size_t)parts;
  return NULL;
}

typedef struct conv_run {
  const carnot_step_view* step;
  size_t group_bytes;  // of packed weights
  const carnot_integer_conv_state* s;
  char* workspace;          // of the parts
  carnot_conv2d_u8s8 conv;  // of the first group
} conv_run;

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const int64_t parts = carnot_work_partition_count(&run->s->partition), group = part / parts;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part % parts, &m0, &m1, &n0, &n1);
  carnot_conv2d_u8s8 conv = run->conv;
  const int64_t first = group * conv.k;
  conv.src = (const char*)conv.src + group * conv.c;
  conv.weights += (size_t)group * run->group_bytes;
  conv.dst = (int32_t*)conv.dst + first;  // or float32
  conv.epilogue.bias += first;
  if (conv.epilogue.scale) conv.epilogue.scale += first;
  if (conv.epilogue.residual) conv.epilogue.residual = (const float*)conv.epilogue.residual + first;
  carnot_int8_conv_call(run->step, &conv, /*readable=*/false,
                        run->workspace + (size_t)part * run->s->part_bytes, m0, m1, n0, n1);
}

void carnot_integer_conv_run(const carnot_integer_conv* conv, const carnot_integer_conv_state* s,
                             const carnot_step_view* step, const carnot_integer_conv_operands* o,
                             void* workspace, carnot_executor* executor) {
  const int32_t* sums = step->constants[CARNOT_INTEGER_CONV_SUMS];
  int32_t* bias = workspace;
  uint8_t* border = (uint8_t*)workspace + s->border;
  memset(border, (int)(o->zero & 255), (size_t)conv->channels + 64);
  for (int64_t f = 0; f < conv->filters; f++)
    bias[f] =
        (int32_t)(uint32_t)(uint64_t)(-(o->zero + carnot_int8_shift(step->tactic, o->is_signed)) *
                                      (int64_t)sums[f]);
  const carnot_int8_weights_shape weights = weights_of(conv);
  conv_run run = {.step = step,
                  .group_bytes = carnot_int8_group_bytes(step->tactic, &weights),
                  .s = s,
                  .workspace = (char*)workspace + s->tiles,
                  .conv = call_of(conv, &s->geometry)};
  run.conv.src = o->x;
  run.conv.src_signed = o->is_signed;
  run.conv.weights = step->constants[CARNOT_INTEGER_CONV_WEIGHTS];
  run.conv.border = border;
  run.conv.dst = o->y;
  run.conv.epilogue = o->epilogue;
  run.conv.epilogue.bias = bias;
  carnot_executor_parallel(executor, conv->group * carnot_work_partition_count(&s->partition),
                           conv_part, &run);
}
