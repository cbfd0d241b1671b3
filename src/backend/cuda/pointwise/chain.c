// Chains of pointwise nodes, alone or behind the kernel of an anchor: matching, compilation by
// NVRTC, and launch over any broadcasting and layout in one pass.
#include "backend/cuda/pointwise/chain.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pointwise/chain_source.h"
#include "base/hash.h"

enum { kMaxNodes = 64, kOutput = 255 };

// ---- the chain ----

static const char* take_input(carnot_cuda_chain* chain, uint32_t local) {
  for (uint32_t i = 0; i < chain->input_count; i++)
    if (chain->inputs[i] == local) return NULL;
  if (chain->input_count == CARNOT_CUDA_CHAIN_INPUTS) return "the chain has too many operands";
  chain->inputs[chain->input_count++] = local;
  return NULL;
}

bool carnot_cuda_chain_add_bias(carnot_cuda_chain* chain, uint32_t bias) {
  chain->bias = bias;
  for (uint32_t i = 0; i < chain->input_count; i++)
    if (chain->inputs[i] == bias) return false;  // it is read another way as well
  return !take_input(chain, chain->acc) && !take_input(chain, bias);
}

const char* carnot_cuda_chain_make(const carnot_region* region, uint32_t step_inputs,
                                   uint32_t first, uint32_t acc, carnot_cuda_chain* out,
                                   char* reason, size_t size) {
  *out = (carnot_cuda_chain){.first = first, .acc = acc, .bias = CARNOT_PLAN_NONE};
  if (region->value_count > CARNOT_CUDA_CHAIN_LOCALS || region->node_count > kMaxNodes)
    return "the chain is too long";
  if (region->output_count > CARNOT_CUDA_CHAIN_OUTPUTS) return "the chain has too many results";
  if (acc != CARNOT_PLAN_NONE && region->output_count != 1)
    return "an inner value is read outside the region";
  for (uint32_t n = first; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (!carnot_cuda_is_pointwise(node->op))
      return carnot_cuda_reject_reason(reason, size, "%s is not pointwise",
                                       carnot_op_get(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local == CARNOT_PLAN_NONE && i == 2 && carnot_cuda_is_quantization(node->op)) continue;
      if (local == CARNOT_PLAN_NONE) return "an operand is absent";
      const char* why = local < step_inputs || local == acc ? take_input(out, local) : NULL;
      if (why) return why;
    }
  }
  for (uint32_t i = 0; i < region->output_count; i++)
    out->outputs[out->output_count++] = region->outputs[i];
  return NULL;
}

// ---- prepare ----

carnot_status* carnot_cuda_chain_prepare(const carnot_problem* problem,
                                         const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                         carnot_prepared* out) {
  if (carnot_cuda_chain_is_empty(problem->region, chain)) return NULL;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  void* text;
  CARNOT_TRY(carnot_calloc(1, CARNOT_CUDA_CHAIN_SOURCE_BYTES, "source", &text));
  const char* why = carnot_cuda_chain_problem_source(problem, chain, acc_dtype, text);
  const char* cubin = NULL;
  size_t bytes = 0;
  carnot_status* status = why ? CARNOT_ERROR(INTERNAL, "%s", why) : NULL;
  uint64_t source = status ? 0 : carnot_hash(text, strlen(text), 0);
  if (!status && !problem->previous)
    status = carnot_cuda_compile_cached(cuda, text, &cubin, &bytes);
  free(text);
  if (status) return status;
  out->constants[out->constant_count].packing = carnot_arena_print(
      out->arena, "cubin %s %016llx", cuda->base.arch, (unsigned long long)source);
  void* copy = NULL;
  if (cubin) {
    CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "a cubin", &copy));
    memcpy(copy, cubin, bytes);
  }
  out->constants[out->constant_count].data = copy;
  out->constants[out->constant_count++].bytes = bytes;
  return NULL;
}

// ---- shape ----

typedef struct axes {
  int rank, operands;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t strides[CARNOT_CUDA_CHAIN_INPUTS + 1][CARNOT_MAX_RANK];  // the output is first
} axes;

