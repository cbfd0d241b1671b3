// The roofline model of a layer.
#include "roofline.h"

#include <string.h>

#include "log.h"

// As peaks are named.
static const char* type_of(const char* precision) {
  return strcmp(precision, "float16") == 0    ? "f16"
         : strcmp(precision, "bfloat16") == 0 ? "bf16"
                                              : "f32";
}

// Products that are computed for each product of the layer.
static double products_of(const char* numerics) {
  static const struct {
    const char* numerics;
    double products;
  } classes[] = {
      {"split6", 6}, {"split3", 3}, {"winograd", 16.0 / 36}, {"winograd4x4", 36.0 / 144}};
  for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
    if (strcmp(numerics, classes[i].numerics) == 0) return classes[i].products;
  return 1;
}

double cli_roofline_limit_us(const carnot_machine_peaks* machine, const char* tactic,
                             const char* numerics, const char* precision, double flops,
                             double bytes) {
  const char* type = machine->is_accelerator                                ? type_of(precision)
                     : strstr(tactic, "u8s8") || strstr(tactic, "s8_tiles") ? "int8"
                     : strstr(tactic, "bf16")                               ? "bf16"
                     : strstr(tactic, "f64")                                ? "f64"
                                                                            : "f32";
  double peak = 0, bandwidth = 0;
  for (int i = 0; i < machine->compute_count; i++)
    if (strcmp(machine->compute[i].type, type) == 0 && machine->compute[i].all_threads_gops > peak)
      peak = machine->compute[i].all_threads_gops;
  // A layer's operands may be in any cache that holds them; L1 and L2 belong to a thread each.
  for (int i = 0; i < machine->memory_count && bandwidth == 0; i++) {
    double room = machine->memory[i].bytes * (i < 2 ? machine->thread_count : 1);
    if (bytes <= room || i + 1 == machine->memory_count)
      bandwidth = machine->memory[i].read_all_threads_gbs;
  }
  double compute = peak > 0 ? flops * products_of(numerics) / peak * 1e-3 : 0,
         moving = bandwidth > 0 ? bytes / bandwidth * 1e-3 : 0;
  return compute > moving ? compute : moving;
}

bool cli_is_busy(const carnot_machine_peaks* machine) {
  return !machine->is_accelerator && machine->availability < CARNOT_QUIET_AVAILABILITY;
}

void cli_warn_if_busy(const carnot_machine_peaks* machine) {
  if (!cli_is_busy(machine)) return;
  cli_say(
      CLI_SAY_WARNING,
      "this machine was busy while it was measured: the measuring thread ran %.0f %% of the time. "
      "Peaks are too low, and distances from the limit too small",
      100 * machine->availability);
}
