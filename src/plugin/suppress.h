// What the plugins of non-maximum suppression share: boxes, their order and overlap. Ties of scores
// go to the lower index.
#ifndef CARNOT_PLUGIN_SUPPRESS_H_
#define CARNOT_PLUGIN_SUPPRESS_H_

#include <math.h>
#include <stdlib.h>

#include "plugin/builtin.h"

typedef struct box {
  float x0, y0, x1, y1;
} box;

// A scored box of a class; |index| is its place among the boxes of the image.
typedef struct candidate {
  float score;
  int32_t label, index;
  box at;
} candidate;

static inline int by_score(const void* a, const void* b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return (x->label > y->label) - (x->label < y->label);
}

static inline box ordered(box b) {
  return (box){fminf(b.x0, b.x1), fminf(b.y0, b.y1), fmaxf(b.x0, b.x1), fmaxf(b.y0, b.y1)};
}

// Intersection over union of boxes in any order of corners; |extra| is added to widths and heights.
static inline float overlap(box a, box b, float extra) {
  a = ordered(a);
  b = ordered(b);
  float w = fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0) + extra;
  float h = fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0) + extra;
  if (!(w > 0 && h > 0)) return 0;
  float sum = (a.x1 - a.x0 + extra) * (a.y1 - a.y0 + extra) +
              (b.x1 - b.x0 + extra) * (b.y1 - b.y0 + extra) - w * h;
  return sum > 0 ? w * h / sum : 0;
}

static inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static inline int32_t* output_ints(const carnot_plugin_run* run, int i) {
  return run->outputs[i].data;
}
static inline float* output_floats(const carnot_plugin_run* run, int i) {
  return run->outputs[i].data;
}

static inline carnot_plugin_shape shape_of(const carnot_exprs* e, carnot_expr batch, int rank,
                                           int64_t b, int64_t c) {
  return (carnot_plugin_shape){.rank = rank,
                               .dims = {batch, e->constant(e->host, b), e->constant(e->host, c)}};
}

static inline void write_box(float* dst, box b) {
  dst[0] = b.x0;
  dst[1] = b.y0;
  dst[2] = b.x1;
  dst[3] = b.y1;
}

static inline box clipped(box b) {
  return (box){fminf(fmaxf(b.x0, 0), 1), fminf(fmaxf(b.y0, 0), 1), fminf(fmaxf(b.x1, 0), 1),
               fminf(fmaxf(b.y1, 0), 1)};
}

// Workspace for a candidate of each score [N,B,C] of an image.
static inline size_t candidates_bytes(const carnot_fields* fields,
                                      const carnot_plugin_tensor* inputs, int32_t input_count) {
  (void)fields, (void)input_count;
  const carnot_dims* s = &inputs[1].dims;
  return (size_t)(s->d[1] * s->d[2] + 1) * sizeof(candidate);
}

#endif  // CARNOT_PLUGIN_SUPPRESS_H_
