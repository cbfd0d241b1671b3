// Non-maximum suppression: of boxes that overlap, the one with the best score stays.
//   boxes [batches, n, 4], scores [batches, classes, n] → [selected, 3]: batch, class, box
// For each batch and class boxes are taken by falling score (ties by index) while the score is
// above score_threshold; one is dropped when its intersection over union with one taken before is
// above iou_threshold. Source: ONNX NonMaxSuppression-11.
#include <math.h>
#include <stdlib.h>

#include "ops/infer_help.h"
#include "ops/rect.h"

typedef struct candidate {
  double score;
  int64_t box;
} candidate;

static bool goes_before(candidate x, candidate y) {
  return x.score != y.score ? x.score > y.score : x.box < y.box;
}

// Candidate |i| of |count| goes down to its place below those that go before it.
static void sift_down(candidate* heap, int64_t count, int64_t i) {
  const candidate moving = heap[i];
  for (int64_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && goes_before(heap[child + 1], heap[child])) child++;
    if (!goes_before(heap[child], moving)) break;
    heap[i] = heap[child];
  }
  heap[i] = moving;
}

// The candidate that goes before all others, taken away from a heap of |count|.
static candidate take_first(candidate* heap, int64_t count) {
  const candidate first = heap[0];
  heap[0] = heap[count - 1];
  sift_down(heap, count - 1, 0);
  return first;
}

static carnot_status* infer_nms(carnot_infer* infer) {
  const carnot_type *boxes, *scores;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &boxes));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &scores));
  CARNOT_CHECK((boxes->rank == 3 || boxes->rank < 0) && (scores->rank == 3 || scores->rank < 0),
               INVALID_MODEL, "boxes have rank %d and scores %d, must be 3", boxes->rank,
               scores->rank);
  const carnot_sym dims[2] = {carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED), carnot_sym_of(3)};
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 2, dims);
  return NULL;
}

typedef struct job {
  const carnot_tensor *boxes, *scores;
  int64_t most;
  double overlap_limit, score_limit;
  bool centre;
  double* class_scores;
  candidate* candidates;  // a heap
  carnot_rect* kept;
  int64_t* selected;
  int64_t selected_count;
} job;

static bool is_dropped(const job* j, const carnot_rect* box, int64_t kept) {
  for (int64_t k = 0; k < kept; k++)
    if (carnot_rect_overlap(box, &j->kept[k]) > j->overlap_limit) return true;
  return false;
}

static void select_class(job* j, int64_t batch, int64_t class) {
  int64_t n = j->boxes->dims[1], classes = j->scores->dims[1], count = 0, kept = 0;
  carnot_load_block_f64(j->scores->dtype, j->scores->data, (size_t)((batch * classes + class) * n),
                        1, (size_t)n, j->class_scores);
  for (int64_t i = 0; i < n; i++) {
    j->candidates[count] = (candidate){j->class_scores[i], i};
    count += j->class_scores[i] > j->score_limit;
  }
  for (int64_t i = count / 2 - 1; i >= 0; i--) sift_down(j->candidates, count, i);
  for (; count > 0 && kept < j->most; count--) {
    const candidate next = take_first(j->candidates, count);
    const carnot_rect rect = carnot_rect_read(j->boxes, batch * n + next.box, j->centre);
    if (is_dropped(j, &rect, kept)) continue;
    j->kept[kept++] = rect;
    int64_t* row = j->selected + 3 * j->selected_count++;
    row[0] = batch;
    row[1] = class;
    row[2] = next.box;
  }
}

static double scalar_or(const carnot_call* call, int i, double absent) {
  const carnot_tensor* t = carnot_call_in(call, i);
  return t && carnot_tensor_count(t) > 0 ? carnot_load_f64(t->dtype, t->data, 0) : absent;
}

static carnot_status* run_nms(carnot_call* call) {
  job j = {.boxes = carnot_call_in(call, 0), .scores = carnot_call_in(call, 1)};
  CARNOT_CHECK(j.boxes->rank == 3 && j.scores->rank == 3 && j.boxes->dims[2] == 4 &&
                   j.boxes->dims[0] == j.scores->dims[0] && j.boxes->dims[1] == j.scores->dims[2],
               INVALID_ARGUMENT, "boxes and scores do not have shapes [b, n, 4] and [b, c, n]");
  int64_t batches = j.boxes->dims[0], n = j.boxes->dims[1], classes = j.scores->dims[1];
  double most = scalar_or(call, 2, 0);
  j.most = most > 0 ? (most < (double)n ? (int64_t)most : n) : 0;
  j.overlap_limit = scalar_or(call, 3, 0);
  j.score_limit = scalar_or(call, 4, -1e300);
  j.centre = carnot_call_int(call, "center_point_box") != 0;
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, (size_t)n * sizeof(candidate), &memory));
  j.candidates = memory;
  CARNOT_TRY(carnot_call_alloc(call, (size_t)n * sizeof(double), &memory));
  j.class_scores = memory;
  CARNOT_TRY(carnot_call_alloc(call, (size_t)j.most * sizeof(carnot_rect), &memory));
  j.kept = memory;
  CARNOT_TRY(
      carnot_call_alloc(call, (size_t)(batches * classes * j.most) * 3 * sizeof(int64_t), &memory));
  j.selected = memory;
  for (int64_t b = 0; b < batches; b++) {
    for (int64_t c = 0; c < classes; c++) select_class(&j, b, c);
  }
  const int64_t dims[2] = {j.selected_count, 3};
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_I64, 2, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y && j.selected_count)
    memcpy(y->data, j.selected, (size_t)j.selected_count * 3 * sizeof(int64_t));
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    {"center_point_box", CARNOT_ATTR_INT, false, 0, NULL, NULL}, {0}};

const carnot_op_row carnot_op_non_max_suppression = {
    .name = "non_max_suppression",
    .min_inputs = 2,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kAttrs,
    .infer = infer_nms,
    .reference = run_nms,
    .source = "ONNX NonMaxSuppression-11",
    .layer_type = "NMS",
};
