// What the tests of half precision share.
#ifndef CARNOT_TESTS_INTEGRATION_HALF_H_
#define CARNOT_TESTS_INTEGRATION_HALF_H_

#include "net.h"

// float16 and bfloat16.
extern const carnot_dtype half_types[2];

// The error that rounding both operands of a product to |half| may cause, relative to the sum of
// magnitudes, with that of float32 sums.
double half_cost(carnot_dtype half);
// A configuration for |isa| in which layers of float32 may compute in |half|.
carnot_build_config half_config(int isa, carnot_dtype half);
// The number of steps whose tactic's name has |text| in it.
int half_steps(const carnot_engine* engine, const char* text);
// Fails the test unless |found[i]| is within |bound[i]| of |wanted[i]|.
void half_within(const float* found, const double* wanted, const double* bound, size_t count);

// Checks with a configuration; |name| is a part of the name of the tactic that must be taken.
typedef void half_check(const carnot_build_config* config, const char* name, double cost);
// Calls |check| for float16 and bfloat16 on every ISA level of this machine.
void half_each_tactic(half_check* check);

#endif  // CARNOT_TESTS_INTEGRATION_HALF_H_
