// Loops that do nothing but multiply and add in registers, one per type and ISA level, and plain
// reads and copies.
#ifndef CARNOT_TOOLS_MACHINE_LOOPS_H_
#define CARNOT_TOOLS_MACHINE_LOOPS_H_

#include <stddef.h>

typedef struct cli_peak_loop {
  const char* type;
  int isa;            // carnot_isa: the least level it runs on
  double operations;  // of one round
  void (*run)(long rounds);
} cli_peak_loop;
// Ends with run NULL.
extern const cli_peak_loop cli_peak_loops[];

void cli_read_bytes(const char* src, size_t bytes, long rounds);
void cli_copy_bytes(char* dst, const char* src, size_t bytes, long rounds);

#endif  // CARNOT_TOOLS_MACHINE_LOOPS_H_