// In the order of the output's memory, axes joined where every operand lets them.
static void collapse(axes* a) {
  for (int i = 0; i < a->rank; i++)
    for (int k = a->rank - 1; k > i; k--) {
      if (a->strides[0][k] <= a->strides[0][k - 1] || a->dims[k] == 1) continue;
      int64_t swap = a->dims[k];
      a->dims[k] = a->dims[k - 1], a->dims[k - 1] = swap;
      for (int o = 0; o < a->operands; o++) {
        swap = a->strides[o][k];
        a->strides[o][k] = a->strides[o][k - 1], a->strides[o][k - 1] = swap;
      }
    }
  int rank = 0;
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d] == 1) continue;
    bool joins = rank > 0;
    for (int o = 0; joins && o < a->operands; o++)
      joins = a->strides[o][rank - 1] == a->strides[o][d] * a->dims[d];
    int to = joins ? rank - 1 : rank++;
    a->dims[to] = joins ? a->dims[to] * a->dims[d] : a->dims[d];
    for (int o = 0; o < a->operands; o++) a->strides[o][to] = a->strides[o][d];
  }
  a->rank = rank;
}

// Rows at one distance, each dense, in the order of the axes; false for others, or where an element
// is more than 2^31 from the first.
static bool rows_at_pitch(const axes* a, int operand, int* out_row, int* out_pitch) {
  const int64_t* s = a->strides[operand];
  int64_t row = 1, rows = 1, pitch = 0;
  for (int d = a->rank - 1; d >= 0; d--) {
    if (!pitch && s[d] == row) {
      row *= a->dims[d];
      continue;
    }
    if (!pitch) pitch = s[d];
    if (s[d] != pitch * rows) return false;
    rows *= a->dims[d];
  }
  if (pitch < row || rows * pitch > INT32_MAX) return false;
  *out_row = (int)row, *out_pitch = (int)pitch;
  return true;
}

// The operand as a flat repetition of the output's order; false where it is none.
static bool flat_kind(const axes* a, int operand, struct carnot_cuda_chain_params* p, int k) {
  const int64_t* s = a->strides[operand];
  int first = -1, last = -1;
  for (int d = 0; d < a->rank; d++)
    if (s[d]) first = first < 0 ? d : first, last = d;
  p->kind[k] = 1, p->inner[k] = p->size[k] = 1;
  if (first < 0) return true;
  // One row per batch: NHWC operands with one value per channel of each image.
  if (a->rank == 3 && s[2] == 1 && s[1] == 0 && s[0] == a->dims[2] &&
      a->dims[1] * a->dims[2] <= INT32_MAX) {
    p->kind[k] = 3, p->inner[k] = (int)(a->dims[1] * a->dims[2]), p->size[k] = (int)a->dims[2];
    return true;
  }
  if (rows_at_pitch(a, operand, &p->size[k], &p->inner[k])) {
    p->kind[k] = 4;
    return true;
  }
  int64_t inner = 1, size = 1, stride = 1;
  for (int d = a->rank - 1; d > last; d--) inner *= a->dims[d];
  for (int d = last; d >= first; d--) {
    if (s[d] != stride) return false;
    stride *= a->dims[d];
    size *= a->dims[d];
  }
  if (inner > INT32_MAX || size > INT32_MAX) return false;
  bool whole = first == 0 && last == a->rank - 1;
  p->kind[k] = whole ? 0 : 2;
  p->inner[k] = (int)inner, p->size[k] = (int)size;
  return true;
}

static carnot_status* read_axes(const carnot_cuda_chain* chain, const carnot_operand* const* from,
                                const carnot_operand* out, axes* a) {
  *a = (axes){.rank = out->rank, .operands = (int)chain->input_count + 1};
  memcpy(a->dims, out->dims, sizeof(a->dims));
  memcpy(a->strides[0], out->strides, sizeof(a->strides[0]));
  for (uint32_t k = 0; k < chain->input_count; k++) {
    const carnot_operand* t = from[k];
    CARNOT_CHECK(t->rank <= out->rank, INVALID_ARGUMENT, "operand %u has rank %d, the result %d", k,
                 t->rank, out->rank);
    if (chain->inputs[k] == chain->bias) {
      CARNOT_CHECK(out->rank > 1 && carnot_dims_count(t->dims, t->rank) == out->dims[1],
                   INVALID_ARGUMENT, "a bias that is not one number a channel");
      a->strides[k + 1][1] = 1;
      continue;
    }
    for (int d = 0; d < t->rank; d++) {
      int at = d + out->rank - t->rank;
      CARNOT_CHECK(t->dims[d] == 1 || t->dims[d] == out->dims[at], INVALID_ARGUMENT,
                   "dimension %d of operand %u is %lld, the result's is %lld", d, k,
                   (long long)t->dims[d], (long long)out->dims[at]);
      a->strides[k + 1][at] = t->dims[d] == 1 ? 0 : t->strides[d];
    }
  }
  return NULL;
}

