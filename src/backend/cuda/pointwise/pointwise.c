// Element-wise functions and chains of them: CUDA C generated from the region, compiled by NVRTC
// and run over any broadcasting and layout in one pass. 16-bit floats are computed in float32 and
// rounded where they are stored or cast.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pointwise/chain.h"
#include "base/hash.h"

// The text of types.cuh and functions.cuh (driver/images.S).
extern const char carnot_cuda_prelude[];

enum { kMaxNodes = 64, kMaxLocals = 256, kSourceBytes = 1 << 16, kOutput = 255 };

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

static bool is_pointwise(carnot_op op) {
  return op == CARNOT_OP_UNARY || op == CARNOT_OP_BINARY || op == CARNOT_OP_TERNARY ||
         op == CARNOT_OP_CAST;
}

const char* carnot_cuda_chain_make(const carnot_region* region, uint32_t step_inputs,
                                   uint32_t first, uint32_t acc, carnot_cuda_chain* out,
                                   char* reason, size_t size) {
  *out = (carnot_cuda_chain){.first = first, .acc = acc, .bias = CARNOT_PLAN_NONE};
  if (region->value_count > kMaxLocals || region->node_count > kMaxNodes)
    return "the chain is too long";
  if (region->output_count > CARNOT_CUDA_CHAIN_OUTPUTS) return "the chain has too many results";
  if (acc != CARNOT_PLAN_NONE && region->output_count != 1)
    return "an inner value is read outside the region";
  for (uint32_t n = first; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (!is_pointwise(node->op))
      return carnot_cuda_reject_reason(reason, size, "%s is not pointwise",
                                       carnot_op_get(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local == CARNOT_PLAN_NONE) return "an operand is absent";
      const char* why = local < step_inputs || local == acc ? take_input(out, local) : NULL;
      if (why) return why;
    }
  }
  for (uint32_t i = 0; i < region->output_count; i++)
    out->outputs[out->output_count++] = region->outputs[i];
  return NULL;
}

// ---- source ----

typedef struct writer {
  char* text;
  size_t at;
} writer;

static void put(writer* w, const char* format, ...) CARNOT_PRINTF(2, 3);
static void put(writer* w, const char* format, ...) {
  va_list args;
  va_start(args, format);
  if (w->at < kSourceBytes)
    w->at += (size_t)vsnprintf(w->text + w->at, kSourceBytes - w->at, format, args);
  va_end(args);
}

// The type of the arithmetic.
static const char* compute_type(carnot_dtype dtype) {
  if (carnot_cuda_is_float(dtype)) return "f32";
  return dtype == CARNOT_DTYPE_BOOL ? "bool" : carnot_cuda_type(dtype);
}

static const char* const kFnNames[] = {
#define FN(NAME, ...) #NAME,
#include "base/fn.def"
#undef FN
};

static void put_number(writer* w, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  put(w, "__longlong_as_double(0x%llxll)", (unsigned long long)bits);
}

static bool is_half(carnot_dtype t) { return carnot_cuda_is_half(t); }

static bool has_fast_form(carnot_fn fn) {
  return fn == CARNOT_FN_SIGMOID || fn == CARNOT_FN_SWISH || fn == CARNOT_FN_GELU_ERF ||
         fn == CARNOT_FN_GELU_TANH;
}

