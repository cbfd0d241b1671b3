// Reads quantized convolutions, makes their vectors, and checks what engines store of them.
#include "backend/cpu/conv/int8_conv.h"

#include <stdlib.h>

#include "backend/cpu/conv/int8_conv_planes.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "tactic/problem/conv.h"

// The convolution of the region with its sizes.
static const char* read_conv(const carnot_problem* problem, int max_rank, carnot_conv_problem* out,
                             char* reason, size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node || node->op != CARNOT_OP_CONV) return "";
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand x = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 w = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (x.value == CARNOT_PLAN_NONE || w.value == CARNOT_PLAN_NONE || w.scale == CARNOT_PLAN_NONE)
    return "input and weights are not both quantized";
  const int rank = problem->inputs[x.value].rank;
  if (rank < 3 || rank > 2 + max_rank)
    return carnot_because(reason, size, "the input has rank %d, takes 3 to %d", rank, 2 + max_rank);
  *out = (carnot_conv_problem){.node = node, .anchor = anchor};
  return carnot_conv_problem_sizes(&problem->inputs[x.value], &problem->inputs[w.value], out,
                                   reason, size);
}

static void want_channels_last(carnot_problem* problem, const carnot_int8_region* region) {
  problem->inputs[region->x].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (region->residual >= 0)
    problem->inputs[region->residual].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
}

// NULL, or why the sizes of |p| exceed |limits| or those of any tactic.
static const char* exceeds(const carnot_int8_conv_params* p, const carnot_int8_conv_limits* limits,
                           char* reason, size_t size) {
  if (p->channels < 1 || p->filters < 1 || p->channels > CARNOT_INT8_MAX_CHANNELS ||
      p->filters > CARNOT_INT8_MAX_CHANNELS || p->group < 1 || p->channels % p->group ||
      p->filters % p->group)
    return carnot_because(reason, size, "%lld channels, %lld filters and %lld groups",
                          (long long)p->channels, (long long)p->filters, (long long)p->group);
  const carnot_int8_conv_params flat = carnot_int8_conv_flat(carnot_int8_planes_of(&p->window), p);
  if (flat.channels > CARNOT_INT8_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld channels under a filter, takes up to %d",
                          (long long)flat.channels, CARNOT_INT8_MAX_CHANNELS);
  if (flat.channels > p->channels && p->group > 1)
    return "a grouped window of several planes, rows or columns";
  if (carnot_int8_conv_taps(&flat) > limits->taps)
    return carnot_because(reason, size, "%lld taps, takes up to %lld",
                          (long long)carnot_int8_conv_taps(&flat), (long long)limits->taps);
  return NULL;
}

static const char* read_problem(const carnot_problem* problem,
                                const carnot_int8_conv_limits* limits,
                                carnot_quantized_region* view, carnot_int8_conv_params* out,
                                char* reason, size_t size) {
  carnot_conv_problem conv;
  const char* why = read_conv(problem, limits->rank, &conv, reason, size);
  if (why) return why;
  *out = (carnot_int8_conv_params){.window = conv.window,
                                   .group = conv.group,
                                   .channels = conv.channels,
                                   .filters = conv.filters};
  why = exceeds(out, limits, reason, size);
  if (why) return why;
  const carnot_quantized_shape weights = carnot_int8_conv_weights(out);
  return carnot_int8_region_read(problem, problem->outputs[0].rank - 1, &weights, view,
                                 &out->region, reason, size);
}

const char* carnot_int8_conv_read(carnot_problem* problem, const carnot_int8_conv_limits* limits,
                                  carnot_int8_conv_params* out, char* reason, size_t size) {
  carnot_quantized_region view;
  const char* why = read_problem(problem, limits, &view, out, reason, size);
  if (!why) want_channels_last(problem, &out->region);
  return why;
}

static size_t border_bytes(const carnot_int8_conv_params* p) {
  return (size_t)carnot_int8_conv_flat(carnot_int8_planes_of(&p->window), p).channels + 64;
}

static carnot_status* make_vectors(const carnot_problem* problem,
                                   const carnot_quantized_region* view, carnot_int8_conv_params* p,
                                   int32_t shift_of_signed, int8_t* centered,
                                   carnot_prepared* out) {
  void* border;
  const size_t bytes = border_bytes(p);
  const carnot_quantized_shape weights = carnot_int8_conv_weights(p);
  const int32_t shift = p->region.x_signed ? shift_of_signed : 0;
  CARNOT_TRY(carnot_int8_region_prepare(problem, view, &p->region, &weights, shift, centered, out));
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "a border", &border));
  memset(border, p->region.x_zero & 255, bytes);
  out->constants[CARNOT_INT8_BORDER].packing = "u8 border";
  out->constants[CARNOT_INT8_BORDER].data = border;
  out->constants[CARNOT_INT8_BORDER].bytes = bytes;
  out->constant_count = CARNOT_INT8_CONV_CONSTANTS;
  return NULL;
}

