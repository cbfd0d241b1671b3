// Measured times of an engine's layers beside the least times that the machine allows.
#include "layer_limits.h"

#include <stdlib.h>

#include "log.h"
#include "roofline.h"

static double number(const json_t* layer, const char* key) {
  return json_number_value(json_object_get(layer, key));
}
static const char* words(const json_t* layer, const char* key) {
  const char* found = json_string_value(json_object_get(layer, key));
  return found ? found : "";
}

json_t* cli_machine_json(const carnot_machine_peaks* m) {
  json_t *peaks = json_array(), *levels = json_array();
  for (int i = 0; i < m->compute_count; i++) {
    const carnot_compute_peak* p = &m->compute[i];
    json_array_append_new(
        peaks, json_pack("{s:s,s:s,s:f,s:f}", "type", p->type, "isa", p->isa, "gops_one_thread",
                         p->one_thread_gops, "gops_all_threads", p->all_threads_gops));
  }
  for (int i = 0; i < m->memory_count; i++) {
    const carnot_memory_peak* l = &m->memory[i];
    json_array_append_new(
        levels, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f}", "name", l->name, "bytes", l->bytes,
                          "read_gbs_one_thread", l->read_one_thread_gbs, "read_gbs_all_threads",
                          l->read_all_threads_gbs, "copy_gbs_one_thread", l->copy_one_thread_gbs,
                          "copy_gbs_all_threads", l->copy_all_threads_gbs));
  }
  return json_pack("{s:i,s:f,s:b,s:o,s:o}", "threads", m->thread_count, "availability",
                   m->availability, "busy", (int)cli_is_busy(m), "peaks", peaks, "levels", levels);
}

carnot_status* cli_layer_limits_add(cli_session* session, json_t* root) {
  carnot_machine_peaks machine;
  cli_say_phase("measuring the machine");
  CLI_TRY(carnot_machine_measure_context(session->context, 0.05, &machine));
  cli_end_progress();
  cli_warn_if_busy(&machine);
  size_t index;
  json_t* layer;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    double limit = cli_roofline_limit_us(&machine, words(layer, "TacticName"),
                                         words(layer, "Numerics"), words(layer, "Precision"),
                                         number(layer, "Flops"), number(layer, "Bytes"));
    json_object_set_new(layer, "LimitUs", json_real(limit));
  }
  json_object_set_new(root, "Machine", cli_machine_json(&machine));
  json_object_set_new(root, "Threads", json_integer(machine.thread_count));
  return NULL;
}

void cli_layer_limits_sum(json_t* root) {
  size_t index;
  json_t* layer;
  double total = 0, limits = 0;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    if (!json_object_get(layer, "MeasuredUs") || !json_object_get(layer, "LimitUs")) continue;
    double us = number(layer, "MeasuredUs"), limit = number(layer, "LimitUs");
    json_object_set_new(layer, "Efficiency", json_real(us > 0 ? limit / us : 0));
    total += us, limits += limit;
  }
  json_object_set_new(root, "MeasuredUs", json_real(total));
  json_object_set_new(root, "LimitUs", json_real(limits));
}

carnot_status* cli_layer_limits_measure(cli_session* session, json_t* root) {
  carnot_layer_time* times;
  carnot_engine_stats stats;
  carnot_engine_get_stats(session->loaded.engine, &stats);
  CLI_TRY(cli_layer_limits_add(session, root));
  CLI_TRY(cli_session_random(session, NULL));
  cli_say_phase("timing layers");
  CLI_TRY(cli_session_profile(session, 20, &times));
  cli_end_progress();
  size_t index;
  json_t* layer;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    // The least time, because the peaks are the best of several tries too.
    if (index < stats.layer_count && times[index].count)
      json_object_set_new(layer, "MeasuredUs", json_real((double)times[index].min_ns * 1e-3));
    else
      json_object_del(layer, "LimitUs");
  }
  cli_layer_limits_sum(root);
  free(times);
  return NULL;
}