static const char* put_node(writer* w, const carnot_plan_node* node, carnot_dtype* types) {
  const carnot_op_row* row = carnot_op_get(node->op);
  carnot_dtype first = types[node->inputs[0]];
  uint32_t out = node->outputs[0];
  if (node->op == CARNOT_OP_CAST) {
    types[out] = (carnot_dtype)carnot_attr_int(row, &node->attrs, "to");
    const char* to = compute_type(types[out]);
    if (!to) return "a cast to this type has no device form";
    put(w, "  %s v%u = caster<%s>::of(v%u);\n", to, out, to, node->inputs[0]);
    if (is_half(types[out]))
      put(w, "  v%u = load(store_as<%s>::of(v%u));\n", out, carnot_cuda_type(types[out]), out);
    return NULL;
  }
  carnot_fn fn = (carnot_fn)carnot_attr_int(row, &node->attrs, "fn");
  const carnot_fn_fact* facts = (unsigned)fn < CARNOT_FN_COUNT ? carnot_fn_get(fn) : NULL;
  if (!facts || facts->arity != (int)node->input_count) return "a function of other operands";
  // The operands of Select are the second and third.
  carnot_dtype same = fn == CARNOT_FN_SELECT ? types[node->inputs[1]] : first;
  types[out] = facts->to_bool ? CARNOT_DTYPE_BOOL : same;
  bool real = carnot_dtype_is_float(same);
  if (facts->types == 'F' && !real) return "a function of real numbers on integers";
  const char* operand_type = compute_type(same);
  bool fast = is_half(types[out]) && has_fast_form(fn);
  put(w, "  %s v%u = %s_%s(", compute_type(types[out]), out, fast ? "fast" : "fn", kFnNames[fn]);
  put_number(w, carnot_attr_float(row, &node->attrs, "alpha"));
  put(w, ", ");
  put_number(w, carnot_attr_float(row, &node->attrs, "beta"));
  for (uint32_t i = 0; i < node->input_count; i++) {
    bool condition = fn == CARNOT_FN_SELECT && i == 0;
    put(w, ", (%s)v%u", condition ? "bool" : operand_type, node->inputs[i]);
  }
  put(w, ");\n");
  return NULL;
}

