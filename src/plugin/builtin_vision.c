// Plugins of vision models with kernels of their own. Source: TensorRT cropAndResizePlugin,
// coordConvACPlugin, regionPlugin, multiscaleDeformableAttnPlugin, disentangledAttentionPlugin.
#include <math.h>

#include "plugin/builtin.h"

static int64_t count_of(const carnot_dims* dims, int first, int end) {
  int64_t count = 1;
  for (int i = first; i < end; i++) count *= dims->d[i];
  return count;
}

static bool check_rank(const carnot_plugin_shape* s, int input, int rank,
                       carnot_plugin_error* error) {
  return s[input].rank == rank || carnot_plugin_refuse(error, "input %d has rank %d, must be %d",
                                                       input, s[input].rank, rank);
}

static bool same_as_first(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                          int32_t input_count, carnot_plugin_shape* outputs,
                          const carnot_exprs* exprs, carnot_plugin_error* error) {
  (void)fields, (void)input_count, (void)exprs, (void)error;
  outputs[0] = inputs[0];
  return true;
}

// ---- CropAndResize: boxes [N,B,4,(1)] of y1 x1 y2 x2 in [0,1] → [N,B,C,crop_height,crop_width],
// bilinear with the corners at the box's; 0 outside ----

enum { kMostPixels = 4096 };  // of a side

typedef struct crop_job {
  const carnot_plugin_run* run;
  int64_t height, width;
} crop_job;

// Where output pixel |i| of |count| lies between |from| and |to| of an axis of |size| pixels.
static float crop_at(int64_t i, int64_t count, float from, float to, int64_t size) {
  float last = (float)(size - 1);
  if (count < 2) return 0.5f * (from + to) * last;
  return from * last + (float)i * ((to - from) * last / (float)(count - 1));
}

static float bilinear(const float* x, int64_t height, int64_t width, float at_y, float at_x) {
  if (!(at_y >= 0 && at_y <= (float)(height - 1) && at_x >= 0 && at_x <= (float)(width - 1)))
    return 0;
  int64_t y0 = (int64_t)floorf(at_y), y1 = (int64_t)ceilf(at_y), x0 = (int64_t)floorf(at_x),
          x1 = (int64_t)ceilf(at_x);
  float dy = at_y - (float)y0, dx = at_x - (float)x0;
  float top = x[y0 * width + x0] + (x[y0 * width + x1] - x[y0 * width + x0]) * dx;
  float bottom = x[y1 * width + x0] + (x[y1 * width + x1] - x[y1 * width + x0]) * dx;
  return top + (bottom - top) * dy;
}

static void crop_part(void* arg, int64_t box) {
  const crop_job* j = arg;
  const carnot_dims *x = &j->run->inputs[0].dims, *boxes = &j->run->inputs[1].dims;
  const float* b = (const float*)j->run->inputs[1].data + box * 4;
  int64_t plane = x->d[2] * x->d[3];
  const float* src = (const float*)j->run->inputs[0].data + box / boxes->d[1] * x->d[1] * plane;
  float* dst = (float*)j->run->outputs[0].data + box * x->d[1] * j->height * j->width;
  for (int64_t c = 0; c < x->d[1]; c++, src += plane)
    for (int64_t i = 0; i < j->height; i++)
      for (int64_t k = 0; k < j->width; k++)
        *dst++ = bilinear(src, x->d[2], x->d[3], crop_at(i, j->height, b[0], b[2], x->d[2]),
                          crop_at(k, j->width, b[1], b[3], x->d[3]));
}

static bool crop_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                      int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* exprs,
                      carnot_plugin_error* error) {
  (void)input_count;
  int64_t height = carnot_fields_int(fields, "crop_height", 0),
          width = carnot_fields_int(fields, "crop_width", 0);
  if (!check_rank(inputs, 0, 4, error)) return false;
  if (inputs[1].rank != 3 && !check_rank(inputs, 1, 4, error)) return false;
  if (height < 1 || width < 1 || height > kMostPixels || width > kMostPixels)
    return carnot_plugin_refuse(error, "crop_height %lld and crop_width %lld must be 1 to %d",
                                (long long)height, (long long)width, kMostPixels);
  outputs[0] = (carnot_plugin_shape){
      .rank = 5,
      .dims = {inputs[1].dims[0], inputs[1].dims[1], inputs[0].dims[1],
               exprs->constant(exprs->host, height), exprs->constant(exprs->host, width)}};
  return true;
}

