// Non-maximum suppression plugins. Ties of scores go to the lower index. Source: TensorRT
// efficientNMSPlugin, batchedNMSPlugin, nmsPlugin.
#include <math.h>
#include <stdlib.h>

#include "plugin/builtin.h"

// ---- what they share ----

typedef struct box {
  float x0, y0, x1, y1;
} box;

// A scored box of a class; |index| is its place among the boxes of the image.
typedef struct candidate {
  float score;
  int32_t label, index;
  box at;
} candidate;

static int by_score(const void* a, const void* b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return (x->label > y->label) - (x->label < y->label);
}

static box ordered(box b) {
  return (box){fminf(b.x0, b.x1), fminf(b.y0, b.y1), fmaxf(b.x0, b.x1), fmaxf(b.y0, b.y1)};
}

// Intersection over union of boxes in any order of corners; |extra| is added to widths and heights.
static float overlap(box a, box b, float extra) {
  a = ordered(a);
  b = ordered(b);
  float w = fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0) + extra;
  float h = fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0) + extra;
  if (!(w > 0 && h > 0)) return 0;
  float sum = (a.x1 - a.x0 + extra) * (a.y1 - a.y0 + extra) +
              (b.x1 - b.x0 + extra) * (b.y1 - b.y0 + extra) - w * h;
  return sum > 0 ? w * h / sum : 0;
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static int32_t* output_ints(const carnot_plugin_run* run, int i) { return run->outputs[i].data; }
static float* output_floats(const carnot_plugin_run* run, int i) { return run->outputs[i].data; }

static carnot_plugin_shape shape_of(const carnot_exprs* e, carnot_expr batch, int rank, int64_t b,
                                    int64_t c) {
  return (carnot_plugin_shape){.rank = rank,
                               .dims = {batch, e->constant(e->host, b), e->constant(e->host, c)}};
}

static void write_box(float* dst, box b) {
  dst[0] = b.x0;
  dst[1] = b.y0;
  dst[2] = b.x1;
  dst[3] = b.y1;
}

static box clipped(box b) {
  return (box){fminf(fmaxf(b.x0, 0), 1), fminf(fmaxf(b.y0, 0), 1), fminf(fmaxf(b.x1, 0), 1),
               fminf(fmaxf(b.y1, 0), 1)};
}

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

static size_t candidates_bytes(const carnot_fields* fields, const carnot_plugin_tensor* inputs,
                               int32_t input_count) {
  (void)fields, (void)input_count;
  const carnot_dims* s = &inputs[1].dims;
  return (size_t)(s->d[1] * s->d[2] + 1) * sizeof(candidate);
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

// ---- suppression class by class, then the best of all classes (BatchedNMS, SSD) ----

typedef struct per_class {
  int64_t top_k, keep, boxes, classes;
  int32_t background;
  float threshold, iou, extra;
} per_class;

static per_class per_class_of(const carnot_fields* f, const char* threshold, const char* iou,
                              int64_t boxes) {
  bool wide = !carnot_fields_int(f, "isNormalized", 1) && carnot_fields_int(f, "caffeSemantics", 1);
  int64_t top_k = carnot_fields_int(f, "topK", -1);
  return (per_class){.top_k = top_k > 0 && top_k < boxes ? top_k : boxes,
                     .keep = carnot_fields_int(f, "keepTopK", 0),
                     .boxes = boxes,
                     .classes = carnot_fields_int(f, "numClasses", 0),
                     .background = (int32_t)carnot_fields_int(f, "backgroundLabelId", -1),
                     .threshold = (float)carnot_fields_float(f, threshold, 0),
                     .iou = (float)carnot_fields_float(f, iou, 0),
                     .extra = wide ? 1 : 0};
}

// Suppresses within |list| of one class; returns how many are left, at the front.
static int64_t suppress(const per_class* p, candidate* list, int64_t count) {
  qsort(list, (size_t)count, sizeof(*list), by_score);
  if (count > p->top_k) count = p->top_k;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++) {
    bool keep = true;
    for (int64_t k = 0; k < kept && keep; k++)
      keep = !(overlap(list[k].at, list[i].at, p->extra) > p->iou);
    if (keep) list[kept++] = list[i];
  }
  return kept;
}

