// Soft non-maximum suppression: a box that overlaps one taken before loses score.
//   boxes [n, 4], scores [n] → indices [selected], scores [selected], in the order they are taken
// The box of the best score above score_threshold is taken (ties by index), until |most| are. With
// sigma > 0 a score is multiplied by exp(-overlap^2 / (2 sigma)) for each box taken; with sigma = 0
// a box whose overlap is above iou_threshold is dropped. Source: TensorFlow NonMaxSuppressionV5.
#include <math.h>

#include "ops/rect.h"
#include "ops/util.h"

enum { kBoxes, kScores, kMost, kOverlapLimit, kScoreLimit, kSigma, kInputs };

typedef struct candidate {
  float score;
  int64_t box, seen;  // |seen|: the score holds the overlap with that many boxes taken
} candidate;

typedef struct soft_nms {
  const carnot_tensor* boxes;
  float overlap_limit, score_limit, sigma;
  int64_t most;
  candidate* heap;  // the best first
  int64_t waiting;
  candidate* taken;
  int64_t taken_count;
} soft_nms;

static bool is_before(const candidate* a, const candidate* b) {
  return a->score != b->score ? a->score > b->score : a->box < b->box;
}

// Moves element |at| of the heap down to its place.
static void sift_down(soft_nms* s, int64_t at) {
  for (;;) {
    int64_t best = at, child = 2 * at + 1;
    for (int64_t i = child; i < child + 2 && i < s->waiting; i++)
      if (is_before(&s->heap[i], &s->heap[best])) best = i;
    if (best == at) return;
    const candidate moved = s->heap[at];
    s->heap[at] = s->heap[best];
    s->heap[best] = moved;
    at = best;
  }
}

// Brings the score of |c| up to date with the boxes taken; false where it is dropped.
static bool weigh(const soft_nms* s, candidate* c) {
  const carnot_rect rect = carnot_rect_read(s->boxes, c->box, false);
  for (int64_t i = s->taken_count; i-- > c->seen;) {
    const carnot_rect other = carnot_rect_read(s->boxes, s->taken[i].box, false);
    const float overlap = (float)carnot_rect_overlap(&rect, &other);
    if (s->sigma <= 0 && overlap > s->overlap_limit) return false;
    if (s->sigma > 0) c->score *= expf(-0.5F / s->sigma * overlap * overlap);
    if (!(c->score > s->score_limit)) return false;
  }
  c->seen = s->taken_count;
  return true;
}

static void select_boxes(soft_nms* s) {
  for (int64_t i = s->waiting / 2; i-- > 0;) sift_down(s, i);
  while (s->waiting && s->taken_count < s->most) {
    candidate* best = &s->heap[0];
    const float before = best->score;
    const bool stays = weigh(s, best);
    if (stays && best->score == before) s->taken[s->taken_count++] = *best;
    if (!stays || best->score == before) *best = s->heap[--s->waiting];
    sift_down(s, 0);
  }
}

static double scalar(const carnot_call* call, int i) {
  const carnot_tensor* t = carnot_call_in(call, i);
  return carnot_load_f64(t->dtype, t->data, 0);
}

static carnot_status* write(carnot_call* call, const soft_nms* s, carnot_dtype dtype) {
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_I64, 1, &s->taken_count));
  CARNOT_TRY(carnot_call_size_output(call, 1, dtype, 1, &s->taken_count));
  const carnot_tensor *indices = carnot_call_out(call, 0), *scores = carnot_call_out(call, 1);
  for (int64_t i = 0; indices && i < s->taken_count; i++)
    ((int64_t*)indices->data)[i] = s->taken[i].box;
  for (int64_t i = 0; scores && i < s->taken_count; i++)
    carnot_store_f64(dtype, scores->data, (size_t)i, s->taken[i].score);
  return NULL;
}

static carnot_status* run_soft_nms(carnot_call* call) {
  const carnot_tensor* scores = carnot_call_in(call, kScores);
  soft_nms s = {.boxes = carnot_call_in(call, kBoxes)};
  CARNOT_CHECK(s.boxes->dims[1] == 4 && s.boxes->dims[0] == scores->dims[0], INVALID_ARGUMENT,
               "boxes are [%lld,%lld] and scores [%lld]; [n,4] and [n] are required",
               (long long)s.boxes->dims[0], (long long)s.boxes->dims[1],
               (long long)scores->dims[0]);
  for (int i = kMost; i < kInputs; i++)
    CARNOT_CHECK(carnot_tensor_count(carnot_call_in(call, i)) == 1, INVALID_MODEL,
                 "input %d has %lld elements; 1 is required", i,
                 (long long)carnot_tensor_count(carnot_call_in(call, i)));
  const int64_t n = scores->dims[0];
  const double most = scalar(call, kMost);
  s.most = most > 0 ? (most < (double)n ? (int64_t)most : n) : 0;
  s.overlap_limit = (float)scalar(call, kOverlapLimit);
  s.score_limit = (float)scalar(call, kScoreLimit);
  s.sigma = (float)scalar(call, kSigma);
  CARNOT_TRY(carnot_call_array(call, n, sizeof(candidate), &s.heap));
  CARNOT_TRY(carnot_call_array(call, s.most, sizeof(candidate), &s.taken));
  for (int64_t i = 0; i < n; i++) {
    const float score = (float)carnot_load_f64(scores->dtype, scores->data, (size_t)i);
    if (score > s.score_limit) s.heap[s.waiting++] = (candidate){score, i, 0};
  }
  select_boxes(&s);
  return write(call, &s, scores->dtype);
}

static carnot_status* infer_soft_nms(carnot_infer* infer) {
  const carnot_type *boxes, *scores;
  CARNOT_TRY(carnot_infer_rank(infer, kBoxes, 2, 2, &boxes));
  CARNOT_TRY(carnot_infer_rank(infer, kScores, 1, 1, &scores));
  const carnot_sym selected = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 1, &selected);
  if (infer->output_count > 1) carnot_infer_set(infer, 1, scores->dtype, 1, &selected);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_END};
const carnot_op_row carnot_op_soft_nms = {
    .name = "soft_nms",
    .min_inputs = kInputs,
    .max_inputs = kInputs,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kAttrs,
    .infer = infer_soft_nms,
    .reference = run_soft_nms,
    .source = "TensorFlow NonMaxSuppressionV5",
    .layer_type = "NMS",
};
