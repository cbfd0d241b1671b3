// EfficientNMS and its forms. Source: TensorRT efficientNMSPlugin.
#include "plugin/suppress.h"

// ---- EfficientNMS: boxes [N,B,(C,)4], scores [N,B,C], anchors → number, boxes, scores, classes
// ----

typedef struct efficient {
  bool decode, centers, sigmoid, agnostic, clip, indices;
  int64_t most, most_of_class, boxes, classes, box_classes, anchor_images;
  int32_t background;
  float threshold, iou;
} efficient;

enum { kMostSelected = 4096 };

static efficient efficient_of(const carnot_fields* f, const carnot_plugin_run* run) {
  const carnot_dims *boxes = &run->inputs[0].dims, *scores = &run->inputs[1].dims;
  efficient e = {
      .decode = run->input_count > 2,
      .centers = carnot_fields_int(f, "box_coding", 0) != 0 ||
                 carnot_fields_int(f, "center_point_box", 0) != 0,
      .sigmoid = carnot_fields_int(f, "score_activation", 0) != 0,
      .agnostic = carnot_fields_int(f, "class_agnostic", 0) != 0,
      .clip = carnot_fields_int(f, "clip_boxes", 0) != 0,
      .most_of_class = carnot_fields_int(f, "max_output_boxes_per_class",
                                         carnot_fields_int(f, "max_output_size_per_class", -1)),
      .boxes = boxes->d[1],
      .classes = scores->d[2],
      .box_classes = boxes->rank == 4 ? boxes->d[2] : 1,
      .background = (int32_t)carnot_fields_int(f, "background_class", -1),
      .threshold = (float)carnot_fields_float(f, "score_threshold", 0.5),
      .iou = (float)carnot_fields_float(f, "iou_threshold", 0.5)};
  e.anchor_images = e.decode ? run->inputs[2].dims.d[0] : 1;
  e.most = run->output_count == 1 ? e.most_of_class : run->outputs[1].dims.d[1];
  if (e.sigmoid) e.threshold = e.threshold <= 0 ? -INFINITY : logf(e.threshold / (1 - e.threshold));
  return e;
}

// A box in corners; with anchors it is their correction.
static box efficient_box(const efficient* e, const float* b, const float* anchor) {
  float v[4] = {b[0], b[1], b[2], b[3]};
  if (anchor && e->centers) {
    v[0] = b[0] * anchor[2] + anchor[0];
    v[1] = b[1] * anchor[3] + anchor[1];
    v[2] = anchor[2] * expf(b[2]);
    v[3] = anchor[3] * expf(b[3]);
  } else if (anchor) {
    box from = ordered((box){b[0], b[1], b[2], b[3]});
    box to = ordered((box){anchor[0], anchor[1], anchor[2], anchor[3]});
    return (box){from.x0 + to.x0, from.y0 + to.y0, from.x1 + to.x1, from.y1 + to.y1};
  }
  if (!e->centers) return (box){v[0], v[1], v[2], v[3]};
  return (box){v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
}

static int64_t efficient_collect(const efficient* e, const carnot_plugin_run* run, int64_t image,
                                 candidate* out) {
  const float* scores = (const float*)run->inputs[1].data + image * e->boxes * e->classes;
  const float* boxes = (const float*)run->inputs[0].data + image * e->boxes * e->box_classes * 4;
  const float* anchors = e->decode ? (const float*)run->inputs[2].data +
                                         (e->anchor_images > 1 ? image : 0) * e->boxes * 4
                                   : NULL;
  int64_t count = 0;
  for (int64_t i = 0; i < e->boxes * e->classes; i++) {
    int32_t label = (int32_t)(i % e->classes);
    if (!(scores[i] >= e->threshold) || label == e->background) continue;
    int64_t at = i / e->classes;
    const float* b = boxes + (at * e->box_classes + (e->box_classes > 1 ? label : 0)) * 4;
    out[count++] = (candidate){scores[i], label, (int32_t)at,
                               efficient_box(e, b, anchors ? anchors + at * 4 : NULL)};
  }
  qsort(out, (size_t)count, sizeof(*out), by_score);
  return count < kMostSelected ? count : kMostSelected;
}

// Keeps the best first; returns how many, moved to the front.
static int64_t efficient_select(const efficient* e, candidate* list, int64_t count) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count && kept < e->most; i++) {
    int64_t same = 0;
    bool keep = true;
    for (int64_t k = 0; k < kept && keep; k++) {
      same += list[k].label == list[i].label;
      keep = !((e->agnostic || list[k].label == list[i].label) &&
               overlap(list[k].at, list[i].at, 0) >= e->iou);
    }
    if (keep && (e->most_of_class < 0 || same < e->most_of_class)) list[kept++] = list[i];
  }
  return kept;
}

