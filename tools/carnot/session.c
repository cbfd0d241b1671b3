// One engine with its threads, context and inputs.
#include <stdlib.h>

#include "cli.h"

carnot_status* cli_session_start(const cli_loaded* loaded, int threads, cli_session* out) {
  *out = (cli_session){.loaded = *loaded, .base_mb = cli_peak_rss_mb()};
  carnot_status* status = carnot_executor_create(threads, &out->executor);
  carnot_context_options options = {.executor = out->executor, .isa = -1, .host_io = true};
  if (!status) status = carnot_context_create_on(out->loaded.engine, &options, &out->context);
  if (!status) out->context->time_io = out->context->stream != NULL;
  if (status) cli_session_close(out);
  return status;
}

carnot_status* cli_session_open(const char* path, const cli_build_options* options,
                                cli_session* out) {
  *out = (cli_session){0};
  cli_loaded loaded;
  CARNOT_TRY(cli_load(path, options, &loaded));
  return cli_session_start(&loaded, options->threads, out);
}

void cli_session_close(cli_session* session) {
  if (session->context) carnot_context_free(session->context);
  if (session->executor) carnot_executor_destroy(session->executor);
  if (session->loaded.engine) carnot_engine_release(session->loaded.engine);
  carnot_arena_deinit(&session->arena);
  *session = (cli_session){0};
}

static bool names_input(const char* value, const char* equals, const char* name) {
  return (size_t)(equals - value) == strlen(name) && strncmp(value, name, strlen(name)) == 0;
}

// The FILE that --input gives for |name|; "FILE" alone serves the only input.
static const char* file_for(cli_flags* flags, const char* name, uint32_t input_count) {
  const char* value;
  for (int i = 0; (value = cli_flag_each(flags, "input", i)) != NULL; i++) {
    const char* equals = strrchr(value, '=');
    if (!equals && input_count == 1) return value;
    if (equals && names_input(value, equals, name)) return equals + 1;
  }
  return NULL;
}

static carnot_status* check_names(cli_flags* flags, const carnot_plan* plan, uint32_t input_count) {
  const char* value;
  for (int i = 0; (value = cli_flag_each(flags, "input", i)) != NULL; i++) {
    const char* equals = strrchr(value, '=');
    CARNOT_CHECK(equals || input_count == 1, INVALID_ARGUMENT,
                 "--input %s: NAME=FILE is wanted, the model has %u inputs", value, input_count);
    if (!equals) continue;
    char name[512];
    snprintf(name, sizeof(name), "%.*s", (int)(equals - value), value);
    uint32_t index;
    CARNOT_TRY(carnot_plan_find_binding(plan, name, &index));
    CARNOT_CHECK(plan->bindings[index].is_input, INVALID_ARGUMENT, "--input %s: %s is an output",
                 value, name);
  }
  return NULL;
}

static carnot_status* set_input(cli_session* session, uint32_t index, const char* file,
                                const cli_shapes* shapes, const cli_image_options* image) {
  const carnot_plan_binding* b = &session->context->plan->bindings[index];
  carnot_dims dims = {.rank = b->rank};
  carnot_rt_value cell;
  if (!file || b->rank >= 0) CARNOT_TRY(cli_input_dims(b, shapes, dims.d));
  if (file)
    CARNOT_TRY(cli_read_tensor(file, b, &dims, image, &session->arena, &cell));
  else
    CARNOT_TRY(cli_random_tensor(b, dims.d, &session->arena, &cell));
  CARNOT_TRY_AT(carnot_context_set_input_cell(session->context, index, &cell), "%s",
                file ? file : b->name);
  return NULL;
}

carnot_status* cli_session_read(cli_session* session, cli_flags* flags, const cli_shapes* shapes,
                                const cli_image_options* image, bool random) {
  const carnot_plan* plan = session->context->plan;
  uint32_t input_count = 0;
  for (uint32_t i = 0; i < plan->binding_count; i++) input_count += plan->bindings[i].is_input;
  CARNOT_TRY(check_names(flags, plan, input_count));
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    if (!plan->bindings[i].is_input) continue;
    const char* name = plan->bindings[i].name;
    const char* file = file_for(flags, name, input_count);
    CARNOT_CHECK(file || random, INVALID_ARGUMENT, "input %s has no file: give --input %s=FILE",
                 name, name);
    CARNOT_TRY(set_input(session, i, file, shapes, image));
  }
  return NULL;
}

carnot_status* cli_session_random(cli_session* session, const cli_shapes* shapes) {
  const carnot_plan* plan = session->context->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (plan->bindings[i].is_input) CARNOT_TRY(set_input(session, i, NULL, shapes, NULL));
  return NULL;
}

carnot_status* cli_profile_begin(cli_session* session) {
  void* times;
  CARNOT_TRY(carnot_calloc((size_t)session->context->plan->step_count + 1, sizeof(carnot_step_time),
                           "a profile", &times));
  session->context->times = times;
  return NULL;
}

carnot_status* cli_session_profile(cli_session* session, int runs, carnot_step_time** out_times) {
  *out_times = NULL;
  for (int i = 0; i < 3; i++) CARNOT_TRY(carnot_context_run_now(session->context));
  CARNOT_TRY(cli_profile_begin(session));
  carnot_step_time* times = session->context->times;
  carnot_status* status = NULL;
  for (int i = 0; !status && i < runs; i++) status = carnot_context_run_now(session->context);
  session->context->times = NULL;
  if (status)
    free(times);
  else
    *out_times = times;
  return status;
}

void cli_profile_print(const cli_session* session) {
  const carnot_context* context = session->context;
  const carnot_plan* plan = context->plan;
  double total = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) total += (double)context->times[i].total_ns;
  fprintf(stderr, "%10s %6s %6s  %-28s %s\n", "us", "%", "calls", "tactic", "layer");
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const carnot_step_time* t = &context->times[i];
    if (!t->count) continue;
    fprintf(stderr, "%10.2f %6.2f %6llu  %-28s %s\n", (double)t->total_ns / (double)t->count * 1e-3,
            100 * (double)t->total_ns / total, (unsigned long long)t->count,
            plan->steps[i].variants[context->steps[i].variant].tactic, plan->steps[i].name);
  }
}
