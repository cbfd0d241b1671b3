// Suppression class by class, then the best of all classes. Source: TensorRT batchedNMSPlugin,
// nmsPlugin.
#include "plugin/suppress.h"

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
    // Locations come as y, x, h, w; variances are in the order x, y, w, h.
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
    // TensorRT clips; Caffe's own layer, which sets this field, does not.
    const bool clips = carnot_fields_int(fields, "clipBoxes", 1) != 0;
    float* dst = output_floats(run, 0) + n * p.keep * 7;
    for (int64_t i = 0; i < p.keep; i++, dst += 7) {
      dst[0] = (float)n;
      dst[1] = i < count ? (float)list[i].label : -1;
      dst[2] = i < count ? list[i].score : 0;
      const box at = i < count ? list[i].at : (box){0, 0, 0, 0};
      write_box(dst + 3, clips ? clipped(at) : at);
    }
    output_ints(run, 1)[n] = (int32_t)count;
  }
  return true;
}

// ---- rows ----

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
                                           CARNOT_FIELD("isBatchAgnostic", INT32),
                                           CARNOT_FIELD("clipBoxes", INT32)};
static const carnot_plugin_kernel kBatchedKernel = {"f ifff", batched_dims, batched_nms,
                                                    candidates_bytes};
static const carnot_plugin_kernel kSsdKernel = {"f fi", ssd_dims, ssd_nms, ssd_bytes};

#define ROW(name, fields, min, max, outputs, kernel) \
  { name, "1", CARNOT_FIELD_LIST(fields), min, max, outputs, NULL, kernel, NULL }
static const carnot_plugin_builtin kRows[] = {
    ROW("BatchedNMS_TRT", kBatched, 2, 2, 4, &kBatchedKernel),
    ROW("BatchedNMSDynamic_TRT", kBatched, 2, 2, 4, &kBatchedKernel),
    ROW("NMS_TRT", kSsd, 3, 3, 2, &kSsdKernel),
    ROW("NMSDynamic_TRT", kSsd, 3, 3, 2, &kSsdKernel),
};
const carnot_plugin_builtins carnot_plugins_nms = CARNOT_BUILTINS(kRows);
