// Layers of detectors: priors and detections of SSD, regions of Faster R-CNN and YOLO. Source:
// prior_box_layer and detection_output_layer of SSD, roi_pooling_layer of Fast R-CNN,
// region_layer of YOLO's ports.
#include <math.h>

#include "import/caffe/handlers.h"
#include "plugin/front.h"

// ---- PriorBox ----

enum { kMostPriors = 256 };

// 1, then the ratios given that differ from those before, each followed by its inverse with flip.
static int prior_ratios(caffe_import* n, float* out) {
  const caffe_float_list given = caffe_floats(n->fields, "aspect_ratio");
  const bool flip = caffe_int(n->fields, "flip", 1) != 0;
  int count = 0;
  out[count++] = 1;
  for (size_t i = 0; i < given.count && count + 2 < kMostPriors; i++) {
    bool there = !(given.items[i] > 0);
    for (int k = 0; k < count; k++) there |= fabsf(given.items[i] - out[k]) < 1e-6f;
    if (there) continue;
    out[count++] = given.items[i];
    if (flip) out[count++] = 1 / given.items[i];
  }
  return count;
}

// Widths and heights of the boxes at a pixel: of each least size its square, with a largest size
// the square of their mean, then the ratios.
static int prior_sizes(caffe_import* n, float* widths, float* heights) {
  float ratios[kMostPriors];
  const caffe_float_list least = caffe_floats(n->fields, "min_size"),
                         most = caffe_floats(n->fields, "max_size");
  const int ratio_count = prior_ratios(n, ratios);
  int count = 0;
  if (!least.count || (most.count && most.count != least.count)) {
    CAFFE_FAIL(n, INVALID_MODEL, "%zu min_size and %zu max_size; one or more, and none or as many",
               least.count, most.count);
    return 0;
  }
  for (size_t s = 0; s < least.count; s++) {
    for (int k = -1; k < ratio_count; k++) {
      if (k == 0 && !most.count) continue;
      if (count == kMostPriors) {
        CAFFE_FAIL(n, INVALID_MODEL, "more than %d boxes a pixel", kMostPriors);
        return 0;
      }
      const float size = k == 0 ? sqrtf(least.items[s] * most.items[s]) : least.items[s];
      const float root = k > 0 ? sqrtf(ratios[k]) : 1;
      widths[count] = size * root;
      heights[count++] = size / root;
    }
  }
  return count;
}

typedef struct prior_grid {
  int64_t h, w;
  float image[2], step[2], offset;  // height, width
} prior_grid;

static prior_grid read_grid(caffe_import* n) {
  prior_grid g = {.h = caffe_dim(n, 0, 2), .w = caffe_dim(n, 0, 3)};
  const int64_t size = caffe_int(n->fields, "img_size", 0);
  const double step = caffe_float(n->fields, "step", 0);
  const caffe_float_list offset = caffe_floats(n->fields, "offset");
  g.image[0] = (float)(size ? size : caffe_int(n->fields, "img_h", 0));
  g.image[1] = (float)(size ? size : caffe_int(n->fields, "img_w", 0));
  if (g.image[0] == 0 || g.image[1] == 0)
    g.image[0] = (float)caffe_dim(n, 1, 2), g.image[1] = (float)caffe_dim(n, 1, 3);
  g.step[0] = (float)(step > 0 ? step : caffe_float(n->fields, "step_h", 0));
  g.step[1] = (float)(step > 0 ? step : caffe_float(n->fields, "step_w", 0));
  if (g.step[0] == 0 || g.step[1] == 0)
    g.step[0] = g.image[0] / (float)g.h, g.step[1] = g.image[1] / (float)g.w;
  g.offset = offset.count ? offset.items[0] : 0.5f;
  return g;
}

static float clipped(float x, bool clip) { return clip ? fminf(fmaxf(x, 0), 1) : x; }

