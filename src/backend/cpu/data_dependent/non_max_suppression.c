// NonMaxSuppression-11 of float32, the same boxes as the reference's. infer_output_sizes selects
// them, run writes their rows.
//
// The boxes kept so far of a class lie in blocks, which a kernel compares with the next box. Where
// there are many, they are also in stripes by their left edge: only those that may reach the box
// are compared with it. With thousands of boxes spread over an image (or shifted apart by class, as
// exporters do) that is a small part of them.
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "ops/rect.h"

enum { BOXES, SCORES, MOST, OVERLAP_LIMIT, SCORE_LIMIT, INPUT_COUNT };
enum { kMostStripes = 512, kOfStripe = 4 * CARNOT_BOX_BLOCK, kManyKept = 128 };

// ---- the step ----

static const carnot_plan_node* node_of(const carnot_region* region) { return &region->nodes[0]; }

static bool has_boxes_and_scores(const carnot_region* region) {
  const carnot_plan_node* node = node_of(region);
  return region->node_count == 1 && node->op == CARNOT_OP_NON_MAX_SUPPRESSION &&
         node->input_count >= 2 && node->input_count <= INPUT_COUNT &&
         node->inputs[BOXES] != CARNOT_PLAN_NONE && node->inputs[SCORES] != CARNOT_PLAN_NONE;
}

