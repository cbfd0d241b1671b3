// Calibration on the command line: where ranges come from, and finding them.
#ifndef CARNOT_TOOLS_CALIBRATE_H_
#define CARNOT_TOOLS_CALIBRATE_H_

#include "carnot/calibration.h"
#include "flags.h"
#include "shapes.h"
#include "tensor.h"

typedef struct cli_calibration {
  const char* cache;  // read, or written where there is data; NULL: none
  const char* data;   // a folder; NULL: none
  carnot_calibration_options options;
  cli_image_options image;
  const char* shapes;  // of dimensions that pictures leave open; NULL: none
} cli_calibration;

// Reads the --calib… flags.
carnot_status* cli_calibration_flags(const cli_flags* flags, cli_calibration* out) CARNOT_MUST_USE;

// The ranges for |network|: from data in the folder, which are then saved to the cache, else from
// the cache. *out_ranges is NULL where neither was given; the caller destroys it.
carnot_status* cli_calibrate(const carnot_network* network, const carnot_config* config,
                             const cli_calibration* calibration,
                             carnot_ranges** out_ranges) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_CALIBRATE_H_
