// carnot report ENGINE: one HTML page about an engine, or about two side by side.
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "layer_limits.h"
#include "log.h"

const cli_flag cli_report_flags[] = {
    {"output", CLI_VALUE, CLI_WORKS, "the HTML file to write (report.html)"},
    {"profile", CLI_VALUE, CLI_WORKS,
     "take layer times from the JSON of exec --exportProfile, inspect --peaks --json or "
     "--exportTimeline"},
    {"errors", CLI_VALUE, CLI_WORKS,
     "show each layer's error from the JSON of debug compare --json"},
    {"compare", CLI_VALUE, CLI_WORKS, "another model or engine to show beside"},
    {"compareProfile", CLI_VALUE, CLI_WORKS, "layer times of the other one"},
    {"noMeasure", CLI_NO_VALUE, CLI_WORKS,
     "run nothing here: times are those of the build, or of --profile"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: shapes to build a model for"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

typedef struct report_options {
  cli_build_options build;
  const char* output;
  bool measure;
} report_options;

// ---- one engine ----

static void warn(const char* what, carnot_status* status) {
  if (status) cli_say(CLI_SAY_WARNING, "%s: %s", what, carnot_status_message(status));
  carnot_status_free(status);
}

// Times and limits as this machine measures them. What cannot be measured is left out.
static void measure(cli_session* session, json_t* root, bool has_times) {
  cli_say_phase("measuring layers and machine");
  warn("layers are not measured",
       has_times ? cli_layer_limits_add(session, root) : cli_layer_limits_measure(session, root));
}

static carnot_status* record_timeline(cli_session* session, json_t** out_trace) {
  char* text;
  CLI_TRY(cli_session_random(session, NULL));
  CLI_TRY(carnot_context_record_timeline(session->context, /*runs=*/4, &text));
  *out_trace = json_loads(text, 0, NULL);
  carnot_memory_free(text);
  return *out_trace ? NULL : CLI_ERROR(INTERNAL, "the timeline is no JSON");
}

static void add_facts(const cli_session* session, const char* path, json_t* engine) {
  carnot_engine_stats stats;
  carnot_engine_get_stats(session->loaded.engine, &stats);
  const char* slash = strrchr(path, '/');
  json_object_set_new(engine, "file", json_string(slash ? slash + 1 : path));
  json_object_set_new(engine, "device", json_string(carnot_engine_device(session->loaded.engine)));
  json_object_set_new(engine, "file_bytes", json_integer((json_int_t)stats.file_bytes));
  json_object_set_new(engine, "workspace_bytes", json_integer((json_int_t)stats.workspace_bytes));
  json_object_set_new(engine, "load_ms", json_real(session->loaded.load_ms));
  json_object_set_new(engine, "build_ms", json_real(session->loaded.build_ms));
}

// The engine's file, and files with what was measured of it elsewhere (NULL: none).
typedef struct report_input {
  const char *path, *profile, *errors;
} report_input;

static carnot_status* describe(cli_session* session, const report_input* from, json_t* engines) {
  const char *path = from->path, *profile = from->profile;
  json_t *root = json_loads(carnot_engine_inspect(session->loaded.engine), 0, NULL), *trace = NULL;
  CLI_CHECK(root, INVALID_MODEL, "%s holds no readable inspector data", path);
  carnot_status* status = profile ? report_read_profile(profile, root, &trace) : NULL;
  if (!status && from->errors) status = report_read_errors(from->errors, root);
  bool has_limits = json_object_get(root, "Machine") != NULL;
  if (!status && session->context && !has_limits) measure(session, root, profile != NULL);
  if (!status && session->context && !profile)
    warn("no timeline", record_timeline(session, &trace));
  if (!status && profile) cli_layer_limits_sum(root);
  json_t* engine = report_compact(root);
  json_decref(root);
  json_array_append_new(engines, engine);
  add_facts(session, path, engine);
  if (trace) report_add_timeline(trace, engine);
  json_decref(trace);
  CLI_TRY(status);
  cli_say_phase("graph layout");
  return report_add_layout(engine);
}

// Opens the engine to run it where that is asked for and possible, else to read it.
static carnot_status* open_engine(const report_options* options, const char* path,
                                  cli_session* session) {
  CLI_TRY(cli_load(path, &options->build, &session->loaded));
  if (!options->measure) return NULL;
  cli_loaded loaded = session->loaded;
  carnot_engine_retain(loaded.engine);
  carnot_status* status = cli_session_start(&loaded, options->build.threads, session);
  if (!status) {
    carnot_engine_release(loaded.engine);
    return NULL;
  }
  warn("the engine cannot run here, so its layers are not measured", status);
  cli_session_close(session);
  *session = (cli_session){.loaded = loaded};
  return NULL;
}

static carnot_status* add_engine(const report_options* options, const report_input* from,
                                 json_t* engines) {
  cli_session session = {.context = NULL};
  carnot_status* status = open_engine(options, from->path, &session);
  if (!status) status = describe(&session, from, engines);
  cli_session_close(&session);
  return status;
}

// ---- the page ----

// Inside an HTML script a '<' may end it: JSON has an escape for it.
static char* escape_for_html(const char* text) {
  size_t extra = 0, length = strlen(text);
  for (const char* c = text; *c; c++) extra += *c == '<' ? 5 : 0;
  char* out = malloc(length + extra + 1);
  char* to = out;
  for (const char* c = text; out && *c; c++) {
    if (*c == '<') {
      memcpy(to, "\\u003c", 6);
      to += 6;
    } else {
      *to++ = *c;
    }
  }
  if (out) *to = 0;
  return out;
}

static carnot_status* write_page(const char* path, const json_t* document) {
  char* text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(6));
  char* data = text ? escape_for_html(text) : NULL;
  free(text);
  if (!data) return CLI_NO_MEMORY(0, "the report");
  carnot_piece pieces[] = {{report_page_head.data, report_page_head.size},
                           {data, strlen(data)},
                           {report_page_tail.data, report_page_tail.size}};
  carnot_status* status = carnot_write_file(path, pieces, CLI_COUNT(pieces));
  free(data);
  return status;
}

static carnot_status* read_options(cli_flags* flags, cli_shapes* shapes, report_options* out) {
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), shapes));
  cli_build_options_init(&out->build);
  out->build.opt = shapes;
  out->build.override_dynamic = true;
  CLI_TRY(cli_build_flags(flags, &out->build));
  out->measure = !cli_flag_set(flags, "noMeasure");
  out->output = cli_flag_text(flags, "output");
  if (!out->output) out->output = "report.html";
  CLI_CHECK(cli_word(flags, 0), INVALID_ARGUMENT,
            "usage: carnot report MODEL_OR_ENGINE [--profile=FILE] [--errors=FILE] "
            "[--compare=OTHER] "
            "[--output=report.html]");
  CLI_CHECK(!cli_flag_text(flags, "compareProfile") || cli_flag_text(flags, "compare"),
            INVALID_ARGUMENT, "usage: --compareProfile is given without --compare");
  return NULL;
}

static carnot_status* report(cli_flags* flags, cli_shapes* shapes, json_t* document) {
  report_options options = {.measure = false};
  CLI_TRY(read_options(flags, shapes, &options));
  json_t* engines = json_object_get(document, "engines");
  const report_input first = {cli_word(flags, 0), cli_flag_text(flags, "profile"),
                              cli_flag_text(flags, "errors")};
  const report_input other = {cli_flag_text(flags, "compare"),
                              cli_flag_text(flags, "compareProfile"), NULL};
  CLI_TRY(add_engine(&options, &first, engines));
  if (other.path) CLI_TRY(add_engine(&options, &other, engines));
  CLI_TRY(write_page(options.output, document));
  cli_say(CLI_SAY_INFO, "wrote %s", options.output);
  return NULL;
}

carnot_status* cli_report(cli_flags* flags) {
  cli_shapes shapes = {.count = 0};
  json_t* document = json_pack("{s:i,s:[]}", "version", 1, "engines");
  carnot_status* status = report(flags, &shapes, document);
  json_decref(document);
  cli_shapes_free(&shapes);
  return status;
}
