// CUDA C generated from a chain of pointwise nodes: one function over the operands of an element,
// and five kernels that call it. 16-bit floats are computed in float32 and rounded where they are
// stored or cast.
#include "backend/cuda/pointwise/chain_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The text of types.cuh and functions.cuh (driver/images.S).
extern const char carnot_cuda_prelude[];
// That of fp8.cuh.
extern const char carnot_cuda_prelude_fp8[];

typedef struct writer {
  char* text;
  size_t at;
  bool holds_fp8;
} writer;

static void put(writer* w, const char* format, ...) CARNOT_PRINTF(2, 3);
static void put(writer* w, const char* format, ...) {
  va_list args;
  va_start(args, format);
  if (w->at < CARNOT_CUDA_CHAIN_SOURCE_BYTES)
    w->at +=
        (size_t)vsnprintf(w->text + w->at, CARNOT_CUDA_CHAIN_SOURCE_BYTES - w->at, format, args);
  va_end(args);
}

// The type that a value is stored in; NULL: there is none. FP8 is handed on as bytes.
static const char* storage_type(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F8E4M3FN ? "u8" : carnot_cuda_type(dtype);
}

// The type of the arithmetic.
static const char* compute_type(carnot_dtype dtype) {
  if (dtype == CARNOT_DTYPE_F8E4M3FN) return "u8";
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
static bool is_fp8(carnot_dtype t) { return t == CARNOT_DTYPE_F8E4M3FN; }

static bool has_fast_form(carnot_fn fn) {
  return fn == CARNOT_FN_SIGMOID || fn == CARNOT_FN_SWISH || fn == CARNOT_FN_GELU_ERF ||
         fn == CARNOT_FN_GELU_TANH;
}

// Of one float32 scale, by the rule of kernel/cuda/quantize/int8_epilogue.cuh. Products are not
// contracted with a sum that follows.
static const char* put_quantization(writer* w, const carnot_plan_node* node, carnot_dtype* types) {
  const carnot_op_row* row = carnot_op_get(node->op);
  const bool down = node->op == CARNOT_OP_QUANTIZE_LINEAR;
  const bool has_zero = node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  const uint32_t x = node->inputs[0], scale = node->inputs[1], out = node->outputs[0];
  const int64_t given = carnot_attr_int(row, &node->attrs, "output_dtype"),
                precision = carnot_attr_int(row, &node->attrs, "precision");
  carnot_dtype stored = types[x];
  if (down) stored = has_zero ? types[node->inputs[2]] : (carnot_dtype)given;
  if (down && !has_zero && !given) stored = CARNOT_DTYPE_U8;
  const bool fp8 = is_fp8(stored);
  if (stored != CARNOT_DTYPE_U8 && stored != CARNOT_DTYPE_I8 && !fp8)
    return "quantized values are not int8, uint8 or float8e4m3fn";
  if (fp8 && down && !carnot_attr_int(row, &node->attrs, "saturate"))
    return "quantization to FP8 that does not saturate";
  if (types[scale] != CARNOT_DTYPE_F32 || (down && types[x] != CARNOT_DTYPE_F32) ||
      (precision && precision != CARNOT_DTYPE_F32))
    return "quantization in other than float32";
  types[out] = down ? stored : CARNOT_DTYPE_F32;
  char zero[32] = "0";
  if (has_zero) snprintf(zero, sizeof(zero), fp8 ? "load_e4m3(v%u)" : "(i32)v%u", node->inputs[2]);
  if (fp8) {
    w->holds_fp8 = true;
    if (down)
      put(w, "  u8 v%u = store_e4m3(__fadd_rn(__fdiv_rn(v%u, v%u), %s));\n", out, x, scale, zero);
    else
      put(w, "  f32 v%u = __fmul_rn(__fsub_rn(load_e4m3(v%u), %s), v%u);\n", out, x, zero, scale);
    return NULL;
  }
  if (!down) {
    put(w, "  f32 v%u = __fmul_rn((f32)((i32)v%u - %s), v%u);\n", out, x, zero, scale);
    return NULL;
  }
  const bool is_signed = stored == CARNOT_DTYPE_I8;
  put(w,
      "  i32 q%u = lo(hi(__float2int_rn(__fdiv_rn(v%u, v%u)), -(1 << 30)), 1 << 30) + %s;\n"
      "  %s v%u = (%s)lo(hi(q%u, %d), %d);\n",
      out, x, scale, zero, is_signed ? "i8" : "u8", out, is_signed ? "i8" : "u8", out,
      is_signed ? -128 : 0, is_signed ? 127 : 255);
  return NULL;
}

static const char* put_node(writer* w, const carnot_plan_node* node, carnot_dtype* types) {
  const carnot_op_row* row = carnot_op_get(node->op);
  if (carnot_cuda_is_quantization(node->op)) return put_quantization(w, node, types);
  carnot_dtype first = types[node->inputs[0]];
  uint32_t out = node->outputs[0];
  if (node->op == CARNOT_OP_CAST) {
    types[out] = (carnot_dtype)carnot_attr_int(row, &node->attrs, "to");
    if (is_fp8(first) || is_fp8(types[out])) return "a cast of FP8 is the generic kernel's";
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
  if (is_fp8(same) && fn != CARNOT_FN_SELECT) return "a function of FP8, which is held as bytes";
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

// Four elements a thread; operands that repeat do so in whole fours.
static void put_kernel_of_four(writer* w, const carnot_cuda_chain* chain,
                               const carnot_dtype* types) {
  uint32_t n = chain->input_count, m = chain->output_count;
  put(w,
      "extern \"C\" __global__ void program_four(params p) {\n  wait_for_previous();\n"
      "  u32 i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n  if (i >= p.count) return;\n");
  for (uint32_t k = 0; k < n; k++) {
    const char* t = storage_type(types[chain->inputs[k]]);
    put(w,
        "  four<%s> a%u;\n  if (p.kind[%u] != 1 && (p.kind[%u] != 2 || p.inner[%u] == 1)) a%u = "
        "*(const four<%s>*)((const %s*)p.x[%u] + AT(%u));\n"
        "  else a%u.v[0] = a%u.v[1] = a%u.v[2] = a%u.v[3] = ((const %s*)p.x[%u])[AT(%u)];\n",
        t, k, k, k, k, k, t, t, k, k, k, k, k, k, t, k, k);
  }
  for (uint32_t k = 0; k < m; k++)
    put(w, "  four<%s> b%u;\n", storage_type(types[chain->outputs[k]]), k);
  put(w, "#pragma unroll\n  for (int e = 0; e < 4; e++) compute(");
  for (uint32_t k = 0; k < n; k++) put(w, "%sload(a%u.v[e])", k ? ", " : "", k);
  for (uint32_t k = 0; k < m; k++) put(w, "%sb%u.v[e]", n + k ? ", " : "", k);
  put(w, ");\n");
  for (uint32_t k = 0; k < m; k++) {
    const char* t = storage_type(types[chain->outputs[k]]);
    put(w, "  *(four<%s>*)((%s*)p.y[%u] + TO) = b%u;\n", t, t, k, k);
  }
  put(w, "}\n");
}

// Where a call finds its operands: at AT(k), at offset at<k>, or loaded as l<k>[e].
typedef enum source { IN_ORDER, AT_OFFSETS, LOADED } source;

// compute() of one element, into results at |result|.
static void put_call(writer* w, const carnot_cuda_chain* chain, const carnot_dtype* types,
                     source from, const char* result) {
  const uint32_t n = chain->input_count, m = chain->output_count;
  put(w, "compute(");
  for (uint32_t k = 0; k < n; k++) {
    const char* t = storage_type(types[chain->inputs[k]]);
    put(w, k ? ", load(" : "load(");
    if (from == LOADED)
      put(w, "l%u[e])", k);
    else
      put(w, from == IN_ORDER ? "((const %s*)p.x[%u])[AT(%u)])" : "((const %s*)p.x[%u])[at%u])", t,
          k, k);
  }
  for (uint32_t k = 0; k < m; k++)
    put(w, "%s((%s*)p.y[%u])[%s]", n + k ? ", " : "", storage_type(types[chain->outputs[k]]), k,
        result);
  put(w, ");\n");
}

// One element a thread, of operands in the order of the output.
static void put_kernel_of_one(writer* w, const carnot_cuda_chain* chain,
                              const carnot_dtype* types) {
  put(w,
      "extern \"C\" __global__ void program_flat(params p) {\n  wait_for_previous();\n"
      "  i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;\n  if (i >= p.count) return;\n  ");
  put_call(w, chain, types, IN_ORDER, "TO");
  put(w, "}\n");
}

// Declares the offsets of results and operands of element |i|, whose axes from |first| on are
// walked. Axes are unrolled and offsets are scalars: of a loop over arrays in which divisions of
// 32 and of 64 bits stood side by side NVRTC 13 made code that read at wild addresses (four axes,
// sm_90).
static void put_offsets(writer* w, const carnot_cuda_chain* chain, const char* index, int first) {
  const uint32_t n = chain->input_count;
  put(w, "  i64 to = 0");
  for (uint32_t k = 0; k < n; k++) put(w, ", at%u = 0", k);
  put(w,
      ";\n#pragma unroll\n  for (int d = %d; d >= %d; d--) {\n    if (d >= p.rank) continue;\n"
      "    const %s size = (%s)p.dims[d], next = i / size;\n"
      "    const i64 c = (i64)(i - next * size);\n    i = next;\n    to += c * p.dst[d];\n",
      CARNOT_CUDA_CHAIN_RANK - 1, first, index, index);
  for (uint32_t k = 0; k < n; k++) put(w, "    at%u += c * p.src[%u][d];\n", k, k);
  put(w, "  }\n");
}

// One element a thread, of operands of any strides. A short innermost axis is walked by one thread:
// the index is computed once. |index|: the type of an element's number.
static void put_kernel_of_any(writer* w, const carnot_cuda_chain* chain, const carnot_dtype* types,
                              const char* name, const char* index) {
  put(w,
      "extern \"C\" __global__ void %s(params p) {\n"
      "  %s i = blockIdx.x * (%s)blockDim.x + threadIdx.x;\n  if (i >= (%s)p.count) return;\n",
      name, index, index, index);
  put_offsets(w, chain, index, 0);
  put(w, "  for (int e = 0;;) {\n    ");
  put_call(w, chain, types, AT_OFFSETS, "to");
  put(w, "    if (++e == p.last) return;\n    to += p.dst[p.rank];\n");
  for (uint32_t k = 0; k < chain->input_count; k++)
    put(w, "    at%u += p.src[%u][p.rank];\n", k, k);
  put(w, "  }\n}\n");
}

// Of operands in two orders: tiles of axes 0, along which one operand is dense, and 1, along which
// the result is. Sectors of both are used whole.
static void put_kernel_of_tiles(writer* w, const carnot_cuda_chain* chain,
                                const carnot_dtype* types) {
  const uint32_t n = chain->input_count;
  put(w,
      "extern \"C\" __global__ void program_tiled(params p) {\n  wait_for_previous();\n"
      "  const u32 high = (u32)p.dims[0], wide = (u32)p.dims[1], across = (wide + %d) / %d, "
      "down = (high + %d) / %d;\n"
      "  u32 i = blockIdx.x / across;\n  const u32 b = (blockIdx.x - i * across) * %d + "
      "threadIdx.x %% %d, next_i = i / down;\n"
      "  const u32 a = (i - next_i * down) * %d + threadIdx.x / %d;\n  i = next_i;\n"
      "  if (b >= wide) return;\n",
      CARNOT_CUDA_CHAIN_WIDE - 1, CARNOT_CUDA_CHAIN_WIDE, CARNOT_CUDA_CHAIN_HIGH - 1,
      CARNOT_CUDA_CHAIN_HIGH, CARNOT_CUDA_CHAIN_WIDE, CARNOT_CUDA_CHAIN_WIDE,
      CARNOT_CUDA_CHAIN_HIGH, CARNOT_CUDA_CHAIN_WIDE);
  put_offsets(w, chain, "u32", 2);
  put(w, "  enum { TURNS = %d, STEP = %d };\n  to += a * p.dst[0] + b * p.dst[1];\n",
      CARNOT_CUDA_CHAIN_HIGH * CARNOT_CUDA_CHAIN_WIDE / CARNOT_CUDA_THREADS,
      CARNOT_CUDA_THREADS / CARNOT_CUDA_CHAIN_WIDE);
  for (uint32_t k = 0; k < n; k++)
    put(w, "  at%u += a * p.src[%u][0] + b * p.src[%u][1];\n  %s l%u[TURNS];\n", k, k, k,
        storage_type(types[chain->inputs[k]]), k);
  put(w, "#pragma unroll\n  for (int e = 0; e < TURNS; e++)\n    if (a + e * STEP < high) {\n");
  for (uint32_t k = 0; k < n; k++)
    put(w, "      l%u[e] = ((const %s*)p.x[%u])[at%u + e * STEP * p.src[%u][0]];\n", k,
        storage_type(types[chain->inputs[k]]), k, k, k);
  put(w, "    }\n#pragma unroll\n  for (int e = 0; e < TURNS; e++)\n    if (a + e * STEP < high) ");
  put_call(w, chain, types, LOADED, "to + e * STEP * p.dst[0]");
  put(w, "}\n");
}

static bool is_wanted(const char* kernel, const char* name) {
  return !kernel || strcmp(kernel, name) == 0;
}

static void put_kernels(writer* w, const carnot_cuda_chain* chain, const carnot_dtype* types,
                        const char* kernel) {
  put(w,
      "struct params { const void* x[%d]; void* y[%d]; i64 count; i64 dims[%d]; i64 src[%d][%d]; "
      "i64 dst[%d]; int rank; int kind[%d]; int inner[%d]; int size[%d]; int last; int row; int "
      "pitch; };\n"
      "template <class T> struct __align__(4 * sizeof(T)) four { T v[4]; };\n",
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_OUTPUTS, CARNOT_CUDA_CHAIN_RANK,
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_RANK, CARNOT_CUDA_CHAIN_RANK,
      CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_INPUTS, CARNOT_CUDA_CHAIN_INPUTS);
  put(w,
      "#define AT(k) (p.kind[k] == 0 ? i : p.kind[k] == 1 ? 0 : p.kind[k] == 2 ? i / p.inner[k] %% "
      "p.size[k] : p.kind[k] == 3 ? i / p.inner[k] * p.size[k] + i %% p.size[k] : i / p.size[k] * "
      "p.inner[k] + i %% p.size[k])\n"
      "#define TO (p.row ? i / p.row * p.pitch + i %% p.row : i)\n");
  if (is_wanted(kernel, "program_four")) put_kernel_of_four(w, chain, types);
  if (is_wanted(kernel, "program_flat")) put_kernel_of_one(w, chain, types);
  if (is_wanted(kernel, "program_any")) put_kernel_of_any(w, chain, types, "program_any", "u32");
  if (is_wanted(kernel, "program_wide")) put_kernel_of_any(w, chain, types, "program_wide", "u64");
  if (is_wanted(kernel, "program_tiled")) put_kernel_of_tiles(w, chain, types);
}

const char* carnot_cuda_chain_source(const carnot_region* region, const carnot_cuda_chain* chain,
                                     carnot_dtype* types, const char* kernel, char* text) {
  writer w = {.text = text};
  put(&w, "%s\n", carnot_cuda_prelude);
  writer body = {.text = calloc(1, CARNOT_CUDA_CHAIN_SOURCE_BYTES)};
  if (!body.text) return "no memory";
  const char* why = NULL;
  for (uint32_t i = 0; i < chain->input_count && !why; i++)
    if (!storage_type(types[chain->inputs[i]])) why = "an operand's type has no device form";
  for (uint32_t n = chain->first; n < region->node_count && !why; n++)
    why = put_node(&body, &region->nodes[n], types);
  if (!why) {
    put(&w, "%sDEVICE void compute(", body.holds_fp8 ? carnot_cuda_prelude_fp8 : "");
    for (uint32_t k = 0; k < chain->input_count; k++)
      put(&w, "%s%s v%u", k ? ", " : "", compute_type(types[chain->inputs[k]]), chain->inputs[k]);
    for (uint32_t k = 0; k < chain->output_count; k++)
      put(&w, "%s%s& y%u", chain->input_count + k ? ", " : "",
          storage_type(types[chain->outputs[k]]), k);
    put(&w, ") {\n");
    if (chain->bias != CARNOT_PLAN_NONE) put(&w, "  v%u += v%u;\n", chain->acc, chain->bias);
    put(&w, "%s", body.text);
    for (uint32_t k = 0; k < chain->output_count; k++)
      put(&w, "  y%u = store_as<%s>::of(v%u);\n", k, storage_type(types[chain->outputs[k]]),
          chain->outputs[k]);
    put(&w, "}\n");
    put_kernels(&w, chain, types, kernel);
    if (w.at >= CARNOT_CUDA_CHAIN_SOURCE_BYTES) why = "the program is too long";
  }
  free(body.text);
  return why;
}

// Scales and zero points are one number, which broadcasts.
static const char* check_scales(const carnot_problem* problem, const carnot_cuda_chain* chain) {
  for (uint32_t n = chain->first; n < problem->region->node_count; n++) {
    const carnot_plan_node* node = &problem->region->nodes[n];
    if (!carnot_cuda_is_quantization(node->op)) continue;
    for (uint32_t i = 1; i < node->input_count; i++) {
      if (node->inputs[i] == CARNOT_PLAN_NONE) continue;
      if (node->inputs[i] >= problem->input_count) return "a scale that the region computes";
      const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
      if (!carnot_has_fixed_dims(t)) return "a scale of open size";
      if (t->rank > 1 || t->rank > problem->outputs[0].rank || (t->rank == 1 && t->dims[0] != 1))
        return "a scale of more than one number";
    }
  }
  return NULL;
}

const char* carnot_cuda_chain_problem_source(const carnot_problem* problem,
                                             const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                             char* text) {
  carnot_dtype types[CARNOT_CUDA_CHAIN_LOCALS];
  const char* why = check_scales(problem, chain);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++) types[i] = problem->inputs[i].format.dtype;
  if (chain->acc != CARNOT_PLAN_NONE) types[chain->acc] = acc_dtype;
  return carnot_cuda_chain_source(problem->region, chain, types, /*kernel=*/NULL, text);
}