// The detections of one image, best first, in |list|. box_at(context, class, box).
static int64_t detect(const per_class* p, const float* scores, bool with_sigmoid,
                      box (*box_at)(const void* context, int64_t label, int64_t index),
                      const void* context, candidate* list) {
  int64_t count = 0;
  for (int64_t c = 0; c < p->classes; c++) {
    if (c == p->background) continue;
    int64_t here = 0;
    for (int64_t i = 0; i < p->boxes; i++) {
      float score = scores[i * p->classes + c];
      if (with_sigmoid) score = sigmoid(score);
      if (score > p->threshold)
        list[count + here++] = (candidate){score, (int32_t)c, (int32_t)i, box_at(context, c, i)};
    }
    count += suppress(p, list + count, here);
  }
  qsort(list, (size_t)count, sizeof(*list), by_score);
  return count < p->keep ? count : p->keep;
}

typedef struct box_table {
  const float* boxes;
  int64_t classes;  // 1: shared
} box_table;

static box table_at(const void* context, int64_t label, int64_t index) {
  const box_table* t = context;
  const float* b = t->boxes + (index * t->classes + (t->classes > 1 ? label : 0)) * 4;
  return (box){b[0], b[1], b[2], b[3]};
}

static bool batched_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                         int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                         carnot_plugin_error* error) {
  (void)input_count;
  int64_t keep = carnot_fields_int(fields, "keepTopK", 0);
  if (inputs[0].rank != 4 || inputs[1].rank != 3 || keep < 1)
    return carnot_plugin_refuse(
        error, "boxes of rank %d, scores of rank %d, keepTopK %lld; must be 4, 3, at least 1",
        inputs[0].rank, inputs[1].rank, (long long)keep);
  carnot_expr batch = inputs[0].dims[0];
  outputs[0] = shape_of(e, batch, 2, 1, 0);
  outputs[1] = shape_of(e, batch, 3, keep, 4);
  outputs[2] = outputs[3] = shape_of(e, batch, 2, keep, 0);
  return true;
}

static bool batched_nms(const carnot_fields* fields, const carnot_plugin_run* run,
                        carnot_plugin_error* error) {
  const carnot_dims *b = &run->inputs[0].dims, *s = &run->inputs[1].dims;
  per_class p = per_class_of(fields, "scoreThreshold", "iouThreshold", b->d[1]);
  bool fits = b->d[0] == s->d[0] && b->d[1] == s->d[1] && b->d[3] == 4 && s->d[2] == p.classes &&
              (b->d[2] == 1 || b->d[2] == p.classes);
  if (!fits)
    return carnot_plugin_refuse(error, "boxes must be [N,B,1 or %lld,4], scores [N,B,%lld]",
                                (long long)p.classes, (long long)p.classes);
  bool clip = carnot_fields_int(fields, "clipBoxes", 1) != 0;
  for (int64_t n = 0; n < b->d[0]; n++) {
    box_table table = {(const float*)run->inputs[0].data + n * b->d[1] * b->d[2] * 4, b->d[2]};
    candidate* list = run->workspace;
    int64_t count = detect(&p, (const float*)run->inputs[1].data + n * p.boxes * p.classes, false,
                           table_at, &table, list);
    output_ints(run, 0)[n] = (int32_t)count;
    for (int64_t i = 0; i < p.keep; i++) {
      int64_t at = n * p.keep + i;
      box found = i < count ? list[i].at : (box){0, 0, 0, 0};
      write_box(output_floats(run, 1) + at * 4, clip ? clipped(found) : found);
      output_floats(run, 2)[at] = i < count ? list[i].score : 0;
      output_floats(run, 3)[at] = i < count ? (float)list[i].label : -1;
    }
  }
  return true;
}

// ---- NMS (SSD DetectionOutput): locations, scores, priors → [N,1,keepTopK,7], [N,1,1,1] ----

enum { kCorner, kCenterSize, kCornerSize, kTfCenter };

typedef struct prior_table {
  const float *locations, *priors, *variances;
  int64_t classes;
  int code;
  bool encoded;
} prior_table;