static const char* nms_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!has_boxes_and_scores(problem->region)) return "";
  const uint32_t* in = node_of(problem->region)->inputs;
  const char* why = carnot_not_f32(&problem->inputs[in[BOXES]], "boxes", 3, 3, reason, size);
  if (!why) why = carnot_not_f32(&problem->inputs[in[SCORES]], "scores", 3, 3, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* nms_validate(const carnot_step_view* step) {
  CARNOT_CHECK(has_boxes_and_scores(step->region) && step->output_count == 1, INVALID_MODEL,
               "the step is not one non_max_suppression");
  const carnot_plan_node* node = node_of(step->region);
  for (uint32_t i = 0; i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == CARNOT_PLAN_NONE || node->inputs[i] < step->input_count,
                 INVALID_MODEL, "operand %u is input %u of the step", i, node->inputs[i]);
  return NULL;
}

// A list of a batch and class has the chosen boxes, up to all of them.
typedef struct nms_state {
  int64_t boxes, classes, lists, chosen;
  bool centre;
  // Bytes from the beginning of the workspace.
  int64_t kept, order, work, values, indices, counts, lists_at;
} nms_state;
_Static_assert(sizeof(nms_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t most_blocks(int64_t boxes) { return boxes / CARNOT_BOX_BLOCK + kMostStripes + 1; }

static int64_t reserve(int64_t* end, int64_t count, size_t bytes) {
  const int64_t at = *end;
  *end += carnot_align_up(count * (int64_t)bytes, 64);
  return at;
}

static carnot_status* nms_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* memory,
                                    size_t* out_workspace_bytes) {
  nms_state* s = memory;
  const carnot_plan_node* node = node_of(step->region);
  const carnot_operand *boxes = &inputs[node->inputs[BOXES]],
                       *scores = &inputs[node->inputs[SCORES]];
  CARNOT_CHECK(boxes->rank == 3 && scores->rank == 3 && boxes->dims[2] == 4 &&
                   boxes->dims[0] == scores->dims[0] && boxes->dims[1] == scores->dims[2],
               INVALID_ARGUMENT, "boxes and scores do not have shapes [b, n, 4] and [b, c, n]");
  CARNOT_CHECK(boxes->format.dtype == CARNOT_DTYPE_F32 &&
                   scores->format.dtype == CARNOT_DTYPE_F32 &&
                   outputs[0].format.dtype == CARNOT_DTYPE_I64 && carnot_cpu_is_dense(boxes) &&
                   carnot_cpu_is_dense(scores) && boxes->dims[1] <= INT32_MAX,
               INVALID_MODEL, "boxes or scores are not dense float32");
  const int64_t n = boxes->dims[1];
  *s = (nms_state){.boxes = n, .classes = scores->dims[1]};
  s->lists = boxes->dims[0] * s->classes;
  s->centre = carnot_attr_int(carnot_op_get(CARNOT_OP_NON_MAX_SUPPRESSION), &node->attrs,
                              "center_point_box") != 0;
  int64_t end = 0;
  s->kept = reserve(&end, most_blocks(n), sizeof(carnot_box_block));
  s->order = reserve(&end, n, sizeof(int64_t));
  s->work = reserve(&end, carnot_top_k_f32_workspace(n, n), 1);
  s->values = reserve(&end, n, sizeof(float));
  s->indices = reserve(&end, n, sizeof(int32_t));
  s->counts = reserve(&end, s->lists, sizeof(int64_t));
  s->lists_at = reserve(&end, s->lists * n, sizeof(int32_t));
  *out_workspace_bytes = (size_t)end;
  return NULL;
}

// ---- the boxes that are kept ----

typedef struct kept_boxes {
  carnot_box_block* blocks;
  int64_t block_count;
  int stripe_count;    // 1: all in one
  double left, scale;  // stripe = (x0 - left) * scale
  double widest;       // of all candidates
  int64_t first[kMostStripes];
  int used[kMostStripes];  // boxes of the first block
} kept_boxes;

static int stripe_of(const kept_boxes* kept, double x) {
  const double at = (x - kept->left) * kept->scale, last = kept->stripe_count - 1;
  return !(at > 0) ? 0 : at >= last ? (int)last : (int)at;
}

static void keep(kept_boxes* kept, const carnot_rect* box) {
  const int stripe = stripe_of(kept, box->x0);
  int64_t* first = &kept->first[stripe];
  if (*first < 0 || kept->used[stripe] == CARNOT_BOX_BLOCK) {
    carnot_box_block* block = &kept->blocks[kept->block_count];
    for (int k = 0; k < CARNOT_BOX_BLOCK; k++) {
      block->y0[k] = block->x0[k] = INFINITY;
      block->y1[k] = block->x1[k] = -INFINITY;
      block->area[k] = 0;
    }
    block->next = *first;
    *first = kept->block_count++;
    kept->used[stripe] = 0;
  }
  carnot_box_block* block = &kept->blocks[*first];
  const int k = kept->used[stripe]++;
  block->y0[k] = box->y0, block->x0[k] = box->x0;
  block->y1[k] = box->y1, block->x1[k] = box->x1;
  block->area[k] = (box->y1 - box->y0) * (box->x1 - box->x0);
}

static bool is_above(const carnot_box_block* block, const carnot_rect* box, double limit) {
  for (int k = 0; k < CARNOT_BOX_BLOCK; k++) {
    const carnot_rect other = {block->y0[k], block->x0[k], block->y1[k], block->x1[k]};
    if (carnot_rect_overlap(box, &other) > limit) return true;
  }
  return false;
}

// Whether |box| shares more than |limit|, which is no less than 0, with one that is kept.
static bool is_dropped(const kept_boxes* kept, const carnot_cpu_kernels* kernels,
                       const carnot_rect* box, double limit) {
  const double edges[4] = {box->y0, box->x0, box->y1, box->x1};
  // One stripe more on each side takes up what rounding does.
  const int last = kept->stripe_count - 1, from = stripe_of(kept, box->x0 - kept->widest) - 1,
            to = stripe_of(kept, box->x1) + 1;
  for (int stripe = from < 0 ? 0 : from; stripe <= (to > last ? last : to); stripe++)
    for (int64_t at = kept->first[stripe];;) {
      at = kernels->find_overlap_f64(kept->blocks, at, edges, limit);
      if (at < 0) break;
      if (is_above(&kept->blocks[at], box, limit)) return true;
      at = kept->blocks[at].next;
    }
  return false;
}

// ---- one class of a batch ----

typedef struct nms_run {
  const nms_state* s;
  const carnot_cpu_kernels* kernels;
  char* workspace;
  const float *boxes, *scores;  // of the batch, of the class
  int64_t most;
  double overlap_limit, score_limit;
  kept_boxes kept;
} nms_run;

static carnot_rect rect_at(const nms_run* run, int64_t box) {
  const float* v = run->boxes + 4 * box;
  return carnot_rect_of((const double[4]){v[0], v[1], v[2], v[3]}, run->s->centre);
}

// Stripes for |count| candidates, unless few boxes are wanted or edges are no numbers: those have
// no order.
static void lay_stripes(nms_run* run, const int32_t* candidates, int64_t count) {
  kept_boxes* kept = &run->kept;
  const int64_t stripes = carnot_min_i64(count / kOfStripe, kMostStripes);
  double left = INFINITY, right = -INFINITY, widest = 0;
  bool many = stripes > 1 && run->most > kManyKept;
  for (int64_t i = 0; i < count && many; i++) {
    const carnot_rect r = rect_at(run, candidates[i]);
    many = isfinite(r.x0) && isfinite(r.x1) && r.x1 >= r.x0;
    if (r.x0 < left) left = r.x0;
    if (r.x0 > right) right = r.x0;
    if (r.x1 - r.x0 > widest) widest = r.x1 - r.x0;
  }
  const double scale = (double)stripes / (right - left);
  many = many && right > left && scale > 0 && isfinite(scale);
  kept->block_count = 0;
  kept->stripe_count = many ? (int)stripes : 1;
  kept->left = many ? left : 0;
  kept->scale = many ? scale : 0;
  kept->widest = many ? widest : 0;
  for (int i = 0; i < kept->stripe_count; i++) kept->first[i] = -1;
}

// The boxes of the list whose scores are above the limit, in the order of the boxes.
static int64_t find_candidates(const nms_run* run, float* values, int32_t* candidates) {
  int64_t count = 0;
  for (int64_t i = 0; i < run->s->boxes; i++) {
    values[count] = run->scores[i];
    candidates[count] = (int32_t)i;
    count += run->scores[i] > run->score_limit;
  }
  return count;
}

// Writes the chosen boxes; returns how many they are.
static int64_t select_class(nms_run* run, int32_t* chosen) {
  const nms_state* s = run->s;
  int64_t* order = (int64_t*)(run->workspace + s->order);
  float* values = (float*)(run->workspace + s->values);
  int32_t* candidates = (int32_t*)(run->workspace + s->indices);
  const int64_t count = run->most ? find_candidates(run, values, candidates) : 0;
  if (!count) return 0;
  const carnot_top_k_f32 sort = {
      .n = count, .k = count, .inner = 1, .src = values, .index = order, .largest = true};
  run->kernels->top_k_f32(&sort, 0, 1, run->workspace + s->work);
  lay_stripes(run, candidates, count);
  const bool is_limited = run->overlap_limit >= 0;
  int64_t kept = 0;
  for (int64_t i = 0; i < count && kept < run->most; i++) {
    const int32_t box = candidates[order[i]];
    const carnot_rect rect = rect_at(run, box);
    // What overlaps is never less than 0.
    if (is_limited ? is_dropped(&run->kept, run->kernels, &rect, run->overlap_limit)
                   : kept && run->overlap_limit < 0)
      continue;
    if (is_limited) keep(&run->kept, &rect);
    chosen[kept++] = box;
  }
  return kept;
}

// ---- all of them ----

static double number_or(const carnot_step_view* step, const carnot_operand* inputs, uint32_t which,
                        double absent) {
  const carnot_plan_node* node = node_of(step->region);
  if (which >= node->input_count || node->inputs[which] == CARNOT_PLAN_NONE) return absent;
  const carnot_operand* t = &inputs[node->inputs[which]];
  return carnot_dims_count(t->dims, t->rank) > 0 ? carnot_load_f64(t->format.dtype, t->data, 0)
                                                 : absent;
}

static carnot_status* nms_infer_output_sizes(const carnot_step_view* step, void* memory,
                                             const carnot_operand* inputs, carnot_operand* outputs,
                                             void* workspace) {
  nms_state* s = memory;
  const carnot_plan_node* node = node_of(step->region);
  const double most = number_or(step, inputs, MOST, 0);
  nms_run run = {.s = s,
                 .kernels = carnot_cpu_kernels_of(step->tactic->isa),
                 .workspace = workspace,
                 .most = most > 0 ? (most < (double)s->boxes ? (int64_t)most : s->boxes) : 0,
                 .overlap_limit = number_or(step, inputs, OVERLAP_LIMIT, 0),
                 .score_limit = number_or(step, inputs, SCORE_LIMIT, -1e300)};
  run.kept.blocks = (carnot_box_block*)(run.workspace + s->kept);
  int64_t* counts = (int64_t*)(run.workspace + s->counts);
  s->chosen = 0;
  for (int64_t list = 0; list < s->lists; list++) {
    run.boxes = (const float*)inputs[node->inputs[BOXES]].data + list / s->classes * s->boxes * 4;
    run.scores = (const float*)inputs[node->inputs[SCORES]].data + list * s->boxes;
    counts[list] = select_class(&run, (int32_t*)(run.workspace + s->lists_at) + list * s->boxes);
    s->chosen += counts[list];
  }
  outputs[0].rank = 2;
  outputs[0].dims[0] = s->chosen;
  outputs[0].dims[1] = 3;
  return NULL;
}

static carnot_status* nms_write(const carnot_step_view* step, void* memory,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)step, (void)inputs, (void)executor;
  const nms_state* s = memory;
  const int64_t* counts = (const int64_t*)((const char*)workspace + s->counts);
  const int32_t* chosen = (const int32_t*)((const char*)workspace + s->lists_at);
  CARNOT_CHECK(outputs[0].rank == 2 && outputs[0].dims[0] == s->chosen && outputs[0].dims[1] == 3,
               INVALID_ARGUMENT, "the result has another size than what was counted");
  int64_t* row = outputs[0].data;
  for (int64_t list = 0; list < s->lists; list++)
    for (int64_t i = 0; i < counts[list]; i++, row += 3) {
      row[0] = list / s->classes;
      row[1] = list % s->classes;
      row[2] = chosen[list * s->boxes + i];
    }
  return NULL;
}

CARNOT_CPU_TACTICS(non_max_suppression_f32, .anchor = CARNOT_OP_NON_MAX_SUPPRESSION,
                   .reject = nms_reject, .validate = nms_validate, .configure = nms_configure,
                   .infer_output_sizes = nms_infer_output_sizes, .run = nms_write);