// [1, 2, H * W * boxes * 4]: corners in parts of the image, and variances.
static void handle_prior_box(caffe_import* n) {
  float widths[kMostPriors], heights[kMostPriors];
  caffe_rank(n, 0, 4, 4);
  caffe_rank(n, 1, 4, 4);
  const prior_grid g = read_grid(n);
  const int count = prior_sizes(n, widths, heights);
  const caffe_float_list variance = caffe_floats(n->fields, "variance");
  const bool clip = caffe_int(n->fields, "clip", 0) != 0;
  if (variance.count > 1 && variance.count != 4)
    CAFFE_FAIL(n, INVALID_MODEL, "%zu variance; none, 1 or 4 are required", variance.count);
  if (g.h > CAFFE_MOST_SIZE || g.w > CAFFE_MOST_SIZE || g.h * g.w > (1 << 24) / kMostPriors)
    CAFFE_FAIL(n, OUT_OF_RANGE, "%lld x %lld pixels; at most %d are supported", (long long)g.h,
               (long long)g.w, (1 << 24) / kMostPriors);
  if (n->node.status) return;
  const int64_t numbers = g.h * g.w * count * 4, dims[3] = {1, 2, numbers};
  float* data = carnot_arena_alloc(&n->importer->state.arena, (size_t)numbers * 2, sizeof(float));
  if (!import_has_memory(&n->node)) return;
  float* at = data;
  for (int64_t p = 0; p < g.h * g.w; p++) {
    const float x = ((float)(p % g.w) + g.offset) * g.step[1],
                y = ((float)(p / g.w) + g.offset) * g.step[0];
    for (int k = 0; k < count; k++) {
      *at++ = clipped((x - widths[k] / 2) / g.image[1], clip);
      *at++ = clipped((y - heights[k] / 2) / g.image[0], clip);
      *at++ = clipped((x + widths[k] / 2) / g.image[1], clip);
      *at++ = clipped((y + heights[k] / 2) / g.image[0], clip);
    }
  }
  for (int64_t i = 0; i < numbers; i++)
    *at++ = variance.count ? variance.items[variance.count == 1 ? 0 : i % 4] : 0.1f;
  n->outputs[0] = caffe_floats_constant(n, data, dims, 3);
}

// ---- plugins ----

static void add_plugin(caffe_import* n, const char* name, const carnot_plugin_field* fields,
                       int count, carnot_value* const* inputs, int input_count,
                       carnot_value** outputs, int output_count) {
  const carnot_plugin_entry* entry = carnot_registry_lookup(name, "1", "");
  if (!entry) CAFFE_FAIL(n, INTERNAL, "plugin %s is not registered", name);
  if (!n->node.status)
    n->node.status = carnot_plugin_add(n->node.block, entry, n->node.name, fields, count, inputs,
                                       input_count, outputs, output_count);
}

// ---- DetectionOutput ----

static carnot_value* number(caffe_import* n, double value) {
  return import_number_of(&n->node, CARNOT_DTYPE_F32, value);
}

// Of [N, 1, K, 7] the detections, [1, 1, count, 7]; where there is none, a line of -1 behind its
// number for each image.
static carnot_value* found_only(caffe_import* n, carnot_value* all, int64_t images, int64_t keep) {
  const int64_t flat[2] = {-1, 7}, one[1] = {-1}, last[1] = {0};
  carnot_value* lines = import_reshape_to(&n->node, all, flat, 2);
  carnot_value* label = import_reshape_to(&n->node, import_slice(&n->node, lines, 1, 1, 2), one, 1);
  carnot_value* found = import_binary(&n->node, CARNOT_FN_GREATER_EQUAL, label, number(n, 0));
  carnot_value* count =
      import_reduce(&n->node, "sum", import_cast(&n->node, found, CARNOT_DTYPE_F32), last, 1);
  carnot_value* none = import_binary(&n->node, CARNOT_FN_EQUAL, count, number(n, 0));
  float* firsts =
      carnot_arena_alloc(&n->importer->state.arena, (size_t)(images * keep), sizeof(float));
  if (!import_has_memory(&n->node)) return NULL;
  for (int64_t i = 0; i < images; i++) firsts[i * keep] = 1;
  const int64_t line_count = images * keep;
  carnot_value* first =
      import_cast(&n->node, caffe_floats_constant(n, firsts, &line_count, 1), CARNOT_DTYPE_BOOL);
  carnot_value* stays = import_binary(&n->node, CARNOT_FN_OR, found,
                                      import_binary(&n->node, CARNOT_FN_AND, first, none));
  carnot_value* index =
      import_reshape_to(&n->node, import_op(&n->node, CARNOT_OP_NON_ZERO, NULL, 1, stays), one, 1);
  // The lines that stand for no detection hold -1 but for the image.
  carnot_value* image = import_slice(&n->node, lines, 1, 0, 1);
  carnot_value* rest = import_ternary(&n->node, CARNOT_FN_SELECT,
                                      import_unsqueeze(&n->node, found, (int64_t[]){1}, 1),
                                      import_slice(&n->node, lines, 1, 1, 7), number(n, -1));
  carnot_value* parts[2] = {image, rest};
  carnot_value* chosen = import_gather(&n->node, import_concat(&n->node, 1, parts, 2), index, 0);
  return import_unsqueeze(&n->node, chosen, (int64_t[]){0, 1}, 2);
}

