// The roofline model of a layer.
#ifndef CARNOT_TOOLS_ROOFLINE_H_
#define CARNOT_TOOLS_ROOFLINE_H_

#include "carnot/machine.h"

// The least microseconds that a layer of |flops| operations and |bytes| read and written takes on
// all threads: the larger of the time for arithmetic and the time for memory. The type of the
// arithmetic is the |tactic|'s on a processor and |precision| ("float16") on an accelerator;
// classes of |numerics| ("split6") take more or fewer products than there are.
// Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
double cli_roofline_limit_us(const carnot_machine_peaks* machine, const char* tactic,
                             const char* numerics, const char* precision, double flops,
                             double bytes);

// True where other programs took so much of the machine that its figures are too low.
bool cli_is_busy(const carnot_machine_peaks* machine);
// Warns where other programs took part of the machine while it was measured.
void cli_warn_if_busy(const carnot_machine_peaks* machine);

#endif  // CARNOT_TOOLS_ROOFLINE_H_