static void put_kernels(writer* w, const carnot_cuda_chain* chain, const carnot_dtype* types) {
  uint32_t n = chain->input_count, m = chain->output_count;
  put(w,
      "struct params { const void* x[%d]; void* y[%d]; i64 count; i64 dims[%d]; i64 src[%d][%d]; "
      "i64 dst[%d]; int rank; int kind[%d]; int inner[%d]; int size[%d]; int last; };\n"
      "template <class T> struct __align__(4 * sizeof(T)) four { T v[4]; };\n",
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_OUTPUTS, CARNOT_CUDA_CHAIN_RANK,
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_RANK, CARNOT_CUDA_CHAIN_RANK,
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_INPUTS);
  put(w,
      "#define AT(k) (p.kind[k] == 0 ? i : p.kind[k] == 1 ? 0 : p.kind[k] == 2 ? i / p.inner[k] %% "
      "p.size[k] : i / p.inner[k] * p.size[k] + i %% p.size[k])\n");
  // Four elements a thread; operands that repeat do so in whole fours.
  put(w,
      "extern \"C\" __global__ void program_four(params p) {\n  wait_for_previous();\n"
      "  u32 i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n  if (i >= p.count) return;\n");
  for (uint32_t k = 0; k < n; k++) {
    const char* t = carnot_cuda_type(types[chain->inputs[k]]);
    put(w,
        "  four<%s> a%u;\n  if (p.kind[%u] == 0 || (p.kind[%u] == 2 && p.inner[%u] == 1) || "
        "p.kind[%u] == 3) a%u = "
        "*(const four<%s>*)((const %s*)p.x[%u] + AT(%u));\n"
        "  else a%u.v[0] = a%u.v[1] = a%u.v[2] = a%u.v[3] = ((const %s*)p.x[%u])[AT(%u)];\n",
        t, k, k, k, k, k, k, t, t, k, k, k, k, k, k, t, k, k);
  }
  for (uint32_t k = 0; k < m; k++)
    put(w, "  four<%s> b%u;\n", carnot_cuda_type(types[chain->outputs[k]]), k);
  put(w, "#pragma unroll\n  for (int e = 0; e < 4; e++) compute(");
  for (uint32_t k = 0; k < n; k++) put(w, "%sload(a%u.v[e])", k ? ", " : "", k);
  for (uint32_t k = 0; k < m; k++) put(w, "%sb%u.v[e]", n + k ? ", " : "", k);
  put(w, ");\n");
  for (uint32_t k = 0; k < m; k++) {
    const char* t = carnot_cuda_type(types[chain->outputs[k]]);
    put(w, "  *(four<%s>*)((%s*)p.y[%u] + i) = b%u;\n", t, t, k, k);
  }
  put(w, "}\n");
  // The program for any strides is launched after all before it: with wait_for_previous in it,
  // NVRTC 13 gave code that read at wild addresses (bool operands of four axes, sm_90).
  static const char* const kHeads[] = {
      "program_flat(params p) {\n  wait_for_previous();\n  i64 i = blockIdx.x * (i64)blockDim.x + "
      "threadIdx.x, to = i;\n"
      "  if (i >= p.count) return;\n",
      "program_any(params p) {\n  i64 i = blockIdx.x * (i64)blockDim.x + "
      "threadIdx.x, to = 0, rest "
      "= "
      "i;\n  if (i >= p.count) return;\n  i64 at[10] = {0};\n"
      "  for (int d = p.rank - 1; d >= 0; d--) {\n    i64 c = p.count < 0x7fffffff ? "
      "(i64)((u32)rest "
      "%% (u32)p.dims[d]) : rest %% p.dims[d];\n    rest = p.count < 0x7fffffff ? (i64)((u32)rest "
      "/ "
      "(u32)p.dims[d]) : rest / p.dims[d];\n    to += c * p.dst[d];\n"};
  for (int any = 0; any < 2; any++) {
    put(w, "extern \"C\" __global__ void ");
    put(w, kHeads[any], 0);
    for (uint32_t k = 0; any && k < n; k++) put(w, "    at[%u] += c * p.src[%u][d];\n", k, k);
    // A short innermost axis is walked by one thread: the index is computed once.
    if (any) put(w, "  }\n  for (int e = 0; e < p.last; e++) {\n");
    for (uint32_t k = 0; any && k < n; k++)
      put(w, "    if (e) at[%u] += p.src[%u][p.rank];\n", k, k);
    if (any) put(w, "    if (e) to += p.dst[p.rank];\n");
    put(w, "  compute(");
    for (uint32_t k = 0; k < n; k++)
      put(w, any ? "%sload(((const %s*)p.x[%u])[at[%u]])" : "%sload(((const %s*)p.x[%u])[AT(%u)])",
          k ? ", " : "", carnot_cuda_type(types[chain->inputs[k]]), k, k);
    for (uint32_t k = 0; k < m; k++)
      put(w, "%s((%s*)p.y[%u])[to]", n + k ? ", " : "", carnot_cuda_type(types[chain->outputs[k]]),
          k);
    put(w, any ? ");\n  }\n}\n" : ");\n}\n");
  }
}

// |types|: by local, those of the chain's inputs set.
static const char* make_source(const carnot_region* region, const carnot_cuda_chain* chain,
                               carnot_dtype* types, char* text) {
  writer w = {text, 0};
  put(&w, "%s\n", carnot_cuda_prelude);
  writer body = {calloc(1, kSourceBytes), 0};
  if (!body.text) return "no memory";
  const char* why = NULL;
  for (uint32_t i = 0; i < chain->input_count && !why; i++)
    if (!carnot_cuda_type(types[chain->inputs[i]])) why = "an operand's type has no device form";
  for (uint32_t n = chain->first; n < region->node_count && !why; n++)
    why = put_node(&body, &region->nodes[n], types);
  if (!why) {
    put(&w, "DEVICE void compute(");
    for (uint32_t k = 0; k < chain->input_count; k++)
      put(&w, "%s%s v%u", k ? ", " : "", compute_type(types[chain->inputs[k]]), chain->inputs[k]);
    for (uint32_t k = 0; k < chain->output_count; k++)
      put(&w, "%s%s& y%u", chain->input_count + k ? ", " : "",
          carnot_cuda_type(types[chain->outputs[k]]), k);
    put(&w, ") {\n");
    if (chain->bias != CARNOT_PLAN_NONE) put(&w, "  v%u += v%u;\n", chain->acc, chain->bias);
    put(&w, "%s", body.text);
    for (uint32_t k = 0; k < chain->output_count; k++)
      put(&w, "  y%u = store_as<%s>::of(v%u);\n", k, carnot_cuda_type(types[chain->outputs[k]]),
          chain->outputs[k]);
    put(&w, "}\n");
    put_kernels(&w, chain, types);
    if (w.at >= kSourceBytes) why = "the program is too long";
  }
  free(body.text);
  return why;
}