static bool crop(const carnot_fields* fields, const carnot_plugin_run* run,
                 carnot_plugin_error* error) {
  const carnot_dims *x = &run->inputs[0].dims, *boxes = &run->inputs[1].dims;
  if (boxes->d[0] != x->d[0] || count_of(boxes, 2, boxes->rank) != 4)
    return carnot_plugin_refuse(error, "boxes must be [%lld,B,4]", (long long)x->d[0]);
  crop_job job = {run, carnot_fields_int(fields, "crop_height", 0),
                  carnot_fields_int(fields, "crop_width", 0)};
  run->threads->parallel(run->threads->host, boxes->d[0] * boxes->d[1], crop_part, &job);
  return true;
}

// ---- CoordConvAC: two more channels, rows and columns as numbers from -1 to 1 ----

static bool coord_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                       int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* exprs,
                       carnot_plugin_error* error) {
  (void)fields, (void)input_count;
  if (!check_rank(inputs, 0, 4, error)) return false;
  outputs[0] = inputs[0];
  outputs[0].dims[1] = exprs->operation(exprs->host, CARNOT_EXPR_SUM, inputs[0].dims[1],
                                        exprs->constant(exprs->host, 2));
  return true;
}

static float coordinate(int64_t i, int64_t size) {
  return size > 1 ? -1 + (float)i * (2 / (float)(size - 1)) : -1;
}

static bool coord(const carnot_fields* fields, const carnot_plugin_run* run,
                  carnot_plugin_error* error) {
  (void)fields, (void)error;
  const carnot_dims* d = &run->inputs[0].dims;
  int64_t plane = d->d[2] * d->d[3], image = d->d[1] * plane;
  const float* src = run->inputs[0].data;
  float* dst = run->outputs[0].data;
  for (int64_t n = 0; n < d->d[0]; n++, src += image, dst += image + 2 * plane) {
    for (int64_t i = 0; i < image; i++) dst[i] = src[i];
    for (int64_t i = 0; i < plane; i++) {
      dst[image + i] = coordinate(i / d->d[3], d->d[2]);
      dst[image + plane + i] = coordinate(i % d->d[3], d->d[3]);
    }
  }
  return true;
}

// ---- Region (YOLO v2): of each of |num| boxes sigmoid of x, y and objectness, softmax of classes
// ----

static void softmax(const float* src, float* dst, int64_t count, int64_t stride) {
  float largest = -INFINITY;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, src[i * stride]);
  for (int64_t i = 0; i < count; i++) sum += exp((double)(src[i * stride] - largest));
  for (int64_t i = 0; i < count; i++)
    dst[i * stride] = (float)(exp((double)(src[i * stride] - largest)) / sum);
}

static bool region(const carnot_fields* fields, const carnot_plugin_run* run,
                   carnot_plugin_error* error) {
  const carnot_dims* d = &run->inputs[0].dims;
  int64_t num = carnot_fields_int(fields, "num", 0),
          coords = carnot_fields_int(fields, "coords", 0),
          classes = carnot_fields_int(fields, "classes", 0), plane = d->d[2] * d->d[3],
          per_box = coords + classes + 1;
  if (carnot_fields_length(fields, "smTree") > 0)
    return carnot_plugin_refuse(error, "a tree of classes (smTree) is not there yet");
  if (d->rank != 4 || num < 1 || coords != 4 || classes < 1 || d->d[1] != num * per_box)
    return carnot_plugin_refuse(
        error, "%lld channels, must be num * (coords + classes + 1) = %lld * %lld with coords 4",
        (long long)d->d[1], (long long)num, (long long)per_box);
  for (int64_t b = 0; b < d->d[0] * num; b++) {
    const float* src = (const float*)run->inputs[0].data + b * per_box * plane;
    float* dst = (float*)run->outputs[0].data + b * per_box * plane;
    for (int64_t i = 0; i < 5 * plane; i++) {
      int64_t at = i / plane;
      dst[i] = at == 2 || at == 3 ? src[i] : 1 / (1 + expf(-src[i]));
    }
    for (int64_t i = 0; i < plane; i++)
      softmax(src + 5 * plane + i, dst + 5 * plane + i, classes, plane);
  }
  return true;
}

// ---- Multi-scale deformable attention (Deformable DETR):
//   out[b,q,m,:] = sum over levels l, points p of weight[b,q,m,l,p] * value of level l, head m,
//   bilinear at location[b,q,m,l,p] (x, y in [0,1])
// value [B,S,M,D], shapes [L,2], level starts [L], locations [B,Q,M,L,P,2], weights [B,Q,M,L,P]
// ----

static bool msda_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                      int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* exprs,
                      carnot_plugin_error* error) {
  static const int kRanks[] = {4, 2, 1, 6, 5};
  (void)fields, (void)input_count, (void)exprs;
  for (int i = 0; i < 5; i++)
    if (!check_rank(inputs, i, kRanks[i], error)) return false;
  outputs[0] = (carnot_plugin_shape){
      .rank = 4,
      .dims = {inputs[0].dims[0], inputs[3].dims[1], inputs[0].dims[2], inputs[0].dims[3]}};
  return true;
}

