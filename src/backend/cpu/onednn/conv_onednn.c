// Convolutions by oneDNN over channels-last operands, with float32 or BF16 in memory.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"
#include "backend/cpu/onednn/onednn_step.h"

enum { kLeastPixels = 64 };  // of a part

// ---- parts ----

// The whole convolution but what its primitives write.
static carnot_onednn_shape shape_of(const carnot_conv_params* p, const carnot_window_geometry* g,
                                    carnot_dtype src) {
  carnot_onednn_shape s = {.dtype = src, .has_bias = p->has_bias, .n = g->n, .c = g->c, .k = g->k};
  s.is_matmul = p->group == 1 && g->r == 1 && g->s == 1 && g->stride_h == 1 && g->stride_w == 1 &&
                g->p == g->h && g->q == g->w && g->pad_h == 0 && g->pad_w == 0;
  if (s.is_matmul) {
    s.n *= g->p * g->q;
    return s;
  }
  s.group = p->group;
  s.h = g->h, s.w = g->w, s.p = g->p, s.q = g->q, s.r = g->r, s.s = g->s;
  s.stride_h = g->stride_h, s.stride_w = g->stride_w;
  s.dilation_h = g->dilation_h, s.dilation_w = g->dilation_w;
  s.pad_h = g->pad_h, s.pad_w = g->pad_w;
  const int64_t reach = (g->q - 1) * g->stride_w + (g->s - 1) * g->dilation_w + 1;
  s.pad_w_end = carnot_max_i64(0, reach - g->w - g->pad_w);
  return s;
}

// Rows [p0,p1) of the result in |part|; false where a window reads nothing but padding. Where all
// rows are taken, those of src too that no window reads: other images follow them.
static bool take_rows(const carnot_onednn_shape* whole, int64_t p0, int64_t p1,
                      carnot_onednn_part* part) {
  const int64_t first = p0 * whole->stride_h - whole->pad_h,
                end = (p1 - 1) * whole->stride_h - whole->pad_h +
                      (whole->r - 1) * whole->dilation_h + 1,
                h0 = carnot_max_i64(0, first),
                h1 = p1 - p0 == whole->p ? whole->h : carnot_min_i64(whole->h, end);
  part->shape = *whole;
  part->shape.p = p1 - p0;
  part->shape.h = h1 - h0;
  part->shape.pad_h = h0 - first;
  part->shape.pad_h_end = carnot_max_i64(0, end - h1);
  part->src_at += h0 * whole->w * whole->c;
  part->m0 += p0 * whole->q;
  return h1 > h0;
}

// Cut by images where there are enough, else each image into |per_image| parts by rows; false where
// a part reads nothing but padding.
static bool cut_rows(const carnot_onednn_shape* whole, int64_t images, int64_t per_image,
                     carnot_onednn_parts* out) {
  const int64_t src_image = whole->h * whole->w * whole->c, dst_image = whole->p * whole->q;
  out->count = 0;
  memset(out->items, 0, sizeof(out->items));
  for (int64_t i = 0; i < images; i++) {
    const int64_t n0 = whole->n * i / images, n1 = whole->n * (i + 1) / images;
    for (int64_t j = 0; j < per_image; j++) {
      carnot_onednn_part* part = &out->items[out->count++];
      part->src_at = n0 * src_image;
      part->m0 = n0 * dst_image;
      if (!take_rows(whole, whole->p * j / per_image, whole->p * (j + 1) / per_image, part))
        return false;
      part->shape.n = n1 - n0;
    }
  }
  return true;
}

static void cut_window(const carnot_onednn_shape* whole, carnot_onednn_parts* out) {
  const int64_t pixels = whole->p * whole->q, depth = whole->c / whole->group * whole->r * whole->s;
  const int64_t wanted =
      carnot_onednn_part_count(2.0 * (double)(whole->n * pixels) * (double)whole->k * (double)depth,
                               (carnot_dtype)whole->dtype);
  const int64_t images = carnot_min_i64(whole->n, wanted),
                rows = carnot_min_i64(carnot_min_i64(wanted / whole->n, pixels / kLeastPixels),
                                      whole->p),
                per_image = images < whole->n ? 1 : carnot_max_i64(1, rows);
  out->columns = 1;
  out->ld = whole->k;
  if (!cut_rows(whole, images, per_image, out)) cut_rows(whole, images, 1, out);
}

static void cut(const carnot_conv_params* p, const carnot_window_geometry* g, carnot_dtype src,
                const carnot_onednn_result* result, bool is_open, carnot_onednn_parts* out) {
  carnot_onednn_shape whole = shape_of(p, g, src);
  memset(out, 0, sizeof(*out));
  out->is_open = is_open;
  if (whole.is_matmul) {
    carnot_onednn_cut_matmul(&whole, result, out);
    return;
  }
  carnot_onednn_settle(result, /*apart=*/false, &whole, out);
  cut_window(&whole, out);
}

