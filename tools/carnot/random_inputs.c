// Made-up inputs: the elements of shape inputs, and integers that are indices into a table.
#include <stdio.h>

#include "log.h"
#include "session.h"

// ---- shape inputs ----

// The elements of shape input |input|: those that |shapes| give, else those that the profile was
// tuned for, else 1.
static carnot_status* shape_values(const cli_session* session, const carnot_tensor_info* input,
                                   const carnot_dims* dims, const cli_shapes* shapes,
                                   const cli_tensor* out) {
  int64_t count = cli_dims_count(dims), best[64];
  size_t best_count = 0;
  const carnot_dims* given = cli_shapes_find(shapes, input->name);
  CLI_TRY(carnot_engine_profile_values(session->loaded.engine, session->profile, input->name, NULL,
                                       best, NULL, &best_count));
  bool is_given = given && given->rank == count;
  for (int64_t i = 0; i < count; i++) {
    int64_t value = is_given ? given->d[i] : i < (int64_t)best_count ? best[i] : 1;
    carnot_element_set_i64(out->dtype, out->data, (size_t)i, value);
  }
  return NULL;
}

carnot_status* cli_session_make_up(cli_session* session, uint32_t index,
                                   const carnot_tensor_info* input, const carnot_dims* dims,
                                   const cli_shapes* shapes, const carnot_data** out_data) {
  cli_tensor tensor;
  CLI_TRY(cli_tensor_random(input, dims, &session->arena, &tensor));
  if (input->is_shape)
    CLI_TRY(shape_values(session, input, dims, shapes, &tensor));
  else
    session->is_made_up[index] = true;
  return cli_tensor_as_data(&tensor, &session->arena, out_data);
}

// ---- indices ----

static bool is_integer(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_I32 || dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_U32 ||
         dtype == CARNOT_DTYPE_U64 || dtype == CARNOT_DTYPE_I16 || dtype == CARNOT_DTYPE_U16;
}

// Makes the elements of input |index| up again, in [0, limit).
static carnot_status* set_below(cli_session* session, uint32_t index, int limit) {
  const carnot_engine* engine = session->loaded.engine;
  carnot_tensor_info input;
  CLI_TRY(carnot_engine_tensor_info(engine, index, &input));
  carnot_dims dims = carnot_data_dims(session->inputs[index]);
  cli_tensor tensor;
  const carnot_data* data;
  CLI_TRY(cli_tensor_random(&input, &dims, &session->arena, &tensor));
  for (int64_t i = 0; i < cli_tensor_count(&tensor); i++) {
    int64_t value = carnot_element_i64(tensor.dtype, tensor.data, (size_t)i);
    // The first is the largest, so that a run that passes has tried the whole range.
    carnot_element_set_i64(tensor.dtype, tensor.data, (size_t)i, i ? value % limit : limit - 1);
  }
  CLI_TRY(cli_tensor_as_data(&tensor, &session->arena, &data));
  return cli_session_set_input(session, index, data);
}

static bool runs(cli_session* session) {
  carnot_status* status = carnot_context_run(session->context);
  carnot_status_free(status);
  return !status;
}

// The largest limit with which the model runs while the inputs behind |index| are 0.
static carnot_status* find_limit(cli_session* session, uint32_t index, int* out_limit) {
  static const int kLimits[] = {1000, 512, 256, 128, 64, 32, 16, 8, 4, 3, 2};
  for (size_t i = 0; i < CLI_COUNT(kLimits); i++) {
    *out_limit = kLimits[i];
    CLI_TRY(set_below(session, index, kLimits[i]));
    if (runs(session)) return NULL;
  }
  *out_limit = 1;
  return set_below(session, index, 1);
}

carnot_status* cli_session_run_first(cli_session* session, void (*warn)(const char* message)) {
  carnot_status* status = carnot_context_run(session->context);
  uint32_t inputs[64], count = 0, tensors = carnot_engine_tensor_count(session->loaded.engine);
  for (uint32_t i = 0; status && i < tensors && count < CLI_COUNT(inputs); i++)
    if (session->is_made_up[i] && is_integer(carnot_data_dtype(session->inputs[i])))
      inputs[count++] = i;
  if (!count || carnot_status_code(status) == CARNOT_CANCELLED) return status;
  carnot_status* failed = NULL;
  for (uint32_t i = 0; i < count && !failed; i++) failed = set_below(session, inputs[i], 1);
  bool are_indices = !failed && runs(session);
  for (uint32_t i = 0; i < count && are_indices && !failed; i++) {
    carnot_tensor_info input;
    int limit = 1;
    failed = carnot_engine_tensor_info(session->loaded.engine, inputs[i], &input);
    if (!failed) failed = find_limit(session, inputs[i], &limit);
    char text[512];
    snprintf(text, sizeof(text),
             "input %s is an index: its made-up values are in [0, %d); --%s gives real ones",
             failed ? "" : input.name, limit, warn ? "loadInputs" : "input");
    if (failed || limit == 1000) continue;
    if (warn)
      warn(text);
    else
      cli_say(CLI_SAY_WARNING, "%s", text);
  }
  if (!are_indices && !failed) return status;
  carnot_status_free(status);
  return failed ? failed : carnot_context_run(session->context);
}
