// Builds of a network by a configuration: as a file, in memory, as an engine.
#include <stdio.h>
#include <stdlib.h>

#include "api/builder/config.h"
#include "api/builder/network.h"
#include "backend/cpu/onednn/onednn_library.h"
#include "backend/device.h"
#include "carnot/machine.h"
#include "engine/engine.h"

// True where a node of the block or of its bodies quantizes or computes in a quantized type.
static bool is_quantized(const carnot_block* block) {
  for (const carnot_node* node = block->first; node; node = node->next) {
    switch (node->op) {
      case CARNOT_OP_QUANTIZE_LINEAR:
      case CARNOT_OP_DEQUANTIZE_LINEAR:
      case CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR:
      case CARNOT_OP_MATMUL_INTEGER:
      case CARNOT_OP_QLINEAR_MATMUL:
      case CARNOT_OP_CONV_INTEGER:
      case CARNOT_OP_QLINEAR_CONV: return true;
      default: break;
    }
    for (size_t i = 0; i < node->attrs.count; i++)
      if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK &&
          is_quantized(node->attrs.items[i].block))
        return true;
  }
  return false;
}

// The default device is the CPU where the accelerator of the machine cannot be used: that is said.
static void warn_of_cpu(const carnot_build_config* build) {
  char reason[1024], message[1200];
  if (build->device || !build->log || getenv("CARNOT_DEVICE")) return;
  if (!carnot_device_is_passed_over(reason, sizeof(reason))) return;
  snprintf(message, sizeof(message), "the engine is built for the CPU: %s", reason);
  build->log(build->user, 1, message);
}

// Tactic sources but oneDNN are libraries of an accelerator. A library that was named is missed.
static void warn_of_sources(const carnot_build_config* build) {
  const uint32_t onednn = 1u << CARNOT_SOURCE_ONEDNN,
                 others = ((1u << CARNOT_SOURCE_COUNT) - 1) & ~onednn;
  if (build->device || !build->log) return;
  if ((build->tactic_sources & others) != others)
    build->log(build->user, 1,
               "tactic sources have no effect on a CPU, but for ONEDNN: they name libraries of a "
               "GPU");
  const char* missing =
      getenv("CARNOT_ONEDNN") && build->tactic_sources & onednn ? carnot_onednn_lacks() : NULL;
  char message[512];
  if (!missing) return;
  snprintf(message, sizeof(message), "CARNOT_ONEDNN names a library that is not used: %s", missing);
  build->log(build->user, 1, message);
}

// |graph| is the network's, or a copy of it with more outputs.
static carnot_status* build_plan(const carnot_network* network, const carnot_graph* graph,
                                 const carnot_config* config, carnot_plan** out_plan) {
  *out_plan = NULL;
  CARNOT_TRY(carnot_environment_check());
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a loop or conditional of the network is still open");
  CARNOT_CHECK(graph->main->output_count > 0, FAILED_PRECONDITION,
               "the network has no output: mark one");
  CARNOT_CHECK(!config || !config->wants_quantized || is_quantized(graph->main) ||
                   (config->build.ranges && carnot_ranges_count(config->build.ranges)),
               UNSUPPORTED,
               "nothing in the network is quantized: it has no Q/DQ nodes, and there are no ranges "
               "of its tensors; INT8 needs a calibration, a calibration cache or dynamic ranges");
  carnot_build_config build = carnot_config_for_builder(config);
  CARNOT_TRY(carnot_device_choose(config ? config->device : NULL, &build.device));
  if (!config || !config->device) warn_of_cpu(&build);
  warn_of_sources(&build);
  if (config && config->thread_count != 1)
    CARNOT_TRY(carnot_executor_create(config->thread_count, &build.executor));
  // What an earlier build released. This one releases too: who reads the network next restores it.
  carnot_graph_restore_constants(graph);
  carnot_status* status = carnot_build_plan(graph, &build, out_plan);
  if (build.executor) carnot_executor_destroy(build.executor);
  return status;
}

carnot_status* carnot_build_file(const carnot_network* network, const carnot_config* config,
                                 const char* path) {
  carnot_plan* plan;
  carnot_status* status = build_plan(network, network->graph, config, &plan);
  if (!status) status = carnot_plan_write_file(plan, path);
  carnot_plan_destroy(plan);
  return status;
}

static carnot_status* build_memory(const carnot_network* network, const carnot_graph* graph,
                                   const carnot_config* config, void** out_data, size_t* out_size) {
  *out_data = NULL;
  *out_size = 0;
  carnot_plan* plan;
  carnot_status* status = build_plan(network, graph, config, &plan);
  if (!status) status = carnot_plan_write_memory(plan, out_data, out_size);
  carnot_plan_destroy(plan);
  return status;
}

carnot_status* carnot_build_memory(const carnot_network* network, const carnot_config* config,
                                   void** out_data, size_t* out_size) {
  return build_memory(network, network->graph, config, out_data, out_size);
}

carnot_status* carnot_build_graph(const carnot_network* network, const carnot_graph* graph,
                                  const carnot_config* config, carnot_engine** out_engine) {
  *out_engine = NULL;
  void* data;
  size_t size;
  CARNOT_TRY(build_memory(network, graph, config, &data, &size));
  carnot_status* status = carnot_engine_load_memory(data, size, NULL, NULL, out_engine);
  free(data);
  return status;
}

carnot_status* carnot_build_engine(const carnot_network* network, const carnot_config* config,
                                   carnot_engine** out_engine) {
  return carnot_build_graph(network, network->graph, config, out_engine);
}
