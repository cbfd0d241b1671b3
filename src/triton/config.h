// The configuration of a model (config.pbtxt), as JSON.
#ifndef CARNOT_TRITON_CONFIG_H_
#define CARNOT_TRITON_CONFIG_H_

#include <jansson.h>

#include "triton/model.h"

// The file name of the plan in a version's folder: default_model_filename, else "model.plan". It
// belongs to |config|.
const char* carnot_triton_config_file_name(const json_t* config);

// The largest batch where neither the plan nor the model's configuration bounds it: the server's
// --backend-config=default-max-batch-size, from the backend's configuration |config|.
int64_t carnot_triton_config_default_batch(const json_t* config);

// Sets |model|'s max_batch and thread_count from |config|, and checks the inputs and outputs that
// it lists against the plan. |complete|: what it leaves out is added to it: max_batch_size,
// dynamic batching, inputs and outputs. INVALID_ARGUMENT names the entry that does not fit.
carnot_status* carnot_triton_config_apply(json_t* config, bool complete,
                                          carnot_triton_model* model) CARNOT_MUST_USE;

#endif  // CARNOT_TRITON_CONFIG_H_
