// Tables of taps of a resize.
#include "backend/cpu/resample/resize_table.h"

carnot_resize_filter carnot_cpu_resize_filter(const carnot_plan_node* node) {
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_RESIZE);
  carnot_strview mode = carnot_attr_text(row, &node->attrs, "mode");
  carnot_resize_filter f = {
      .place = carnot_attr_text(row, &node->attrs, "coordinate_transformation_mode"),
      .nearest = carnot_attr_text(row, &node->attrs, "nearest_mode"),
      .cubic = carnot_view_is(mode, "cubic"),
      .exclude_outside = carnot_attr_int(row, &node->attrs, "exclude_outside") != 0,
      .a = carnot_attr_float(row, &node->attrs, "cubic_coeff_a")};
  f.radius = f.cubic ? 2 : carnot_view_is(mode, "linear") ? 1 : 0;
  return f;
}

const char* carnot_cpu_resize_reject(const carnot_problem* problem) {
  enum { kScales = 2 };
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_RESIZE);
  if (!carnot_view_is(carnot_attr_text(row, &node->attrs, "keep_aspect_ratio_policy"), "stretch"))
    return "it keeps the aspect ratio";
  if (carnot_view_is(carnot_attr_text(row, &node->attrs, "coordinate_transformation_mode"),
                     "tf_crop_and_resize"))
    return "it crops";
  const bool by_scales = node->input_count > kScales && node->inputs[kScales] != CARNOT_PLAN_NONE;
  if (by_scales && !carnot_is_f32_constant(&problem->inputs[node->inputs[kScales]]))
    return "its scales are not constant";
  return NULL;
}

void carnot_cpu_resize_fill(const carnot_resize_filter* f, const carnot_resize_axis* axis,
                            double shrink, double* scratch, int32_t* index, float* weight) {
  const int64_t taps = carnot_cpu_resize_tap_count(f, shrink);
  carnot_resize_filter wide = *f;
  wide.radius = f->radius ? taps / 2 : 0;
  for (int64_t o = 0; o < axis->out; o++) {
    bool outside;
    int64_t first;
    double at = fmin(fmax(carnot_resize_place(f, axis, o, &outside), -1e15), 1e15);
    if (f->radius) {
      carnot_resize_taps(&wide, axis, at, shrink, &first, scratch);
    } else {
      first = carnot_resize_nearest(f, at);
      scratch[0] = 1;
    }
    for (int64_t t = 0; t < taps; t++) {
      int64_t place = carnot_max_i64(carnot_min_i64(first + t, axis->in - 1), 0);
      index[o * taps + t] = (int32_t)place;
      weight[o * taps + t] = (float)scratch[t];
    }
  }
}

carnot_status* carnot_cpu_resize_validate(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->region->node_count == 1 && node->op == CARNOT_OP_RESIZE, INVALID_MODEL,
               "the step does not resize");
  for (uint32_t i = 0; i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == CARNOT_PLAN_NONE || node->inputs[i] < step->input_count,
                 INVALID_MODEL, "operand %u of %u", node->inputs[i], step->input_count);
  return NULL;
}
