// Calling plugins: from types to types while inferring, and on tensors while running.
#ifndef CARNOT_PLUGIN_CALL_H_
#define CARNOT_PLUGIN_CALL_H_

#include "ir/op.h"
#include "plugin/registry.h"

enum { CARNOT_PLUGIN_MAX_OPERANDS = 64 };  // inputs and outputs together

// The key and fields of a plugin node, by its attributes.
carnot_status* carnot_plugin_key_of(const carnot_attrs* attrs, carnot_arena* arena,
                                    carnot_plugin_key* out_key) CARNOT_MUST_USE;
// An instance for a plugin node.
carnot_status* carnot_plugin_open_node(const carnot_attrs* attrs, carnot_plugin_phase phase,
                                       carnot_plugin_instance** out_instance) CARNOT_MUST_USE;
// Input and output counts that this plugin can have.
carnot_status* carnot_plugin_check_counts(const carnot_plugin_instance* instance, int input_count,
                                          int output_count) CARNOT_MUST_USE;

carnot_status* carnot_plugin_infer(const carnot_plugin_instance* instance,
                                   carnot_infer* infer) CARNOT_MUST_USE;

// Dimensions of the outputs at concrete inputs. An output whose size the run finds out is taken at
// its greatest, and |out_open| bit i is set; with |sizes| (by output; what enqueue wrote there) all
// are known.
carnot_status* carnot_plugin_dims(const carnot_plugin_instance* instance,
                                  const carnot_plugin_tensor* inputs, int input_count,
                                  carnot_plugin_tensor* outputs, int output_count,
                                  const int64_t* sizes, uint64_t* out_open) CARNOT_MUST_USE;

// The threads of |executor| as plugins see them.
carnot_plugin_threads carnot_plugin_threads_of(struct carnot_executor* executor);

// on_shape_change and the workspace it then needs.
carnot_status* carnot_plugin_set_shape(const carnot_plugin_instance* instance,
                                       const carnot_plugin_tensor* inputs, int input_count,
                                       const carnot_plugin_tensor* outputs, int output_count,
                                       size_t* out_workspace_bytes) CARNOT_MUST_USE;
// Puts inputs where outputs alias them, and computes.
carnot_status* carnot_plugin_enqueue(const carnot_plugin_instance* instance,
                                     carnot_plugin_run* run) CARNOT_MUST_USE;

#endif  // CARNOT_PLUGIN_CALL_H_
