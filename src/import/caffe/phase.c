// Which layers a network has in phase TEST.
#include <string.h>

#include "import/caffe/net.h"

static bool has_stage(const caffe_state* state, carnot_strview stage) {
  for (size_t i = 0; state && i < state->stage.count; i++)
    if (carnot_view_equal(state->stage.items[i], stage)) return true;
  return false;
}

// Phase TEST, with level and stages as the network's state says. Source: Net::StateMeetsRule.
static bool meets(const caffe_rule* rule, const caffe_state* state) {
  const int64_t level = state ? state->level : 0;
  if ((rule->present & CAFFE_RULE_HAS_PHASE) && rule->phase != 1) return false;
  if ((rule->present & CAFFE_RULE_HAS_MIN_LEVEL) && level < rule->min_level) return false;
  if ((rule->present & CAFFE_RULE_HAS_MAX_LEVEL) && level > rule->max_level) return false;
  for (size_t i = 0; i < rule->stage.count; i++)
    if (!has_stage(state, rule->stage.items[i])) return false;
  for (size_t i = 0; i < rule->not_stage.count; i++)
    if (has_stage(state, rule->not_stage.items[i])) return false;
  return true;
}

carnot_status* caffe_is_included(const caffe_layer* layer, const caffe_state* state, bool* out) {
  CARNOT_CHECK(!layer->include.count || !layer->exclude.count, INVALID_MODEL,
               "the layer has rules to include and to exclude; one kind is allowed");
  *out = layer->include.count == 0;
  for (size_t i = 0; i < layer->include.count; i++) *out |= meets(&layer->include.items[i], state);
  for (size_t i = 0; i < layer->exclude.count; i++) *out &= !meets(&layer->exclude.items[i], state);
  return NULL;
}

bool caffe_is_for_training(carnot_strview type) {
  static const char* const kTypes[] = {
      "Data",    "ImageData", "HDF5Data",      "HDF5Output",   "MemoryData",       "WindowData",
      "Silence", "Accuracy",  "AnnotatedData", "MultiBoxLoss", "DetectionEvaluate"};
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); i++)
    if (carnot_view_is(type, kTypes[i])) return true;
  static const char kLoss[] = "Loss";
  return type.size > 4 && memcmp(type.data + type.size - 4, kLoss, 4) == 0;
}