static void efficient_write(const efficient* e, const carnot_plugin_run* run, int64_t image,
                            const candidate* list, int64_t count) {
  output_ints(run, 0)[image] = (int32_t)count;
  for (int64_t i = 0; i < e->most; i++) {
    int64_t at = image * e->most + i;
    bool there = i < count;
    box b = there ? list[i].at : (box){0, 0, 0, 0};
    write_box(output_floats(run, 1) + at * 4, e->clip ? clipped(b) : b);
    output_floats(run, 2)[at] = !there ? 0 : e->sigmoid ? sigmoid(list[i].score) : list[i].score;
    output_ints(run, 3)[at] = there ? list[i].label : 0;
  }
}

// Fails where the dimensions of boxes and scores do not fit.
static bool efficient_check(const efficient* e, const carnot_plugin_run* run,
                            carnot_plugin_error* error) {
  const carnot_dims *b = &run->inputs[0].dims, *s = &run->inputs[1].dims;
  bool fits = b->d[0] == s->d[0] && b->d[1] == s->d[1] && b->d[b->rank - 1] == 4 &&
              (e->box_classes == 1 || e->box_classes == e->classes);
  if (e->decode) {
    const carnot_dims* a = &run->inputs[2].dims;
    fits = fits && a->rank == 3 && a->d[1] == e->boxes && a->d[2] == 4 &&
           (a->d[0] == 1 || a->d[0] == b->d[0]);
  }
  return fits || carnot_plugin_refuse(error,
                                      "boxes must be [N,B,4] or [N,B,C,4], scores [N,B,C], anchors "
                                      "[1,B,4] or [N,B,4]");
}

static bool efficient_nms(const carnot_fields* fields, const carnot_plugin_run* run,
                          carnot_plugin_error* error) {
  efficient e = efficient_of(fields, run);
  if (!efficient_check(&e, run, error)) return false;
  for (int64_t n = 0; n < run->inputs[0].dims.d[0]; n++) {
    int64_t count = efficient_collect(&e, run, n, run->workspace);
    count = efficient_select(&e, run->workspace, count);
    efficient_write(&e, run, n, run->workspace, count);
  }
  return true;
}

static bool efficient_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                           int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                           carnot_plugin_error* error) {
  (void)input_count;
  int64_t most = carnot_fields_int(fields, "max_output_boxes",
                                   carnot_fields_int(fields, "max_total_size", 100));
  if ((inputs[0].rank != 3 && inputs[0].rank != 4) || inputs[1].rank != 3)
    return carnot_plugin_refuse(error, "boxes of rank %d and scores of rank %d, must be 3 or 4, 3",
                                inputs[0].rank, inputs[1].rank);
  if (most < 1 || most > kMostSelected)
    return carnot_plugin_refuse(error, "%lld output boxes, must be 1 to %d", (long long)most,
                                kMostSelected);
  carnot_expr batch = inputs[0].dims[0];
  outputs[0] = shape_of(e, batch, 2, 1, 0);
  outputs[1] = shape_of(e, batch, 3, most, 4);
  outputs[2] = outputs[3] = shape_of(e, batch, 2, most, 0);
  // Padded by class, there are no more than the classes give.
  int64_t of_class = carnot_fields_int(fields, "max_output_size_per_class", -1);
  if (carnot_fields_int(fields, "pad_per_class", 0) && of_class > 0)
    outputs[1].dims[1] = outputs[2].dims[1] = outputs[3].dims[1] = e->operation(
        e->host, CARNOT_EXPR_MIN, outputs[1].dims[1],
        e->operation(e->host, CARNOT_EXPR_PROD, inputs[1].dims[2], e->constant(e->host, of_class)));
  return true;
}

// The form whose number of detections has no axis of its own.
static bool implicit_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                          int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                          carnot_plugin_error* error) {
  if (!efficient_dims(fields, inputs, input_count, outputs, e, error)) return false;
  outputs[0].rank = 1;
  return true;
}

