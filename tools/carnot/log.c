// Messages and progress on the standard error.
#include "log.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cli_flag cli_log_flags[] = {
    {"verbose", CLI_NO_VALUE, CLI_WORKS, "print every message: tactics chosen, progress"},
    {"quiet", CLI_NO_VALUE, CLI_WORKS, "print errors only, no warnings and no progress"},
    {"log", CLI_VALUE, CLI_WORKS, "text or json: messages and progress as JSON lines"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

// One thread writes: builds call back on the thread that builds.
static struct {
  cli_severity most;  // what is written
  bool json;
  bool line;  // a progress line is on the terminal
  double start_ms, last_ms;
  char phase[64];
} g_log = {.most = CLI_SAY_WARNING};

// Before main: progress begins one second after the start of the program.
__attribute__((constructor)) static void start_clock(void) { g_log.start_ms = cli_now_ms(); }

carnot_status* cli_log_configure(const cli_flags* flags) {
  int json = 0;
  bool verbose = cli_flag_set(flags, "verbose"), quiet = cli_flag_set(flags, "quiet");
  CLI_TRY(cli_flag_choice(flags, "log", (const char* const[]){"text", "json", NULL}, &json));
  g_log.json = json == 1;
  CLI_CHECK(!verbose || !quiet, INVALID_ARGUMENT, "--verbose and --quiet exclude each other");
  if (verbose) g_log.most = CLI_SAY_DETAIL;
  if (quiet) g_log.most = CLI_SAY_ERROR;
  return NULL;
}

const char* cli_color_code(FILE* file, cli_color color) {
  static const char* const kCodes[] = {"\033[31m", "\033[32m", "\033[33m", "\033[0m"};
  const char* none = getenv("NO_COLOR");
  return isatty(fileno(file)) && !(none && *none) ? kCodes[color] : "";
}

static void print_json(json_t* line) {
  json_dumpf(line, stderr, JSON_COMPACT);
  fputc('\n', stderr);
  json_decref(line);
}

void cli_say(cli_severity severity, const char* format, ...) {
  static const char* const kNames[] = {"error", "warning", "information", "detail"};
  if (severity > g_log.most) return;
  char* made = NULL;
  const char* text = "out of memory";
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&made, format, arguments) >= 0) text = made;
  va_end(arguments);
  cli_end_progress();
  if (g_log.json) {
    print_json(json_pack("{s:s,s:s}", "severity", kNames[severity], "message", text));
  } else if (severity == CLI_SAY_WARNING) {
    fprintf(stderr, "%swarning:%s %s\n", cli_color_code(stderr, CLI_YELLOW),
            cli_color_code(stderr, CLI_PLAIN), text);
  } else {
    fprintf(stderr, "%s\n", text);
  }
  if (text == made) free(made);
}

void cli_say_build(void* user, int severity, const char* message) {
  (void)user;
  cli_say(severity < CLI_SAY_DETAIL ? (cli_severity)severity : CLI_SAY_DETAIL, "%s", message);
}

static const char* phase_text(const char* phase) {
  static const char* const kTexts[][2] = {{"passes", "rewriting the graph"},
                                          {"tactics", "timing tactics"},
                                          {"tuning", "tuning the whole run"},
                                          {"lowering", "packing weights"}};
  for (size_t i = 0; i < CLI_COUNT(kTexts); i++)
    if (strcmp(phase, kTexts[i][0]) == 0) return kTexts[i][1];
  return phase;
}

// Whether progress is written now: the first of a phase and the last at once, others five times a
// second.
static bool is_due(const char* phase, bool last) {
  double now = cli_now_ms();
  bool changed = strncmp(g_log.phase, phase, sizeof(g_log.phase) - 1) != 0;
  if (!changed && !last && now - g_log.last_ms < 200) return false;
  snprintf(g_log.phase, sizeof(g_log.phase), "%s", phase);
  g_log.last_ms = now;
  return true;
}

bool cli_say_progress(void* user, const char* phase, int done, int total) {
  (void)user;
  if (g_log.most == CLI_SAY_ERROR || !is_due(phase, done == total)) return true;
  if (g_log.json) {
    print_json(json_pack("{s:s,s:i,s:i}", "phase", phase, "done", done, "total", total));
    return true;
  }
  if (!isatty(STDERR_FILENO) || g_log.last_ms - g_log.start_ms < 1000) return true;
  g_log.line = true;
  fprintf(stderr, "\r\033[K%s", phase_text(phase));
  if (total > 1) fprintf(stderr, " %d of %d", done, total);
  fflush(stderr);
  return true;
}

void cli_say_phase(const char* phase) { cli_say_progress(NULL, phase, 0, 1); }

void cli_end_progress(void) {
  if (!g_log.line) return;
  g_log.line = false;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}
