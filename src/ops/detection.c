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

// Kept boxes in stripes by their left edge: only those that may reach a box are compared with it.
// With thousands of boxes spread over an image (or shifted apart by class, as exporters do) that is
// a small part of them.
enum { kStripes = 512 };

typedef struct stripes {
  bool used;                // false: compare with all
  double left, scale;       // stripe = (x0 - left) * scale
  double widest;            // of all candidates
  int64_t first[kStripes];  // kept box, -1: none
  int64_t* next;            // by kept box
} stripes;

typedef struct job {
  const carnot_tensor *boxes, *scores;
  int64_t most;
  double overlap_limit, score_limit;
  bool centre;
  double* class_scores;
  candidate* candidates;  // a heap
  carnot_rect* kept;
  stripes stripes;
  int64_t* selected;
  int64_t selected_count;
} job;

static int64_t stripe_of(const stripes* s, double x) {
  double at = (x - s->left) * s->scale;
  return at <= 0 ? 0 : at >= kStripes - 1 ? kStripes - 1 : (int64_t)at;
}

static carnot_rect rect_of(const job* j, int64_t batch, candidate c) {
  return carnot_rect_read(j->boxes, batch * j->boxes->dims[1] + c.box, j->centre);
}

// Stripes for |count| candidates of a batch, unless few boxes are wanted. A limit below zero drops
// boxes that do not touch, and edges that are no numbers have no order: then all are compared.
static void lay_stripes(job* j, int64_t batch, int64_t count) {
  enum { kFew = 128 };
  stripes* s = &j->stripes;
  double left = INFINITY, right = -INFINITY;
  s->widest = 0;
  s->used = j->overlap_limit >= 0 && count > 64 && j->most > kFew;
  for (int64_t i = 0; i < count && s->used; i++) {
    const carnot_rect r = rect_of(j, batch, j->candidates[i]);
    s->used = isfinite(r.x0) && isfinite(r.x1) && r.x1 >= r.x0;
    if (r.x0 < left) left = r.x0;
    if (r.x0 > right) right = r.x0;
    if (r.x1 - r.x0 > s->widest) s->widest = r.x1 - r.x0;
  }
  s->used = s->used && right > left && isfinite(right - left);
  if (!s->used) return;
  s->left = left;
  s->scale = kStripes / (right - left);
  s->used = isfinite(s->scale);
  for (int64_t i = 0; i < kStripes; i++) s->first[i] = -1;
}

// Bit k is set where |box| touches others[k]; without branches, since most are apart.
static unsigned touching(const carnot_rect* box, const carnot_rect* others, int64_t count) {
  unsigned bits = 0;
  for (int64_t k = 0; k < count; k++) {
    const carnot_rect* b = &others[k];
    const double height = (box->y1 < b->y1 ? box->y1 : b->y1) - (box->y0 > b->y0 ? box->y0 : b->y0);
    const double width = (box->x1 < b->x1 ? box->x1 : b->x1) - (box->x0 > b->x0 ? box->x0 : b->x0);
    bits |= (unsigned)((height > 0) & (width > 0)) << k;
  }
  return bits;
}

// Whether |box| shares more than the limit, which is no less than 0, with a kept box.
static bool overlaps_kept(const job* j, const carnot_rect* box, int64_t kept) {
  enum { kTogether = 16 };
  for (int64_t begin = 0; begin < kept; begin += kTogether) {
    const int64_t count = carnot_min_i64(kTogether, kept - begin);
    const carnot_rect* others = j->kept + begin;
    for (unsigned bits = touching(box, others, count); bits; bits &= bits - 1)
      if (carnot_rect_overlap(box, &others[__builtin_ctz(bits)]) > j->overlap_limit) return true;
  }
  return false;
}

static bool is_dropped(const job* j, const carnot_rect* box, int64_t kept) {
  const stripes* s = &j->stripes;
  if (!s->used && j->overlap_limit >= 0) return overlaps_kept(j, box, kept);
  if (!s->used) {
    for (int64_t k = 0; k < kept; k++)
      if (carnot_rect_overlap(box, &j->kept[k]) > j->overlap_limit) return true;
    return false;
  }
  // One stripe more on each side takes up what rounding does.
  int64_t from = carnot_max_i64(stripe_of(s, box->x0 - s->widest) - 1, 0),
          to = carnot_min_i64(stripe_of(s, box->x1) + 1, kStripes - 1);
  for (int64_t at = from; at <= to; at++)
    for (int64_t k = s->first[at]; k >= 0; k = s->next[k])
      if (carnot_rect_overlap(box, &j->kept[k]) > j->overlap_limit) return true;
  return false;
}

static void keep(job* j, const carnot_rect* box, int64_t kept) {
  j->kept[kept] = *box;
  if (!j->stripes.used) return;
  int64_t* first = &j->stripes.first[stripe_of(&j->stripes, box->x0)];
  j->stripes.next[kept] = *first;
  *first = kept;
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
  lay_stripes(j, batch, count);
  for (; count > 0 && kept < j->most; count--) {
    const candidate next = take_first(j->candidates, count);
    const carnot_rect rect = rect_of(j, batch, next);
    if (is_dropped(j, &rect, kept)) continue;
    keep(j, &rect, kept++);
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
  CARNOT_TRY(carnot_call_alloc(call, (size_t)j.most * sizeof(int64_t), &memory));
  j.stripes.next = memory;
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
