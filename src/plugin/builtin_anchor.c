// Prior boxes of SSD: [1,2,boxes*4,1], corners in the first channel and variances in the second.
// Source: TensorRT priorBoxPlugin, gridAnchorPlugin.
#include <math.h>

#include "plugin/builtin.h"

enum { kMostRatios = 256 };

static float clip01(float x, bool clip) { return clip ? fminf(fmaxf(x, 0), 1) : x; }

static void write_box(float* dst, float x, float y, float width, float height, bool clip) {
  dst[0] = clip01(x - width / 2, clip);
  dst[1] = clip01(y - height / 2, clip);
  dst[2] = clip01(x + width / 2, clip);
  dst[3] = clip01(y + height / 2, clip);
}

static void write_variances(const carnot_fields* fields, float* dst, int64_t boxes) {
  int32_t given = carnot_fields_length(fields, "variance");
  for (int64_t i = 0; i < boxes * 4; i++)
    dst[i] = (float)carnot_fields_at(fields, "variance", given == 1 ? 0 : (int32_t)(i % 4));
}

// ---- PriorBox: a box a pixel of feature map 0 for each size and ratio, in parts of image 1 ----

// 1, then the ratios given that differ from those before, each followed by its inverse with flip.
static int prior_ratios(const carnot_fields* fields, float* out) {
  int count = 0;
  out[count++] = 1;
  int32_t given = carnot_fields_length(fields, "aspectRatios");
  bool flip = carnot_fields_int(fields, "flip", 1) != 0;
  for (int32_t i = 0; i < given && count + 2 < kMostRatios; i++) {
    float ratio = (float)carnot_fields_at(fields, "aspectRatios", i);
    bool there = false;
    for (int k = 0; k < count; k++) there |= fabsf(ratio - out[k]) < 1e-6f;
    if (there || !(ratio > 0)) continue;
    out[count++] = ratio;
    if (flip) out[count++] = 1 / ratio;
  }
  return count;
}

// Widths and heights of the boxes at a pixel, in pixels of the image.
static int prior_sizes(const carnot_fields* fields, float* widths, float* heights) {
  float ratios[kMostRatios];
  int ratio_count = prior_ratios(fields, ratios), count = 0;
  int32_t mins = carnot_fields_length(fields, "minSize"),
          maxs = carnot_fields_length(fields, "maxSize");
  for (int32_t s = 0; s < mins; s++) {
    float least = (float)carnot_fields_at(fields, "minSize", s);
    for (int k = -1; k < ratio_count; k++) {
      // Behind the square of the least size comes, where there is one, that of the mean size.
      if (k == 0 && maxs == 0) continue;
      if (count == kMostRatios) return count;
      float size = k == 0 ? sqrtf(least * (float)carnot_fields_at(fields, "maxSize", s)) : least;
      float root = k > 0 ? sqrtf(ratios[k]) : 1;
      widths[count] = size * root;
      heights[count++] = size / root;
    }
  }
  return count;
}

static bool prior_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                       int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                       carnot_plugin_error* error) {
  (void)input_count;
  float sizes[2][kMostRatios];
  int32_t mins = carnot_fields_length(fields, "minSize"),
          maxs = carnot_fields_length(fields, "maxSize");
  int count = prior_sizes(fields, sizes[0], sizes[1]);
  if (inputs[0].rank != 4 || inputs[1].rank != 4)
    return carnot_plugin_refuse(error, "inputs of rank %d and %d, both must be [N,C,H,W]",
                                inputs[0].rank, inputs[1].rank);
  if (count < 1 || count == kMostRatios || (maxs && maxs != mins))
    return carnot_plugin_refuse(error, "%d minSize and %d maxSize give %d boxes", mins, maxs,
                                count);
  carnot_expr pixels =
      e->operation(e->host, CARNOT_EXPR_PROD, inputs[0].dims[2], inputs[0].dims[3]);
  outputs[0] = (carnot_plugin_shape){
      .rank = 4,
      .dims = {e->constant(e->host, 1), e->constant(e->host, 2),
               e->operation(e->host, CARNOT_EXPR_PROD, pixels, e->constant(e->host, 4 * count)),
               e->constant(e->host, 1)}};
  return true;
}

