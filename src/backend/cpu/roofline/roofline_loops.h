// Loops that only multiply and add in registers, one for each type and ISA level, and plain reads
// and copies.
#ifndef CARNOT_BACKEND_CPU_ROOFLINE_ROOFLINE_LOOPS_H_
#define CARNOT_BACKEND_CPU_ROOFLINE_ROOFLINE_LOOPS_H_

#include <stddef.h>

typedef struct carnot_roofline_loop {
  const char* type;
  int isa;            // carnot_isa: the least level it runs on
  double operations;  // of one round
  void (*run)(long rounds);
} carnot_roofline_loop;
// Ends with run NULL.
extern const carnot_roofline_loop carnot_roofline_loops[];

// Reads |bytes| at |src|, aligned to 64, |rounds| times. Any thread.
void carnot_roofline_read(const char* src, size_t bytes, long rounds);
// Copies |bytes| from |src| to |dst|, |rounds| times; they may not overlap. Any thread.
void carnot_roofline_copy(char* dst, const char* src, size_t bytes, long rounds);

#endif  // CARNOT_BACKEND_CPU_ROOFLINE_ROOFLINE_LOOPS_H_
