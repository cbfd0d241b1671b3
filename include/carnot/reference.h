// Reference execution of networks: the scalar C kernels that define each operator, node by node,
// with no passes, no fusion and no engine. Slow; for finding where an engine's results differ.
#ifndef CARNOT_REFERENCE_H_
#define CARNOT_REFERENCE_H_

#include "carnot/data.h"
#include "carnot/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// One evaluation of a network with every value it computed. One thread at a time.
typedef struct carnot_reference carnot_reference;

// Evaluates |network| on |inputs| [carnot_network_input_count], in the order of the network's
// inputs. The inputs' data and the network are borrowed until destroy. |thread_count| 0: one for
// each processor. Random operators use seed 0. INVALID_ARGUMENT for a NULL input; errors of a node
// name it. FAILED_PRECONDITION while a loop or conditional of the network is open.
CARNOT_API carnot_status* carnot_reference_create(const carnot_network* network,
                                                  const carnot_data* const* inputs,
                                                  int thread_count,
                                                  carnot_reference** out_reference) CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_reference_destroy(carnot_reference* reference);
// What |value|, one of the network's main part, was computed to be; NULL for values without one.
// Belongs to the reference.
CARNOT_API const carnot_data* carnot_reference_value(const carnot_reference* reference,
                                                     const carnot_value* value);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_REFERENCE_H_