// ---- build ----

static carnot_operand operand_of(const carnot_operand_desc* t) {
  carnot_operand out = {.format = t->format, .rank = t->rank};
  memcpy(out.dims, t->dims, sizeof(out.dims));
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, t->rank, t->dims, out.strides);
  return out;
}

static const char* cut_problem(const carnot_problem* problem, const carnot_conv_params* p,
                               carnot_onednn_parts* out, char* reason, size_t size) {
  const carnot_operand x = operand_of(&problem->inputs[0]), y = operand_of(&problem->outputs[0]);
  const int residual = p->epilogue_plan.residual;
  carnot_window_geometry g;
  carnot_status* status = carnot_window_geometry_of(&p->window, &x, &y, &g);
  if (status) {
    snprintf(reason, size, "%s", carnot_status_message(status));
    carnot_status_free(status);
    return reason;
  }
  const carnot_onednn_result result = {
      &p->epilogue_plan, y.format.dtype,
      residual < 0 ? CARNOT_DTYPE_INVALID : problem->inputs[residual].format.dtype};
  cut(p, &g, x.format.dtype, &result, carnot_onednn_is_open(problem), out);
  return NULL;
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (!why) why = carnot_onednn_reject_problem(problem, &problem->inputs[0], reason, size);
  if (!why) why = carnot_onednn_reject_epilogue(problem, &p.epilogue_plan);
  if (why) return why;
  if (p.window.rank > 2) return "the window has three dimensions";
  carnot_onednn_parts parts;
  why = cut_problem(problem, &p, &parts, reason, size);
  return why ? why : carnot_onednn_reject_parts(&parts, reason, size);
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  char reason[256];
  carnot_onednn_parts parts;
  const char* why = cut_problem(problem, p, &parts, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const carnot_onednn_weights weights = {carnot_conv_weights(problem)->tensor->data,
                                         /*row_stride=*/1, /*column_stride=*/p->channels};
  return carnot_onednn_prepare(&parts, &weights, out);
}

// ---- load and run ----

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  return carnot_onednn_validate(step);
}

static bool is_dense(const carnot_window_geometry* g) {
  return g->src_w == g->c && g->src_h == g->w * g->c && g->src_n == g->h * g->src_h &&
         g->ld == g->k;
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  (void)memory;
  const carnot_conv_params* p = step->params;
  const carnot_operand* y = &outputs[0];
  const int residual = p->epilogue_plan.residual;
  carnot_window_geometry g;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &g));
  CARNOT_CHECK(is_dense(&g), INVALID_MODEL, "pixels lie apart in memory, oneDNN takes them dense");
  CARNOT_CHECK(residual < 0 || carnot_epilogue_row_distance(&inputs[residual], y->rank - 1) == g.k,
               INVALID_MODEL, "pixels of the residual lie apart in memory");
  const carnot_onednn_result result = {
      &p->epilogue_plan, y->format.dtype,
      residual < 0 ? CARNOT_DTYPE_INVALID : inputs[residual].format.dtype};
  carnot_onednn_parts parts;
  cut(p, &g, inputs[0].format.dtype, &result, carnot_onednn_step_is_open(step), &parts);
  return carnot_onednn_configure(step, &parts, &result, out_workspace_bytes);
}

static carnot_status* conv_run(const carnot_step_view* step, void* memory,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)memory;
  const carnot_conv_params* p = step->params;
  return carnot_onednn_run(step, &p->epilogue_plan, &inputs[0],
                           p->has_bias ? step->constants[1] : NULL, inputs, outputs, workspace,
                           executor);
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, problem->tactic->takes_bf16 ? 2 : 4, out_flops, out_bytes);
}

#define CONV_TACTIC                                                                       \
  .sources = 1u << CARNOT_SOURCE_ONEDNN, .anchor = CARNOT_OP_CONV, .reject = conv_reject, \
  .prepare = conv_prepare, .validate = conv_validate, .open = carnot_onednn_step_open,    \
  .close = carnot_onednn_step_close, .uses_input = carnot_conv_uses_input,                \
  .configure = conv_configure, .run = conv_run, .work = conv_work
// The library chooses among its kernels for AVX2 and above by itself.
CARNOT_CPU_TACTIC(conv_onednn_f32, avx2, AVX2, .numerics = CARNOT_NUMERICS_EXACT, CONV_TACTIC);
CARNOT_CPU_TACTIC(conv_onednn_bf16, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, CONV_TACTIC);
