// Tables of taps of a resize, for its tactics.
#ifndef CARNOT_BACKEND_CPU_RESAMPLE_RESIZE_TABLE_H_
#define CARNOT_BACKEND_CPU_RESAMPLE_RESIZE_TABLE_H_

#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "ops/resize_taps.h"

// The filter that the attributes of a Resize say.
carnot_resize_filter carnot_cpu_resize_filter(const carnot_plan_node* node);
// Where the node has an attribute or operand that no tactic takes, the reason; else NULL.
const char* carnot_cpu_resize_reject(const carnot_problem* problem);
// Taps of an axis whose filter is stretched by 1 / |shrink|.
static inline int64_t carnot_cpu_resize_tap_count(const carnot_resize_filter* f, double shrink) {
  return f->radius ? 2 * (int64_t)ceil((double)f->radius / shrink) : 1;
}
// |index| and |weight| [axis->out, taps], |taps| as above: the source element and weight of each
// tap; indices outside are clamped to the edge. |scratch| [taps].
void carnot_cpu_resize_fill(const carnot_resize_filter* f, const carnot_resize_axis* axis,
                            double shrink, double* scratch, int32_t* index, float* weight);
// validate of both tactics: a single Resize whose operands exist. INVALID_MODEL.
carnot_status* carnot_cpu_resize_validate(const carnot_step_view* step) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_RESAMPLE_RESIZE_TABLE_H_
