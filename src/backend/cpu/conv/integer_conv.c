// Convolutions by constant integer weights: what they take, packing and checks.
#include "backend/cpu/conv/integer_conv.h"

#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/conv/depthwise_u8s8.h"
#include "tactic/problem/conv.h"

enum { kMostImageChannels = 4 };

carnot_integer_conv carnot_integer_conv_flat(const carnot_integer_conv* conv) {
  carnot_integer_conv flat = *conv;
  carnot_int8_flatten_window(carnot_int8_planes_of(&conv->window), &flat.window, &flat.channels);
  flat.taps = carnot_sliding_window_taps(&flat.window);
  return flat;
}

carnot_integer_conv_form carnot_integer_conv_form_of(const carnot_integer_conv* s) {
  if (s->group == s->channels && s->filters == s->channels && s->channels > 1 &&
      s->taps <= CARNOT_DEPTHWISE_INT8_MAX_TAPS)
    return CARNOT_INTEGER_CONV_DEPTHWISE;
  return s->group == 1 && s->channels <= kMostImageChannels &&
                 s->window.dilations[s->window.rank - 1] == 1
             ? CARNOT_INTEGER_CONV_IMAGE
             : CARNOT_INTEGER_CONV_PIXELS;
}

static int64_t image_taps(const carnot_integer_conv* s) {
  return s->window.rank == 2 ? s->window.kernel[0] : 1;
}

// Taps of the kernel are those of the window, or its rows over a padded image.
static bool has_few_taps(const carnot_integer_conv* s) {
  const int64_t most = CARNOT_INT8_MAX_TAPS;
  return carnot_integer_conv_form_of(s) == CARNOT_INTEGER_CONV_IMAGE
             ? image_taps(s) <= most && s->taps <= most * most
             : s->taps <= most;
}

// Whether the sizes of a convolution and of its flat form are those that tactics take.
static bool is_in_range(const carnot_integer_conv* s) {
  if (s->channels < 1 || s->filters < 1 || s->channels > CARNOT_INT8_MAX_CHANNELS ||
      s->filters > CARNOT_INT8_MAX_CHANNELS || s->group < 1 || s->channels % s->group ||
      s->filters % s->group)
    return false;
  const carnot_integer_conv flat = carnot_integer_conv_flat(s);
  return flat.channels <= CARNOT_INT8_MAX_CHANNELS &&
         (flat.channels == s->channels || s->group == 1) && has_few_taps(&flat);
}

static carnot_int8_weights_shape weights_of(const carnot_integer_conv* s) {
  if (carnot_integer_conv_form_of(s) != CARNOT_INTEGER_CONV_IMAGE)
    return (carnot_int8_weights_shape){s->group, s->taps, s->channels / s->group,
                                       s->filters / s->group};
  const int64_t rows = image_taps(s);
  return (carnot_int8_weights_shape){1, rows, carnot_int8_image_depth(s->taps / rows, s->channels),
                                     s->filters};
}

size_t carnot_integer_conv_group_bytes(const carnot_tactic* tactic, const carnot_integer_conv* s) {
  const carnot_int8_weights_shape shape = weights_of(s);
  return carnot_int8_group_bytes(tactic, &shape);
}