static bool is_aligned(const carnot_operand* t) {
  return (uintptr_t)t->data % (4 * (size_t)carnot_cuda_bytes(t)) == 0;
}

// The axis along which an operand is dense that is not dense along the last one, as the result is;
// -1: there is none, or these axes are short.
static int other_dense_axis(const axes* a) {
  const int last = a->rank - 1;
  if (a->rank < 2 || a->strides[0][last] != 1 || a->dims[last] < CARNOT_CUDA_CHAIN_WIDE) return -1;
  for (int k = 1; k < a->operands; k++)
    for (int d = 0; d < last; d++)
      if (a->strides[k][d] == 1 && a->strides[k][last] > 1 && a->dims[d] >= CARNOT_CUDA_CHAIN_WIDE)
        return d;
  return -1;
}

static void set_axis(const axes* a, int from, int to, carnot_cuda_chain_state* out) {
  struct carnot_cuda_chain_params* p = &out->params;
  p->dims[to] = a->dims[from];
  p->dst[to] = a->strides[0][from];
  for (int k = 0; k < out->input_count; k++) p->src[k][to] = a->strides[k + 1][from];
}

// Axis |high| and the last one are those of the tiles, the others follow in their order.
static const char* choose_tiles(const axes* a, int high, carnot_cuda_chain_state* out) {
  struct carnot_cuda_chain_params* p = &out->params;
  const int last = a->rank - 1;
  set_axis(a, high, 0, out);
  set_axis(a, last, 1, out);
  p->rank = 2;
  for (int d = 0; d < last; d++)
    if (d != high) set_axis(a, d, p->rank++, out);
  out->blocks = p->count / (a->dims[high] * a->dims[last]) *
                carnot_ceildiv(a->dims[high], CARNOT_CUDA_CHAIN_HIGH) *
                carnot_ceildiv(a->dims[last], CARNOT_CUDA_CHAIN_WIDE);
  return "program_tiled";
}

// Which of the kernels serves, with its parameters.
static const char* choose_kernel(const axes* a, const carnot_operand* const* from,
                                 const carnot_operand* outputs, carnot_cuda_chain_state* out) {
  struct carnot_cuda_chain_params* p = &out->params;
  bool flat = a->rank <= 1 ? a->rank == 0 || a->strides[0][0] == 1 : true;
  int64_t stride = 1;
  for (int d = a->rank - 1; d >= 0; d--) {
    flat = flat && a->strides[0][d] == stride;
    stride *= a->dims[d];
  }
  if (!flat) flat = rows_at_pitch(a, 0, &p->row, &p->pitch);
  bool four = p->count % 4 == 0 && p->count < INT32_MAX && p->row % 4 == 0 && p->pitch % 4 == 0;
  for (int k = 0; k < out->input_count; k++) {
    flat = flat && flat_kind(a, k + 1, p, k);
    bool repeats = flat && p->kind[k] >= 2;
    bool fours = !repeats ||
                 (p->inner[k] == 1 || p->kind[k] == 3 ? p->size[k] % 4 == 0 : p->inner[k] % 4 == 0);
    fours = fours && (p->kind[k] != 4 || p->size[k] % 4 == 0);
    four = four && fours && (p->kind[k] == 1 || is_aligned(from[k]));
  }
  for (int k = 0; k < out->output_count; k++) four = four && is_aligned(&outputs[k]);
  int64_t threads = flat && four ? p->count / 4 : p->count;
  out->blocks = carnot_ceildiv(threads, CARNOT_CUDA_THREADS);
  const int high = flat || p->count >= INT32_MAX ? -1 : other_dense_axis(a);
  if (high >= 0) return choose_tiles(a, high, out);
  for (int d = 0; d < a->rank; d++) set_axis(a, d, d, out);
  p->rank = a->rank, p->last = 1;
  out->after = !flat;
  enum { kShort = 8 };
  if (!flat && a->rank > 1 && a->dims[a->rank - 1] <= kShort) {
    p->last = (int)a->dims[--p->rank];
    p->count /= p->last;
    out->blocks = carnot_ceildiv(p->count, CARNOT_CUDA_THREADS);
  }
  if (flat) return four ? "program_four" : "program_flat";
  return p->count < INT32_MAX ? "program_any" : "program_wide";
}