// The form of ONNX: rows of image, class and box; those that are not filled repeat the last.
static bool onnx_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                      int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                      carnot_plugin_error* error) {
  (void)input_count;
  int64_t most = carnot_fields_int(fields, "max_output_boxes_per_class", 100);
  if (inputs[0].rank != 3 || inputs[1].rank != 3 || most < 1)
    return carnot_plugin_refuse(error, "inputs of rank %d and %d, must be 3", inputs[0].rank,
                                inputs[1].rank);
  carnot_expr rows =
      e->operation(e->host, CARNOT_EXPR_PROD, inputs[0].dims[0], e->constant(e->host, most));
  outputs[0] = (carnot_plugin_shape){.rank = 2, .dims = {rows, e->constant(e->host, 3)}};
  return true;
}

static bool onnx_nms(const carnot_fields* fields, const carnot_plugin_run* run,
                     carnot_plugin_error* error) {
  efficient e = efficient_of(fields, run);
  if (!efficient_check(&e, run, error)) return false;
  e.most = carnot_fields_int(fields, "max_output_boxes_per_class", 100);
  int32_t* dst = run->outputs[0].data;
  int64_t rows = run->outputs[0].dims.d[0], at = 0;
  for (int64_t n = 0; n < run->inputs[0].dims.d[0]; n++) {
    candidate* list = run->workspace;
    int64_t count = efficient_select(&e, list, efficient_collect(&e, run, n, list));
    for (int64_t i = 0; i < count; i++, at++) {
      dst[at * 3] = (int32_t)n;
      dst[at * 3 + 1] = list[i].label;
      dst[at * 3 + 2] = list[i].index;
    }
  }
  for (int64_t i = at; i < rows; i++)
    for (int k = 0; k < 3; k++) dst[i * 3 + k] = at ? dst[(at - 1) * 3 + k] : 0;
  return true;
}

// ---- rows ----

static const carnot_plugin_field kEfficient[] = {
    CARNOT_FIELD("score_threshold", FLOAT32), CARNOT_FIELD("iou_threshold", FLOAT32),
    CARNOT_FIELD("max_output_boxes", INT32),  CARNOT_FIELD("background_class", INT32),
    CARNOT_FIELD("score_activation", INT32),  CARNOT_FIELD("class_agnostic", INT32),
    CARNOT_FIELD("box_coding", INT32)};
static const carnot_plugin_field kTf[] = {CARNOT_FIELD("max_output_size_per_class", INT32),
                                          CARNOT_FIELD("max_total_size", INT32),
                                          CARNOT_FIELD("iou_threshold", FLOAT32),
                                          CARNOT_FIELD("score_threshold", FLOAT32),
                                          CARNOT_FIELD("pad_per_class", INT32),
                                          CARNOT_FIELD("clip_boxes", INT32)};
static const carnot_plugin_field kOnnx[] = {
    CARNOT_FIELD("score_threshold", FLOAT32), CARNOT_FIELD("iou_threshold", FLOAT32),
    CARNOT_FIELD("max_output_boxes_per_class", INT32), CARNOT_FIELD("center_point_box", INT32)};
static const carnot_plugin_kernel kEfficientKernel = {"f iffi", efficient_dims, efficient_nms,
                                                      candidates_bytes};
static const carnot_plugin_kernel kImplicitKernel = {"f iffi", implicit_dims, efficient_nms,
                                                     candidates_bytes};
static const carnot_plugin_kernel kOnnxKernel = {"f i", onnx_dims, onnx_nms, candidates_bytes};

#define ROW(name, fields, min, max, outputs, kernel) \
  { name, "1", CARNOT_FIELD_LIST(fields), min, max, outputs, NULL, kernel, NULL }
static const carnot_plugin_builtin kRows[] = {
    ROW("EfficientNMS_TRT", kEfficient, 2, 3, 4, &kEfficientKernel),
    ROW("EfficientNMS_Explicit_TF_TRT", kTf, 2, 2, 4, &kEfficientKernel),
    ROW("EfficientNMS_Implicit_TF_TRT", kTf, 2, 2, 4, &kImplicitKernel),
    ROW("EfficientNMS_ONNX_TRT", kOnnx, 2, 2, 1, &kOnnxKernel),
};
const carnot_plugin_builtins carnot_plugins_detection = CARNOT_BUILTINS(kRows);