static box prior_at(const void* context, int64_t label, int64_t index) {
  const prior_table* t = context;
  const float* l = t->locations + (index * t->classes + (t->classes > 1 ? label : 0)) * 4;
  const float *p = t->priors + index * 4, *v = t->variances + index * 4;
  float s[4];
  for (int i = 0; i < 4; i++) s[i] = t->encoded && t->code != kTfCenter ? l[i] : l[i] * v[i];
  float w = p[2] - p[0], h = p[3] - p[1];
  if (t->code == kCorner) return (box){p[0] + s[0], p[1] + s[1], p[2] + s[2], p[3] + s[3]};
  if (t->code == kCornerSize)
    return (box){p[0] + s[0] * w, p[1] + s[1] * h, p[2] + s[2] * w, p[3] + s[3] * h};
  if (t->code == kTfCenter) {
    // Locations come as y, x, h, w; variances stand in the order x, y, w, h.
    s[0] = l[1] * v[0];
    s[1] = l[0] * v[1];
    s[2] = l[3] * v[2];
    s[3] = l[2] * v[3];
  }
  float x = s[0] * w + (p[0] + p[2]) / 2, y = s[1] * h + (p[1] + p[3]) / 2;
  float half_w = expf(s[2]) * w / 2, half_h = expf(s[3]) * h / 2;
  return (box){x - half_w, y - half_h, x + half_w, y + half_h};
}

static bool ssd_orders(const carnot_fields* fields, int* order) {
  bool given = carnot_fields_length(fields, "inputOrder") == 3;
  int seen = 0;
  for (int i = 0; i < 3; i++) {
    order[i] = given ? (int)carnot_fields_int_at(fields, "inputOrder", i) : i;
    if (order[i] < 0 || order[i] > 2) return false;
    seen |= 1 << order[i];
  }
  return seen == 7;
}

static bool ssd_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                     int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                     carnot_plugin_error* error) {
  int order[3];
  int64_t keep = carnot_fields_int(fields, "keepTopK", 0);
  if (input_count != 3 || !ssd_orders(fields, order))
    return carnot_plugin_refuse(error, "inputOrder must hold 0, 1 and 2");
  if (keep < 1 || carnot_fields_int(fields, "numClasses", 0) < 1)
    return carnot_plugin_refuse(error, "keepTopK and numClasses must be positive");
  carnot_expr one = e->constant(e->host, 1), batch = inputs[order[0]].dims[0];
  outputs[0] = (carnot_plugin_shape){
      .rank = 4, .dims = {batch, one, e->constant(e->host, keep), e->constant(e->host, 7)}};
  outputs[1] = (carnot_plugin_shape){.rank = 4, .dims = {batch, one, one, one}};
  return true;
}

static int64_t count_behind_batch(const carnot_plugin_tensor* t) {
  int64_t count = 1;
  for (int i = 1; i < t->dims.rank; i++) count *= t->dims.d[i];
  return count;
}

static size_t ssd_bytes(const carnot_fields* fields, const carnot_plugin_tensor* inputs,
                        int32_t input_count) {
  int order[3];
  if (input_count != 3 || !ssd_orders(fields, order)) return 0;
  return (size_t)(count_behind_batch(&inputs[order[1]]) + 1) * sizeof(candidate);
}

