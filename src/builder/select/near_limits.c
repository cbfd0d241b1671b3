// Libraries that plan for long are asked last: not for a layer that a kernel of the backend's own
// computes near the limit of the device.
#include <math.h>

#include "backend/device.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/select.h"

// A kernel is near it within three tenths, and what a launch and its first bytes take.
static const double kNear = 1.3, kLatencyNs = 3000;

// Of the device: operations and bytes a nanosecond.
typedef struct peaks {
  double f32, half, bytes;
} peaks;

static uint32_t planning_sources(void) {
  uint32_t sources = 0;
  for (int op = 0; op < CARNOT_OP_COUNT; op++) {
    const carnot_plan_node node = {.op = (carnot_op)op};
    const carnot_region region = {.nodes = (carnot_plan_node*)(uintptr_t)&node, .node_count = 1};
    carnot_tactic_iterator all = carnot_tactics_for(&region, /*backend=*/true);
    for (const carnot_tactic* t; (t = carnot_tactic_next(&all));)
      if (t->preplan) sources |= t->sources;
  }
  return sources;
}

// From the timing cache, or measured. All 0 where they cannot be: nothing is near a limit then.
static carnot_status* find_peaks(carnot_builder* builder, peaks* out) {
  static const char* const kNames[] = {"peak_f32", "peak_half", "peak_copy"};
  enum { kCount = 3, kScale = 1000 };
  *out = (peaks){0};
  carnot_device* device = builder->config->device;
  uint64_t known[kCount];
  bool all = true;
  for (int i = 0; i < kCount; i++)
    all = all && carnot_timing_cache_find(builder->timing_cache, builder->machine.hash, kNames[i],
                                          &known[i]);
  if (!all) {
    carnot_device_peaks p;
    carnot_status* refusal = device->backend->measure(device, &p);
    if (refusal) {
      carnot_builder_log(builder, "the device's limits are not known: %s",
                         carnot_status_message(refusal));
      carnot_status_free(refusal);
      return NULL;
    }
    const double measured[kCount] = {p.f32_gflops, fmax(p.f16_gflops, p.f32_gflops), p.copy_gbs};
    for (int i = 0; i < kCount; i++) {
      known[i] = isfinite(measured[i]) ? (uint64_t)(measured[i] * kScale) : 0;
      CARNOT_TRY(carnot_timing_cache_get_or_insert(builder->timing_cache, builder->machine.hash,
                                                   kNames[i], &known[i]));
    }
  }
  *out = (peaks){(double)known[0] / kScale, (double)known[1] / kScale, (double)known[2] / kScale};
  return NULL;
}

static bool is_near_limit(const carnot_candidate* c, const peaks* p) {
  double flops = 0, bytes = 0;
  if (!c->tactic->device || c->ns == UINT64_MAX || !p->f32) return false;
  carnot_candidate_work(c, &flops, &bytes);
  const bool half = carnot_dtype_bits(c->problem.outputs[0].format.dtype) <= 16;
  const double limit_ns = fmax(flops / (half ? p->half : p->f32), bytes / p->bytes);
  return (double)c->ns <= kNear * limit_ns + kLatencyNs;
}

carnot_status* carnot_leave_out_planners(carnot_builder* builder, const carnot_analysis* analysis,
                                         carnot_candidates* candidates) {
  const carnot_build_config* config = builder->config;
  const uint32_t planners = planning_sources() & config->tactic_sources;
  if (!config->device || config->device->ordinal < 0 || config->level < 2 || !planners ||
      config->pins || config->selector.select)
    return NULL;
  peaks p;
  carnot_assignment assignment;
  const carnot_select_request request = {.sources = config->tactic_sources & ~planners,
                                         .reports_progress = true};
  CARNOT_TRY(find_peaks(builder, &p));
  if (!p.bytes) return NULL;
  CARNOT_TRY(carnot_select(builder, analysis, candidates, &request, &assignment));
  uint32_t* left_out = CARNOT_NEW_ARRAY(&builder->facts, uint32_t, analysis->region_count + 1);
  CARNOT_TRY(carnot_arena_status(&builder->facts));
  size_t count = 0;
  for (uint32_t r = 0; r < analysis->region_count; r++)
    if (is_near_limit(carnot_assigned_candidate(&assignment, candidates, r), &p))
      left_out[r] = planners, count++;
  builder->left_out = left_out;
  carnot_builder_log(builder, "Libraries that plan are not asked for %zu of %u layers near limits",
                     count, analysis->region_count);
  return NULL;
}