carnot_status* carnot_int8_conv_prepare(const carnot_problem* problem,
                                        const carnot_int8_conv_limits* limits,
                                        int32_t shift_of_signed, carnot_prepared* out,
                                        int8_t** out_weights) {
  void *params, *centered;
  char reason[256];
  carnot_quantized_region view;
  *out_weights = NULL;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_int8_conv_params), "parameters", &params));
  const char* why = read_problem(problem, limits, &view, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  carnot_int8_conv_params* p = params;
  CARNOT_TRY(
      carnot_calloc((size_t)(p->filters * (p->channels / p->group) * carnot_int8_conv_taps(p)), 1,
                    "weights before packing", &centered));
  carnot_status* status = make_vectors(problem, &view, p, shift_of_signed, centered, out);
  if (status) {
    free(centered);
    return status;
  }
  out->params = params;
  out->param_bytes = sizeof(carnot_int8_conv_params);
  *out_weights = centered;
  return NULL;
}

carnot_status* carnot_int8_conv_validate(const carnot_step_view* step,
                                         const carnot_int8_conv_limits* limits,
                                         size_t (*packed_bytes)(const carnot_tactic* tactic,
                                                                const carnot_int8_conv_params* p)) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_int8_conv_params) &&
                   step->constant_count == CARNOT_INT8_CONV_CONSTANTS,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d",
               step->param_bytes, step->constant_count, sizeof(carnot_int8_conv_params),
               CARNOT_INT8_CONV_CONSTANTS);
  const carnot_int8_conv_params* p = step->params;
  CARNOT_TRY(carnot_sliding_window_check(&p->window, 1, limits->rank));
  char reason[128];
  const char* why = exceeds(p, limits, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "a convolution of %s", why);
  const size_t border = border_bytes(p), packed = packed_bytes(step->tactic, p);
  CARNOT_CHECK(step->constant_bytes[CARNOT_INT8_WEIGHTS] == packed &&
                   step->constant_bytes[CARNOT_INT8_BORDER] == border,
               INVALID_MODEL,
               "packed weights of %zu bytes and a border of %zu, must be %zu and %zu",
               step->constant_bytes[CARNOT_INT8_WEIGHTS], step->constant_bytes[CARNOT_INT8_BORDER],
               packed, border);
  return carnot_int8_region_validate(&p->region, step, p->filters);
}

bool carnot_int8_conv_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_int8_conv_params* p = step->params;
  return (int64_t)input == p->region.x || carnot_int8_region_uses(&p->region, input);
}

carnot_status* carnot_int8_conv_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_window_geometry* geometry) {
  const carnot_int8_conv_params* p = step->params;
  const carnot_operand* x = &inputs[p->region.x];
  CARNOT_TRY(carnot_window_geometry_of(&p->window, x, &outputs[0], geometry));
  CARNOT_CHECK(geometry->c == p->channels && geometry->k == p->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)geometry->c, (long long)geometry->k, (long long)p->channels,
               (long long)p->filters);
  return carnot_int8_region_configure(&p->region, outputs[0].rank - 1, inputs, &outputs[0]);
}

carnot_int8_image carnot_int8_image_of(const carnot_window_geometry* g) {
  carnot_int8_image image;
  image.rows = carnot_max_i64((g->p - 1) * g->stride_h + (g->r - 1) * g->dilation_h + 1,
                              g->h + carnot_max_i64(0, g->pad_h));
  image.columns =
      carnot_max_i64((g->q - 1) * g->stride_w + g->s, g->w + carnot_max_i64(0, g->pad_w));
  image.row_bytes = image.columns * g->c;
  return image;
}

carnot_conv2d_u8s8 carnot_int8_image_call(const carnot_window_geometry* g,
                                          const carnot_int8_image* image) {
  return (carnot_conv2d_u8s8){.n = g->n,
                              .h = image->rows,
                              .w = image->columns,
                              .c = carnot_int8_image_depth(g->s, g->c),
                              .p = g->p,
                              .q = g->q,
                              .k = g->k,
                              .r = g->r,
                              .s = 1,
                              .stride_h = g->stride_h,
                              .stride_w = g->stride_w,
                              .dilation_h = g->dilation_h,
                              .dilation_w = 1,
                              .src_n = image->rows * image->row_bytes,
                              .src_h = image->row_bytes,
                              .src_w = g->c,
                              .ld = g->ld};
}

void carnot_int8_image_weights(int64_t filters, int64_t channels, int64_t rows, int64_t columns,
                               const int8_t* weights, int8_t* turned) {
  const int64_t depth = carnot_int8_image_depth(columns, channels);
  for (int64_t k = 0; k < filters; k++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
          turned[(k * rows + r) * depth + s * channels + c] =
              weights[((k * channels + c) * rows + r) * columns + s];
}