// Adds w * the value at (y, x) of one level to dst; positions outside count 0.
static void msda_point(const float* value, int64_t height, int64_t width, int64_t row_stride,
                       int64_t depth, float y, float x, float w, float* dst) {
  if (!(y > -1 && x > -1 && y < (float)height && x < (float)width)) return;
  int64_t y0 = (int64_t)floorf(y), x0 = (int64_t)floorf(x);
  for (int k = 0; k < 4; k++) {
    int64_t yy = y0 + k / 2, xx = x0 + k % 2;
    if (yy < 0 || yy >= height || xx < 0 || xx >= width) continue;
    float wy = k / 2 ? y - (float)y0 : 1 - (y - (float)y0);
    float wx = k % 2 ? x - (float)x0 : 1 - (x - (float)x0);
    const float* src = value + (yy * width + xx) * row_stride;
    for (int64_t c = 0; c < depth; c++) dst[c] += w * wy * wx * src[c];
  }
}

static void msda_part(void* arg, int64_t part) {
  const carnot_plugin_run* run = arg;
  const carnot_dims *v = &run->inputs[0].dims, *w = &run->inputs[4].dims;
  int64_t heads = v->d[2], depth = v->d[3], levels = w->d[3], points = w->d[4];
  int64_t head = part % heads, batch = part / heads / w->d[1];
  const int32_t *shapes = run->inputs[1].data, *starts = run->inputs[2].data;
  const float* locations = (const float*)run->inputs[3].data + part * levels * points * 2;
  const float* weights = (const float*)run->inputs[4].data + part * levels * points;
  float* dst = (float*)run->outputs[0].data + part * depth;
  for (int64_t c = 0; c < depth; c++) dst[c] = 0;
  for (int64_t i = 0; i < levels * points; i++) {
    int64_t l = i / points, height = shapes[2 * l], width = shapes[2 * l + 1];
    const float* value =
        (const float*)run->inputs[0].data + ((batch * v->d[1] + starts[l]) * heads + head) * depth;
    msda_point(value, height, width, heads * depth, depth,
               locations[2 * i + 1] * (float)height - 0.5f, locations[2 * i] * (float)width - 0.5f,
               weights[i], dst);
  }
}

static bool msda(const carnot_fields* fields, const carnot_plugin_run* run,
                 carnot_plugin_error* error) {
  (void)fields;
  const carnot_dims *v = &run->inputs[0].dims, *p = &run->inputs[3].dims, *w = &run->inputs[4].dims;
  const int32_t *shapes = run->inputs[1].data, *starts = run->inputs[2].data;
  bool fits = p->d[0] == v->d[0] && p->d[2] == v->d[2] && p->d[5] == 2 &&
              run->inputs[1].dims.d[0] == p->d[3] && run->inputs[1].dims.d[1] == 2 &&
              run->inputs[2].dims.d[0] == p->d[3];
  for (int i = 0; i < 5; i++) fits = fits && w->d[i] == p->d[i];
  if (!fits) return carnot_plugin_refuse(error, "the dimensions of the inputs do not fit together");
  for (int64_t l = 0; l < p->d[3]; l++)
    if (shapes[2 * l] < 0 || shapes[2 * l + 1] < 0 || starts[l] < 0 ||
        starts[l] + (int64_t)shapes[2 * l] * shapes[2 * l + 1] > v->d[1])
      return carnot_plugin_refuse(error, "level %lld of %d x %d at %d lies outside %lld positions",
                                  (long long)l, shapes[2 * l], shapes[2 * l + 1], starts[l],
                                  (long long)v->d[1]);
  run->threads->parallel(run->threads->host, v->d[0] * p->d[1] * v->d[2], msda_part, (void*)run);
  return true;
}

// ---- Disentangled attention (DeBERTa):
//   out[i,r,c] = (c2c[i,r,c] + c2p[i,r,at] + p2c[i,c,at]) * factor, at = bucket(r - c) + span
// distances up to span/2 are themselves, longer ones lie on a scale of logarithms ----

typedef struct attention_job {
  const carnot_plugin_run* run;
  float factor;
  int64_t span;
} attention_job;

static int64_t bucket_of(int64_t distance, int64_t span, int64_t last) {
  int64_t middle = span / 2, far = distance < 0 ? -distance : distance;
  if (far <= middle) return distance;
  if (middle < 2) return distance < 0 ? -middle : middle;
  float scale = (float)(middle - 1) / (logf((float)(last - 1)) - logf((float)middle)) * (1 - 1e-7f);
  int64_t bucket = (int64_t)ceilf((logf((float)far) - logf((float)middle)) * scale) + middle;
  return distance < 0 ? -bucket : bucket;
}

