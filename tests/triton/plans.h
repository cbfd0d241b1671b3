// Plans for the tests of the Triton backend, in folders as a model repository has them.
#ifndef CARNOT_TESTS_TRITON_PLANS_H_
#define CARNOT_TESTS_TRITON_PLANS_H_

#include "../integration/net.h"
#include "triton/triton_api.h"

enum { ROWS_IN = 4, ROWS_OUT = 3, ROWS_MOST = 8 };

// A new folder that plans_remove removes; its name is in |folder| [256].
void plans_folder(char* folder);
void plans_remove(const char* folder);

// The kind of instances that run the plans which the tests write: on a GPU where net_device says
// so.
TRITONSERVER_InstanceGroupKind plans_kind(void);

// Writes |graph| as FOLDER/VERSION/model.plan and destroys it.
void plans_write(const char* folder, int version, carnot_graph* graph,
                 const carnot_build_config* config);

// x float32 [n,4] → times a matrix made of |seed| → y [n,3]; a profile allows 1 to ROWS_MOST rows.
void plans_write_rows(const char* folder, int version, uint32_t seed);
// What it gives for one row.
void plans_rows_wanted(uint32_t seed, const float* x, double* y);

// x float32 [n,length] → twice x → y, in two profiles: up to 8 rows of 4 to 16, up to 2 of 17 to
// 64.
void plans_write_lengths(const char* folder, int version);
// index int64 [n] → that of 10 numbers 0, 1, … → y float32 [n]; an index past them fails the run.
void plans_write_lookup(const char* folder, int version);
// x, z text [n] → one behind the other → y [n].
void plans_write_text(const char* folder, int version);
// maybe optional of float32 [3], x float32 [3] → has bool [], same float32 [3].
void plans_write_optional(const char* folder, int version);
// x float32 [3] → the elements that are not 0 → y [?].
void plans_write_nonzero(const char* folder, int version);

#endif  // CARNOT_TESTS_TRITON_PLANS_H_
