// Plugins as layers of a network.
#include "carnot/plugin.h"

#include "api/builder/network.h"
#include "plugin/front.h"

carnot_status* carnot_network_add_plugin(carnot_network* network, const carnot_plugin* plugin,
                                         carnot_value* const* inputs, int32_t input_count,
                                         carnot_value** out_values) {
  CARNOT_CHECK(plugin && out_values, INVALID_ARGUMENT, "no plugin, or no room for its outputs");
  carnot_plugin p;
  CARNOT_TRY(carnot_plugin_read(plugin, &p));
  for (int32_t i = 0; i < p.output_count; i++) out_values[i] = NULL;
  CARNOT_CHECK(input_count >= 0 && (inputs || !input_count), INVALID_ARGUMENT, "%d inputs",
               input_count);
  carnot_arena* arena = &network->graph->arena;
  carnot_value** reached = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)input_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int32_t i = 0; i < input_count; i++)
    CARNOT_TRY(carnot_network_reach(network, network->scope, inputs[i], &reached[i]));
  return carnot_plugin_add_made(network->scope->block, plugin, NULL, reached, input_count,
                                out_values);
}