static const void* cubin_of(const carnot_step_view* step) {
  return step->constant_count ? step->constants[step->constant_count - 1] : NULL;
}

// The engine's code has all kernels; what is compiled now has the one that is run.
static carnot_status* begin_program(const carnot_step_view* step, const carnot_cuda_chain* chain,
                                    carnot_dtype* types, const char* kernel,
                                    carnot_cuda_program** out) {
  void* memory;
  CARNOT_TRY(carnot_calloc(2, CARNOT_CUDA_CHAIN_SOURCE_BYTES, "source", &memory));
  char *whole = memory, *alone = whole + CARNOT_CUDA_CHAIN_SOURCE_BYTES;
  const char* why = carnot_cuda_chain_source(step->region, chain, types, NULL, whole);
  if (!why) why = carnot_cuda_chain_source(step->region, chain, types, kernel, alone);
  const carnot_cuda_program_text text = {
      .source = alone, .kernel = kernel, .whole = whole, .cubin = cubin_of(step)};
  carnot_status* status = why ? CARNOT_ERROR(INVALID_MODEL, "%s", why)
                              : carnot_cuda_program_begin(carnot_cuda_stream_of(step), &text, out);
  free(memory);
  return status;
}

carnot_status* carnot_cuda_chain_shape(const carnot_step_view* step, const carnot_cuda_chain* chain,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       carnot_cuda_chain_state* out) {
  *out = (carnot_cuda_chain_state){.input_count = (uint8_t)chain->input_count,
                                   .output_count = (uint8_t)chain->output_count};
  if (carnot_cuda_chain_is_empty(step->region, chain)) return NULL;
  carnot_dtype types[CARNOT_CUDA_CHAIN_LOCALS];
  const carnot_operand* from[CARNOT_CUDA_CHAIN_INPUTS];
  for (uint32_t k = 0; k < chain->input_count; k++) {
    bool is_acc = chain->inputs[k] == chain->acc;
    from[k] = is_acc ? &outputs[0] : &inputs[chain->inputs[k]];
    out->operand[k] = is_acc ? kOutput : (uint8_t)chain->inputs[k];
    types[chain->inputs[k]] = from[k]->format.dtype;
    CARNOT_TRY(carnot_cuda_on_device(from[k], 1));
  }
  CARNOT_TRY(carnot_cuda_on_device(outputs, chain->output_count));
  for (uint32_t k = 1; k < chain->output_count; k++)
    for (int d = 0; d < outputs[0].rank; d++)
      CARNOT_CHECK(outputs[k].rank == outputs[0].rank && outputs[k].dims[d] == outputs[0].dims[d] &&
                       outputs[k].strides[d] == outputs[0].strides[d],
                   INVALID_ARGUMENT, "the results have different shapes or layouts");
  axes a;
  CARNOT_TRY(read_axes(chain, from, &outputs[0], &a));
  collapse(&a);
  CARNOT_CHECK(a.rank <= CARNOT_CUDA_CHAIN_RANK, UNSUPPORTED,
               "a pointwise program over %d axes that do not join, %d are taken", a.rank,
               CARNOT_CUDA_CHAIN_RANK);
  out->params.count = carnot_dims_count(outputs[0].dims, outputs[0].rank);
  const char* kernel = choose_kernel(&a, from, outputs, out);
  return begin_program(step, chain, types, kernel, &out->program);
}

carnot_status* carnot_cuda_chain_run(const carnot_step_view* step, carnot_cuda_chain_state* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs) {
  if (!state->program) return NULL;
  CUfunction function;
  CARNOT_TRY(carnot_cuda_program_end(carnot_cuda_of_step(step), state->program, &function));
  for (int k = 0; k < state->input_count; k++)
    state->params.x[k] =
        state->operand[k] == kOutput ? outputs[0].data : inputs[state->operand[k]].data;
  for (int k = 0; k < state->output_count; k++) state->params.y[k] = outputs[k].data;
  const int64_t grid[3] = {state->blocks, 1, 1};
  return (state->after ? carnot_cuda_launch_after : carnot_cuda_launch)(
      step, function, grid, CARNOT_CUDA_THREADS, &state->params);
}