static void handle_detection(caffe_import* n) {
  const caffe_fields nms = caffe_fields_in(n->fields, "nms_param");
  const int64_t classes = caffe_positive(n, "num_classes", 1 << 20);
  const int64_t images = caffe_dim(n, 0, 0);
  const bool shared = caffe_int(n->fields, "share_location", 1) != 0;
  if (n->input_count != 3 || caffe_rank(n, 2, 3, 4) < 3) return;
  const int64_t boxes = caffe_dim(n, 2, 2) / 4;
  if (caffe_float(nms, "eta", 1) != 1)
    CAFFE_FAIL(n, UNSUPPORTED, "nms_param.eta is %g; 1 is supported", caffe_float(nms, "eta", 1));
  int64_t keep = caffe_int(n->fields, "keep_top_k", -1);
  if (keep <= 0 || keep > boxes * classes) keep = boxes * classes;
  if (keep < 1 || keep > 1 << 24 || images > (1 << 26) / keep)
    CAFFE_FAIL(n, INVALID_MODEL, "%lld boxes of %lld classes", (long long)boxes,
               (long long)classes);
  if (n->node.status) return;
  const int32_t numbers[] = {shared,
                             caffe_int(n->fields, "variance_encoded_in_target", 0) != 0,
                             (int32_t)caffe_int(n->fields, "background_label_id", 0),
                             (int32_t)classes,
                             (int32_t)caffe_int(nms, "top_k", -1),
                             (int32_t)keep,
                             (int32_t)caffe_int(n->fields, "code_type", 1) - 1,
                             0};
  static const int32_t kOrder[] = {0, 1, 2};
  // Without a threshold every score counts.
  const float threshold = (float)caffe_float(n->fields, "confidence_threshold", -3.4e38),
              overlap = (float)caffe_float(nms, "nms_threshold", 0.3);
  static const char* const kNames[] = {"shareLocation",
                                       "varianceEncodedInTarget",
                                       "backgroundLabelId",
                                       "numClasses",
                                       "topK",
                                       "keepTopK",
                                       "codeType",
                                       "clipBoxes"};
  carnot_plugin_field fields[11];
  for (int i = 0; i < 8; i++)
    fields[i] = (carnot_plugin_field){kNames[i], &numbers[i], CARNOT_FIELD_INT32, 1};
  fields[8] = (carnot_plugin_field){"inputOrder", kOrder, CARNOT_FIELD_INT32, 3};
  fields[9] = (carnot_plugin_field){"confidenceThreshold", &threshold, CARNOT_FIELD_FLOAT32, 1};
  fields[10] = (carnot_plugin_field){"nmsThreshold", &overlap, CARNOT_FIELD_FLOAT32, 1};
  carnot_value* outputs[2] = {NULL, NULL};
  add_plugin(n, "NMS_TRT", fields, 11, n->inputs, 3, outputs, 2);
  if (!n->node.status) n->outputs[0] = found_only(n, outputs[0], images, keep);
}

// ---- regions ----

static void handle_roi_pooling(caffe_import* n) {
  const int64_t pooled[2] = {caffe_positive(n, "pooled_h", 4096),
                             caffe_positive(n, "pooled_w", 4096)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->node.arena, "pooled_shape", pooled, 2);
  carnot_attrs_set_float(&attrs, n->node.arena, "spatial_scale",
                         caffe_float(n->fields, "spatial_scale", 1));
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_MAX_ROI_POOL, &attrs, 2, n->inputs[0], n->inputs[1]);
}

static void handle_region(caffe_import* n) {
  const bool newer = caffe_has(n->fields, "num_classes");
  const int32_t numbers[] = {(int32_t)caffe_int(n->fields, "num", 5),
                             (int32_t)caffe_int(n->fields, "coords", 4),
                             (int32_t)caffe_int(n->fields, newer ? "num_classes" : "classes", 20)};
  const carnot_plugin_field fields[] = {{"num", &numbers[0], CARNOT_FIELD_INT32, 1},
                                        {"coords", &numbers[1], CARNOT_FIELD_INT32, 1},
                                        {"classes", &numbers[2], CARNOT_FIELD_INT32, 1}};
  caffe_rank(n, 0, 4, 4);
  if (!n->node.status) add_plugin(n, "Region_TRT", fields, 3, n->inputs, 1, n->outputs, 1);
}

static const caffe_row kRows[] = {
    {"PriorBox", handle_prior_box, "prior_box_param", 2, 2, 0, NULL},
    {"DetectionOutput", handle_detection, "detection_output_param", 3, 3, 0,
     "nms_param.eta other than 1; a fourth bottom"},
    {"ROIPooling", handle_roi_pooling, "roi_pooling_param", 2, 2, 0, NULL},
    {"Region", handle_region, "region_param", 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_detection = CAFFE_ROW_TABLE(kRows);
