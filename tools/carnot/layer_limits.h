// Measured times of an engine's layers beside the least times that the machine allows.
#ifndef CARNOT_TOOLS_LAYER_LIMITS_H_
#define CARNOT_TOOLS_LAYER_LIMITS_H_

#include <jansson.h>

#include "carnot/machine.h"
#include "session.h"

// The peaks of a machine as `carnot device --json` prints them; a new reference.
json_t* cli_machine_json(const carnot_machine_peaks* machine);

// Measures the machine that |session| runs on and puts into |root|, the inspector's data of its
// engine: "Machine" (cli_machine_json), "Threads", and "LimitUs" of each layer.
carnot_status* cli_layer_limits_add(cli_session* session, json_t* root) CARNOT_MUST_USE;
// Puts "Efficiency" (limit / time) into each layer that has "MeasuredUs" and "LimitUs", and the
// sums of both into |root|.
void cli_layer_limits_sum(json_t* root);
// Runs the engine on made-up values and does both; each layer that runs gets "MeasuredUs", its best
// of 20 runs.
carnot_status* cli_layer_limits_measure(cli_session* session, json_t* root) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_LAYER_LIMITS_H_
