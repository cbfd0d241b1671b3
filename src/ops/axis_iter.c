// Iteration over 1-D slices along an axis, in parallel; stable sorting.
#include "ops/axis_iter.h"

enum { kParts = 64 };

typedef struct lanes_run {
  const carnot_tensor* x;
  carnot_tensor* y;
  carnot_axis_view lanes;
  carnot_axis_slice_fn fn;
  const void* context;
  double* scratch;  // two lanes a part
  int64_t count, parts;
} lanes_run;

static void run_part(void* arg, int64_t part) {
  const lanes_run* r = arg;
  int64_t length = r->lanes.length, step = r->lanes.inner;
  double *in = r->scratch + part * 2 * length, *out = in + length;
  int64_t end = r->count * (part + 1) / r->parts;
  for (int64_t lane = r->count * part / r->parts; lane < end; lane++) {
    size_t start = (size_t)carnot_axis_slice_start(&r->lanes, lane);
    carnot_load_block_f64(r->x->dtype, r->x->data, start, step, (size_t)length, in);
    r->fn(r->context, lane, in, out, length);
    carnot_store_block_f64(r->y->dtype, r->y->data, start, step, (size_t)length, out);
  }
}

static carnot_status* run_lanes(const carnot_call* call, lanes_run* r) {
  r->count = r->lanes.outer * r->lanes.inner;
  if (!r->y || r->count == 0 || r->lanes.length == 0) return NULL;
  r->parts = carnot_min_i64(kParts, r->count);
  CARNOT_TRY(carnot_call_array(call, r->parts * 2 * r->lanes.length, sizeof(double), &r->scratch));
  carnot_call_parallel(call, r->parts, run_part, r);
  return NULL;
}

carnot_status* carnot_for_each_axis_slice(const carnot_call* call, const carnot_tensor* x,
                                          carnot_tensor* y, int axis, carnot_axis_slice_fn fn,
                                          const void* context) {
  lanes_run r = {.x = x, .y = y, .fn = fn, .context = context};
  r.lanes = x->rank ? carnot_axis_view_of(x->dims, x->rank, axis) : (carnot_axis_view){1, 1, 1};
  return run_lanes(call, &r);
}

carnot_status* carnot_for_each_row(const carnot_call* call, const carnot_tensor* x,
                                   carnot_tensor* y, int64_t length, carnot_axis_slice_fn fn,
                                   const void* context) {
  lanes_run r = {.x = x, .y = y, .fn = fn, .context = context};
  int64_t count = carnot_tensor_count(x);
  r.lanes = (carnot_axis_view){length ? count / length : 0, length, 1};
  return run_lanes(call, &r);
}

void carnot_sort_stable(int64_t* items, int64_t* scratch, int64_t count,
                        bool (*less)(const void* context, int64_t a, int64_t b),
                        const void* context) {
  if (count < 2) return;
  int64_t half = count / 2;
  carnot_sort_stable(items, scratch, half, less, context);
  carnot_sort_stable(items + half, scratch, count - half, less, context);
  memcpy(scratch, items, (size_t)half * sizeof(*items));
  int64_t i = 0, j = half, k = 0;
  while (i < half && j < count) {
    items[k++] = less(context, items[j], scratch[i]) ? items[j++] : scratch[i++];
  }
  while (i < half) items[k++] = scratch[i++];
}