static bool ssd_nms(const carnot_fields* fields, const carnot_plugin_run* run,
                    carnot_plugin_error* error) {
  int order[3];
  if (!ssd_orders(fields, order)) return carnot_plugin_refuse(error, "inputOrder is wrong");
  const carnot_plugin_tensor *loc = &run->inputs[order[0]], *conf = &run->inputs[order[1]],
                             *prior = &run->inputs[order[2]];
  int64_t boxes = count_behind_batch(prior) / 8;
  per_class p = per_class_of(fields, "confidenceThreshold", "nmsThreshold", boxes);
  bool shared = carnot_fields_int(fields, "shareLocation", 1) != 0;
  prior_table table = {.classes = shared ? 1 : p.classes,
                       .code = (int)carnot_fields_int(fields, "codeType", kCenterSize),
                       .encoded = carnot_fields_int(fields, "varianceEncodedInTarget", 0) != 0};
  if (count_behind_batch(loc) != boxes * table.classes * 4 ||
      count_behind_batch(conf) != boxes * p.classes || conf->dims.d[0] != loc->dims.d[0] ||
      (prior->dims.d[0] != 1 && prior->dims.d[0] != loc->dims.d[0]) || table.code < kCorner ||
      table.code > kTfCenter)
    return carnot_plugin_refuse(
        error, "%lld locations, %lld scores and %lld priors of %lld classes do not fit together",
        (long long)count_behind_batch(loc), (long long)count_behind_batch(conf), (long long)boxes,
        (long long)p.classes);
  for (int64_t n = 0; n < loc->dims.d[0]; n++) {
    table.locations = (const float*)loc->data + n * boxes * table.classes * 4;
    table.priors = (const float*)prior->data + (prior->dims.d[0] > 1 ? n : 0) * boxes * 8;
    table.variances = table.priors + boxes * 4;
    candidate* list = run->workspace;
    int64_t count =
        detect(&p, (const float*)conf->data + n * boxes * p.classes,
               carnot_fields_int(fields, "confSigmoid", 0) != 0, prior_at, &table, list);
    float* dst = output_floats(run, 0) + n * p.keep * 7;
    for (int64_t i = 0; i < p.keep; i++, dst += 7) {
      dst[0] = (float)n;
      dst[1] = i < count ? (float)list[i].label : -1;
      dst[2] = i < count ? list[i].score : 0;
      write_box(dst + 3, i < count ? clipped(list[i].at) : (box){0, 0, 0, 0});
    }
    output_ints(run, 1)[n] = (int32_t)count;
  }
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
static const carnot_plugin_field kBatched[] = {
    CARNOT_FIELD("shareLocation", INT32),  CARNOT_FIELD("backgroundLabelId", INT32),
    CARNOT_FIELD("numClasses", INT32),     CARNOT_FIELD("topK", INT32),
    CARNOT_FIELD("keepTopK", INT32),       CARNOT_FIELD("scoreThreshold", FLOAT32),
    CARNOT_FIELD("iouThreshold", FLOAT32), CARNOT_FIELD("isNormalized", INT32),
    CARNOT_FIELD("clipBoxes", INT32),      CARNOT_FIELD("scoreBits", INT32),
    CARNOT_FIELD("caffeSemantics", INT32)};
static const carnot_plugin_field kSsd[] = {CARNOT_FIELD("shareLocation", INT32),
                                           CARNOT_FIELD("varianceEncodedInTarget", INT32),
                                           CARNOT_FIELD("backgroundLabelId", INT32),
                                           CARNOT_FIELD("numClasses", INT32),
                                           CARNOT_FIELD("topK", INT32),
                                           CARNOT_FIELD("keepTopK", INT32),
                                           CARNOT_FIELD("confidenceThreshold", FLOAT32),
                                           CARNOT_FIELD("nmsThreshold", FLOAT32),
                                           CARNOT_FIELD("inputOrder", INT32),
                                           CARNOT_FIELD("confSigmoid", INT32),
                                           CARNOT_FIELD("isNormalized", INT32),
                                           CARNOT_FIELD("codeType", INT32),
                                           CARNOT_FIELD("scoreBits", INT32),
                                           CARNOT_FIELD("isBatchAgnostic", INT32)};
static const carnot_plugin_kernel kEfficientKernel = {"f iffi", efficient_dims, efficient_nms,
                                                      candidates_bytes};
static const carnot_plugin_kernel kImplicitKernel = {"f iffi", implicit_dims, efficient_nms,
                                                     candidates_bytes};
static const carnot_plugin_kernel kOnnxKernel = {"f i", onnx_dims, onnx_nms, candidates_bytes};
static const carnot_plugin_kernel kBatchedKernel = {"f ifff", batched_dims, batched_nms,
                                                    candidates_bytes};
static const carnot_plugin_kernel kSsdKernel = {"f fi", ssd_dims, ssd_nms, ssd_bytes};

#define ROW(name, fields, min, max, outputs, kernel) \
  { name, "1", CARNOT_FIELD_LIST(fields), min, max, outputs, NULL, kernel, NULL }
static const carnot_plugin_builtin kRows[] = {
    ROW("EfficientNMS_TRT", kEfficient, 2, 3, 4, &kEfficientKernel),
    ROW("EfficientNMS_Explicit_TF_TRT", kTf, 2, 2, 4, &kEfficientKernel),
    ROW("EfficientNMS_Implicit_TF_TRT", kTf, 2, 2, 4, &kImplicitKernel),
    ROW("EfficientNMS_ONNX_TRT", kOnnx, 2, 2, 1, &kOnnxKernel),
    ROW("BatchedNMS_TRT", kBatched, 2, 2, 4, &kBatchedKernel),
    ROW("BatchedNMSDynamic_TRT", kBatched, 2, 2, 4, &kBatchedKernel),
    ROW("NMS_TRT", kSsd, 3, 3, 2, &kSsdKernel),
    ROW("NMSDynamic_TRT", kSsd, 3, 3, 2, &kSsdKernel),
};
const carnot_plugin_builtins carnot_plugins_detection = CARNOT_BUILTINS(kRows);