static bool prior_boxes(const carnot_fields* fields, const carnot_plugin_run* run,
                        carnot_plugin_error* error) {
  (void)error;
  float widths[kMostRatios], heights[kMostRatios];
  int count = prior_sizes(fields, widths, heights);
  const carnot_dims *map = &run->inputs[0].dims, *image = &run->inputs[1].dims;
  int64_t h = map->d[2], w = map->d[3];
  float image_h = (float)carnot_fields_float(fields, "imgH", 0),
        image_w = (float)carnot_fields_float(fields, "imgW", 0);
  if (image_h == 0 || image_w == 0) {
    image_h = (float)image->d[2];
    image_w = (float)image->d[3];
  }
  float step_h = (float)carnot_fields_float(fields, "stepH", 0),
        step_w = (float)carnot_fields_float(fields, "stepW", 0);
  if (step_h == 0 || step_w == 0) {
    step_h = image_h / (float)h;
    step_w = image_w / (float)w;
  }
  float offset = (float)carnot_fields_float(fields, "offset", 0.5);
  bool clip = carnot_fields_int(fields, "clip", 0) != 0;
  float* dst = run->outputs[0].data;
  for (int64_t i = 0; i < h * w; i++)
    for (int k = 0; k < count; k++, dst += 4)
      write_box(dst, ((float)(i % w) + offset) * step_w / image_w,
                ((float)(i / w) + offset) * step_h / image_h, widths[k] / image_w,
                heights[k] / image_h, clip);
  write_variances(fields, dst, h * w * count);
  return true;
}

// ---- GridAnchor: for each of numLayers feature maps its boxes, in parts of the image ----

static int32_t grid_layers(const carnot_fields* fields) {
  int64_t layers = carnot_fields_int(fields, "numLayers", 1);
  return layers >= 1 && layers <= 32 ? (int32_t)layers : 1;
}

// Height and width of a layer's map: two numbers a layer, or one for squares.
static void grid_map(const carnot_fields* fields, int32_t layer, int64_t* h, int64_t* w) {
  bool pairs = carnot_fields_length(fields, "featureMapShapes") == 2 * grid_layers(fields);
  *h = carnot_fields_int_at(fields, "featureMapShapes", pairs ? 2 * layer : layer);
  *w = pairs ? carnot_fields_int_at(fields, "featureMapShapes", 2 * layer + 1) : *h;
}

static int grid_sizes(const carnot_fields* fields, int32_t layer, float* widths, float* heights) {
  int32_t layers = grid_layers(fields), given = carnot_fields_length(fields, "aspectRatios");
  float least = (float)carnot_fields_float(fields, "minSize", 0.2),
        most = (float)carnot_fields_float(fields, "maxSize", 0.95);
  float step = layers > 1 ? (most - least) / (float)(layers - 1) : 0;
  float scale = least + step * (float)layer;
  float next = layer + 1 == layers ? 1 : least + step * (float)(layer + 1);
  int count = 0;
  for (int32_t i = 0; i < given && count < kMostRatios - 1; i++) {
    float root = sqrtf((float)carnot_fields_at(fields, "aspectRatios", i));
    float size = layer == 0 && i == 0 ? 0.1f : scale;
    widths[count] = size * root;
    heights[count++] = size / root;
    // The first layer has three boxes.
    if (layer == 0 && count == 3) return count;
  }
  if (layer > 0) widths[count] = heights[count] = sqrtf(scale * next), count++;
  return count;
}