static void attention_part(void* arg, int64_t part) {
  const attention_job* j = arg;
  int64_t size = j->run->inputs[0].dims.d[2], rows = j->run->inputs[0].dims.d[1],
          last = j->run->inputs[1].dims.d[2], i = part / rows, r = part % rows;
  const float* c2c = (const float*)j->run->inputs[0].data + part * size;
  const float* c2p = (const float*)j->run->inputs[1].data + part * last;
  const float* p2c = (const float*)j->run->inputs[2].data + i * size * last;
  float* dst = (float*)j->run->outputs[0].data + part * size;
  for (int64_t c = 0; c < size; c++) {
    int64_t at = bucket_of(r - c, j->span, last) + j->span;
    at = at < 0 ? 0 : at > 2 * j->span - 1 ? 2 * j->span - 1 : at;
    dst[c] = (c2c[c] + c2p[at] + p2c[c * last + at]) * j->factor;
  }
}

static bool attention(const carnot_fields* fields, const carnot_plugin_run* run,
                      carnot_plugin_error* error) {
  attention_job job = {run, (float)carnot_fields_float(fields, "factor", 1),
                       carnot_fields_int(fields, "span", 0)};
  const carnot_dims *a = &run->inputs[0].dims, *b = &run->inputs[1].dims, *c = &run->inputs[2].dims;
  bool fits = a->rank == 3 && b->rank == 3 && c->rank == 3 && a->d[1] == a->d[2];
  for (int i = 0; i < 2; i++) fits = fits && a->d[i] == b->d[i] && a->d[i] == c->d[i];
  if (!fits || job.span < 1 || b->d[2] != 2 * job.span || c->d[2] != 2 * job.span)
    return carnot_plugin_refuse(error, "inputs must be [N,S,S], [N,S,2 span] twice, with span %lld",
                                (long long)job.span);
  run->threads->parallel(run->threads->host, a->d[0] * a->d[1], attention_part, &job);
  return true;
}

static const carnot_plugin_field kCrop[] = {CARNOT_FIELD("crop_width", INT32),
                                            CARNOT_FIELD("crop_height", INT32)};
static const carnot_plugin_field kRegion[] = {
    CARNOT_FIELD("num", INT32), CARNOT_FIELD("coords", INT32), CARNOT_FIELD("classes", INT32),
    CARNOT_FIELD("smTree", UNKNOWN)};
static const carnot_plugin_field kAttention[] = {CARNOT_FIELD("span", INT32),
                                                 CARNOT_FIELD("factor", FLOAT32)};
static const carnot_plugin_kernel kCropKernel = {"f f", crop_dims, crop, NULL};
static const carnot_plugin_kernel kCoordKernel = {"f f", coord_dims, coord, NULL};
static const carnot_plugin_kernel kRegionKernel = {"f f", same_as_first, region, NULL};
static const carnot_plugin_kernel kMsdaKernel = {"fiiff f", msda_dims, msda, NULL};
static const carnot_plugin_kernel kAttentionKernel = {"f f", same_as_first, attention, NULL};

static const carnot_plugin_builtin kRows[] = {
    {"CropAndResize", "1", CARNOT_FIELD_LIST(kCrop), 2, 2, 1, NULL, &kCropKernel, NULL},
    {"CropAndResizeDynamic", "1", CARNOT_FIELD_LIST(kCrop), 2, 2, 1, NULL, &kCropKernel, NULL},
    {"CropAndResizeDynamic", "2", CARNOT_FIELD_LIST(kCrop), 2, 2, 1, NULL, &kCropKernel, NULL},
    {"CoordConvAC", "1", NULL, 0, 1, 1, 1, NULL, &kCoordKernel, NULL},
    {"Region_TRT", "1", CARNOT_FIELD_LIST(kRegion), 1, 1, 1, NULL, &kRegionKernel, NULL},
    {"MultiscaleDeformableAttnPlugin_TRT", "1", NULL, 0, 5, 5, 1, NULL, &kMsdaKernel, NULL},
    {"MultiscaleDeformableAttnPlugin_TRT", "2", NULL, 0, 5, 5, 1, NULL, &kMsdaKernel, NULL},
    {"DisentangledAttention_TRT", "1", CARNOT_FIELD_LIST(kAttention), 3, 3, 1, NULL,
     &kAttentionKernel, NULL},
    {"DisentangledAttention_TRT", "2", CARNOT_FIELD_LIST(kAttention), 3, 3, 1, NULL,
     &kAttentionKernel, NULL},
};
const carnot_plugin_builtins carnot_plugins_vision = CARNOT_BUILTINS(kRows);