size_t carnot_integer_conv_bytes(const carnot_tactic* tactic, const carnot_integer_conv* conv) {
  const carnot_integer_conv s = carnot_integer_conv_flat(conv);
  return carnot_integer_conv_form_of(&s) == CARNOT_INTEGER_CONV_DEPTHWISE
             ? (size_t)carnot_packed_t4n32_bytes(s.taps, s.channels)
             : carnot_integer_conv_group_bytes(tactic, &s) * (size_t)s.group;
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

carnot_conv2d_u8s8 carnot_integer_conv_call(const carnot_integer_conv* s,
                                            const carnot_window_geometry* g) {
  if (carnot_integer_conv_form_of(s) == CARNOT_INTEGER_CONV_IMAGE) {
    const carnot_int8_image image = carnot_int8_image_of(g);
    return carnot_int8_image_call(g, &image);
  }
  return (carnot_conv2d_u8s8){CARNOT_WINDOW_FIELDS(g),
                              .c = s->channels / s->group,
                              .k = s->filters / s->group,
                              .src_n = g->src_n,
                              .src_h = g->src_h,
                              .src_w = g->src_w,
                              .ld = g->ld};
}

static const char* tiles_reject(const carnot_integer_conv* s, char* reason, size_t size) {
  if (carnot_integer_conv_form_of(s) == CARNOT_INTEGER_CONV_IMAGE) return NULL;
  const carnot_window_geometry any = carnot_window_geometry_of_any_size(&s->window, s->channels);
  const carnot_conv2d_u8s8 call = carnot_integer_conv_call(s, &any);
  return carnot_int8_tiles_reject(&call, s->group, reason, size);
}

const char* carnot_integer_conv_read(const carnot_problem* problem, const carnot_plan_node* node,
                                     uint32_t x_input, uint32_t w_input, uint32_t w_zero,
                                     carnot_integer_conv* out, char* reason, size_t size) {
  const carnot_operand_desc *x = &problem->inputs[x_input], *w = given(problem, w_input);
  if (x->rank < 3 || x->rank > 5) return "the activations are no tensors of rank 3 to 5";
  if (!w || !carnot_is_known(w) || !carnot_is_8bit(w->format.dtype))
    return "the weights are no known int8 or uint8";
  carnot_conv_problem conv = {.node = node};
  const char* why = carnot_conv_problem_sizes(x, w, &conv, reason, size);
  if (why) return why;
  *out = (carnot_integer_conv){conv.window, conv.group, conv.channels, conv.filters,
                               carnot_sliding_window_taps(&conv.window)};
  if (!is_in_range(out))
    return carnot_because(reason, size, "%lld channels, %lld filters, %lld groups and %lld taps",
                          (long long)out->channels, (long long)out->filters, (long long)out->group,
                          (long long)out->taps);
  why = center(problem, w_input, w_zero, out->filters, NULL, NULL, reason, size);
  if (why) return why;
  const carnot_integer_conv flat = carnot_integer_conv_flat(out);
  return carnot_int8_uses_tiles(problem->tactic) ? tiles_reject(&flat, reason, size) : NULL;
}

// |s| has two dimensions.
static carnot_status* pack_flat(const carnot_problem* problem, const carnot_integer_conv* s,
                                const int8_t* centered, carnot_prepared* out) {
  void* data;
  const carnot_int8_weights_shape shape = weights_of(s);
  const carnot_integer_conv_form form = carnot_integer_conv_form_of(s);
  const int index = CARNOT_INTEGER_CONV_WEIGHTS;
  if (form == CARNOT_INTEGER_CONV_PIXELS)
    return carnot_int8_pack(problem->tactic, &shape, centered, shape.c * shape.taps, 1, shape.taps,
                            index, out);
  if (form == CARNOT_INTEGER_CONV_IMAGE) {
    const size_t bytes = (size_t)(shape.n * shape.taps * shape.c);
    CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "weights before packing", &data));
    memset(data, 0, bytes);
    carnot_int8_image_weights(s->filters, s->channels, shape.taps, s->taps / shape.taps, centered,
                              data);
    return carnot_int8_pack(problem->tactic, &shape, data, shape.taps * shape.c, shape.c, 1, index,
                            out);
  }
  const size_t bytes = carnot_integer_conv_bytes(problem->tactic, s);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &data));
  data = (void*)carnot_align_up((uintptr_t)data, 64);
  carnot_pack_t4n32_s8(s->taps, s->channels, centered, 1, s->taps, data);
  out->constants[index].packing = "t4n32 s8";
  out->constants[index].data = data;
  out->constants[index].bytes = bytes;
  return NULL;
}

static carnot_status* pack(const carnot_problem* problem, const carnot_integer_conv* s,
                           const int8_t* centered, carnot_prepared* out) {
  const carnot_integer_conv flat = carnot_integer_conv_flat(s);
  const carnot_int8_planes planes = carnot_int8_planes_of(&s->window);
  if (!carnot_int8_is_copied(planes)) return pack_flat(problem, &flat, centered, out);
  void* stacked;
  const size_t bytes = (size_t)(s->filters * s->channels * s->taps);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "weights before packing", &stacked));
  carnot_int8_stack_weights(planes, &s->window, s->filters, s->channels, centered, stacked);
  return pack_flat(problem, &flat, stacked, out);
}

carnot_status* carnot_integer_conv_prepare(const carnot_problem* problem, uint32_t w,
                                           uint32_t w_zero, const carnot_integer_conv* s,
                                           carnot_prepared* out) {
  void *centered, *sums;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)carnot_tensor_count(problem->inputs[w].tensor), 1,
                              "weights before packing", &centered));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)s->filters, sizeof(int32_t), "sums", &sums));
  memset(sums, 0, (size_t)s->filters * sizeof(int32_t));
  const char* why = center(problem, w, w_zero, s->filters, centered, sums, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "quantized weights: %s", why);
  CARNOT_TRY(pack(problem, s, centered, out));
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
  CARNOT_TRY(carnot_sliding_window_check(&s->window, 1, 3));
  const int64_t taps = carnot_sliding_window_taps(&s->window);
  CARNOT_CHECK(
      step->constant_count == CARNOT_INTEGER_CONV_CONSTANTS && s->taps == taps && is_in_range(s),
      INVALID_MODEL, "%u constants, %lld channels, %lld filters, %lld groups, %lld taps",
      step->constant_count, (long long)s->channels, (long long)s->filters, (long long)s->group,
      (long long)s->taps);
  CARNOT_CHECK(
      step->constant_bytes[CARNOT_INTEGER_CONV_WEIGHTS] ==
              carnot_integer_conv_bytes(step->tactic, s) &&
          step->constant_bytes[CARNOT_INTEGER_CONV_SUMS] == (size_t)s->filters * sizeof(int32_t),
      INVALID_MODEL, "packed weights of %zu bytes, sums of %zu",
      step->constant_bytes[CARNOT_INTEGER_CONV_WEIGHTS],
      step->constant_bytes[CARNOT_INTEGER_CONV_SUMS]);
  return NULL;
}