// ---- prepare ----

static const char* describe(const carnot_problem* problem, const carnot_cuda_chain* chain,
                            carnot_dtype acc_dtype, char* text) {
  carnot_dtype types[kMaxLocals];
  for (uint32_t i = 0; i < problem->input_count; i++) types[i] = problem->inputs[i].format.dtype;
  if (chain->acc != CARNOT_PLAN_NONE) types[chain->acc] = acc_dtype;
  return make_source(problem->region, chain, types, text);
}

carnot_status* carnot_cuda_chain_prepare(const carnot_problem* problem,
                                         const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                         carnot_prepared* out) {
  if (carnot_cuda_chain_is_empty(problem->region, chain)) return NULL;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  void* text;
  CARNOT_TRY(carnot_calloc(1, kSourceBytes, "source", &text));
  const char* why = describe(problem, chain, acc_dtype, text);
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

// Which of the three kernels serves, with its parameters.
static const char* choose_kernel(const axes* a, const carnot_operand* const* from,
                                 const carnot_operand* outputs, carnot_cuda_chain_state* out) {
  struct carnot_cuda_chain_params* p = &out->params;
  bool flat = a->rank <= 1 ? a->rank == 0 || a->strides[0][0] == 1 : true;
  int64_t stride = 1;
  for (int d = a->rank - 1; d >= 0; d--) {
    flat = flat && a->strides[0][d] == stride;
    stride *= a->dims[d];
  }
  bool four = p->count % 4 == 0 && p->count < INT32_MAX;
  for (int k = 0; k < out->input_count; k++) {
    flat = flat && flat_kind(a, k + 1, p, k);
    bool repeats = flat && p->kind[k] >= 2;
    bool fours = !repeats ||
                 (p->inner[k] == 1 || p->kind[k] == 3 ? p->size[k] % 4 == 0 : p->inner[k] % 4 == 0);
    four = four && fours && (p->kind[k] == 1 || is_aligned(from[k]));
  }
  for (int k = 0; k < out->output_count; k++) four = four && is_aligned(&outputs[k]);
  int64_t threads = flat && four ? p->count / 4 : p->count;
  out->blocks = carnot_ceildiv(threads, CARNOT_CUDA_THREADS);
  for (int d = 0; d < a->rank && d < CARNOT_CUDA_CHAIN_RANK; d++) {
    p->dims[d] = a->dims[d];
    p->dst[d] = a->strides[0][d];
    for (int k = 0; k < out->input_count; k++) p->src[k][d] = a->strides[k + 1][d];
  }
  p->rank = a->rank, p->last = 1;
  out->any = !flat;
  enum { kShort = 8 };
  if (!flat && a->rank > 1 && a->dims[a->rank - 1] <= kShort) {
    p->last = (int)a->dims[--p->rank];
    p->count /= p->last;
    out->blocks = carnot_ceildiv(p->count, CARNOT_CUDA_THREADS);
  }
  return !flat ? "program_any" : four ? "program_four" : "program_flat";
}

static const void* cubin_of(const carnot_step_view* step) {
  return step->constant_count ? step->constants[step->constant_count - 1] : NULL;
}

carnot_status* carnot_cuda_chain_shape(const carnot_step_view* step, const carnot_cuda_chain* chain,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       carnot_cuda_chain_state* out) {
  *out = (carnot_cuda_chain_state){.input_count = (uint8_t)chain->input_count,
                                   .output_count = (uint8_t)chain->output_count};
  if (carnot_cuda_chain_is_empty(step->region, chain)) return NULL;
  carnot_dtype types[kMaxLocals];
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
  void* text;
  CARNOT_TRY(carnot_calloc(1, kSourceBytes, "source", &text));
  const char* why = make_source(step->region, chain, types, text);
  carnot_status* status = why ? CARNOT_ERROR(INVALID_MODEL, "%s", why)
                              : carnot_cuda_program(carnot_cuda_queue_of(step), text, kernel,
                                                    cubin_of(step), &out->function);
  free(text);
  return status;
}

carnot_status* carnot_cuda_chain_run(const carnot_step_view* step, carnot_cuda_chain_state* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs) {
  if (!state->function) return NULL;
  for (int k = 0; k < state->input_count; k++)
    state->params.x[k] =
        state->operand[k] == kOutput ? outputs[0].data : inputs[state->operand[k]].data;
  for (int k = 0; k < state->output_count; k++) state->params.y[k] = outputs[k].data;
  const int64_t grid[3] = {state->blocks, 1, 1};
  return (state->any ? carnot_cuda_launch_after : carnot_cuda_launch)(
      step, state->function, grid, CARNOT_CUDA_THREADS, &state->params);
}

// ---- the tactic ----

static const char* pointwise_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_region* region = problem->region;
  if (!is_pointwise(region->nodes[0].op)) return "";
  carnot_cuda_chain chain;
  const char* why = carnot_cuda_chain_make(region, problem->input_count, 0, CARNOT_PLAN_NONE,
                                           &chain, reason, size);
  if (why) return why;
  const carnot_operand_desc* out = &problem->outputs[0];
  if (out->rank < 0 || out->rank > CARNOT_CUDA_CHAIN_RANK)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes up to %d", out->rank,
                                     CARNOT_CUDA_CHAIN_RANK);
  char* text = calloc(1, kSourceBytes);
  if (!text) return "no memory";
  why = describe(problem, &chain, CARNOT_DTYPE_INVALID, text);
  free(text);
  // The result has the layout of the first operand of its shape; all operands are read with
  // their strides.
  carnot_layout layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    bool whole = !t->is_constant && t->rank == out->rank;
    for (int d = 0; whole && d < t->rank; d++) whole = t->dims[d] == out->dims[d];
    if (whole) layout = t->format.layout;
    if (whole) break;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.layout = layout;
  return why;
}

static carnot_status* pointwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = carnot_cuda_chain_make(problem->region, problem->input_count, 0,
                                           CARNOT_PLAN_NONE, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, CARNOT_DTYPE_INVALID, out);
}

static carnot_status* pointwise_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  _Static_assert(sizeof(carnot_cuda_chain_state) <= CARNOT_STATE_BYTES, "the state has its size");
  *out_workspace_bytes = 0;
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = carnot_cuda_chain_make(step->region, step->input_count, 0, CARNOT_PLAN_NONE,
                                           &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return carnot_cuda_chain_shape(step, &chain, inputs, outputs, state);
}

static carnot_status* pointwise_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  return carnot_cuda_chain_run(step, state, inputs, outputs);
}

const carnot_tactic carnot_cuda_pointwise = {.name = "cuda_pointwise",
                                             .anchor = CARNOT_OP_COUNT,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .strided_outputs = true,
                                             .output_layout_agnostic = true,
                                             .reject = pointwise_reject,
                                             .prepare = pointwise_prepare,
                                             .configure = pointwise_shape,
                                             .run = pointwise_run};