static bool grid_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                      int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                      carnot_plugin_error* error) {
  (void)inputs, (void)input_count;
  int32_t layers = grid_layers(fields), maps = carnot_fields_length(fields, "featureMapShapes");
  if ((maps != layers && maps != 2 * layers) || carnot_fields_length(fields, "aspectRatios") < 1)
    return carnot_plugin_refuse(error, "%d featureMapShapes for %d layers, %d aspectRatios", maps,
                                layers, carnot_fields_length(fields, "aspectRatios"));
  for (int32_t l = 0; l < layers; l++) {
    float sizes[2][kMostRatios];
    int64_t h, w;
    grid_map(fields, l, &h, &w);
    if (h < 1 || w < 1 || h > 65536 || w > 65536)
      return carnot_plugin_refuse(error, "feature map %d is %lld x %lld", l, (long long)h,
                                  (long long)w);
    int64_t numbers = h * w * grid_sizes(fields, l, sizes[0], sizes[1]) * 4;
    outputs[l] =
        (carnot_plugin_shape){.rank = 4,
                              .dims = {e->constant(e->host, 1), e->constant(e->host, 2),
                                       e->constant(e->host, numbers), e->constant(e->host, 1)}};
  }
  return true;
}

static bool grid_boxes(const carnot_fields* fields, const carnot_plugin_run* run,
                       carnot_plugin_error* error) {
  (void)error;
  for (int32_t l = 0; l < run->output_count; l++) {
    float widths[kMostRatios], heights[kMostRatios];
    int64_t h, w;
    grid_map(fields, l, &h, &w);
    int count = grid_sizes(fields, l, widths, heights);
    float* dst = run->outputs[l].data;
    for (int64_t i = 0; i < h * w; i++)
      for (int k = 0; k < count; k++, dst += 4)
        write_box(dst, ((float)(i % w) + 0.5f) / (float)w, ((float)(i / w) + 0.5f) / (float)h,
                  widths[k], heights[k], false);
    write_variances(fields, dst, h * w * count);
  }
  return true;
}

static const carnot_plugin_field kPrior[] = {
    CARNOT_FIELD("minSize", FLOAT32),      CARNOT_FIELD("maxSize", FLOAT32),
    CARNOT_FIELD("aspectRatios", FLOAT32), CARNOT_FIELD("flip", INT32),
    CARNOT_FIELD("clip", INT32),           CARNOT_FIELD("variance", FLOAT32),
    CARNOT_FIELD("imgH", INT32),           CARNOT_FIELD("imgW", INT32),
    CARNOT_FIELD("stepH", FLOAT32),        CARNOT_FIELD("stepW", FLOAT32),
    CARNOT_FIELD("offset", FLOAT32)};
static const carnot_plugin_field kGrid[] = {
    CARNOT_FIELD("minSize", FLOAT32),      CARNOT_FIELD("maxSize", FLOAT32),
    CARNOT_FIELD("aspectRatios", FLOAT32), CARNOT_FIELD("featureMapShapes", INT32),
    CARNOT_FIELD("variance", FLOAT32),     CARNOT_FIELD("numLayers", INT32)};
static const carnot_plugin_kernel kPriorKernel = {"f f", prior_dims, prior_boxes, NULL};
static const carnot_plugin_kernel kGridKernel = {"f f", grid_dims, grid_boxes, NULL};

static const carnot_plugin_builtin kRows[] = {
    {"PriorBox_TRT", "1", CARNOT_FIELD_LIST(kPrior), 2, 2, 1, NULL, &kPriorKernel, NULL},
    {"GridAnchor_TRT", "1", CARNOT_FIELD_LIST(kGrid), 0, 0, 1, NULL, &kGridKernel, grid_layers},
    {"GridAnchorRect_TRT", "1", CARNOT_FIELD_LIST(kGrid), 0, 0, 1, NULL, &kGridKernel, grid_layers},
};
const carnot_plugin_builtins carnot_plugins_anchor = CARNOT_BUILTINS(kRows);
