#include <errno.h>
#include <stdlib.h>

#include "cli.h"

carnot_status* cli_flags_init(cli_flags* flags, int argc, char** argv) {
  *flags = (cli_flags){.argc = argc, .argv = argv};
  void* used;
  CARNOT_TRY(carnot_calloc((size_t)argc + 1, sizeof(bool), "flags", &used));
  flags->used = used;
  return NULL;
}
void cli_flags_deinit(cli_flags* flags) {
  free(flags->used);
  carnot_arena_deinit(&flags->arena);
}

static bool is_flag(const char* arg) {
  return arg[0] == '-' && arg[1] != 0 && !(arg[1] >= '0' && arg[1] <= '9');
}

// The name behind the dashes, and its value where one is attached.
static bool matches(const char* arg, const char* name, const char** out_value) {
  if (!is_flag(arg)) return false;
  arg += arg[1] == '-' ? 2 : 1;
  size_t length = strlen(name);
  if (strncmp(arg, name, length) != 0) return false;
  *out_value = arg[length] == '=' ? arg + length + 1 : NULL;
  return arg[length] == 0 || arg[length] == '=';
}

const char* cli_flag_each(cli_flags* flags, const char* name, int index) {
  for (int i = 0; i < flags->argc; i++) {
    const char* value;
    if (!matches(flags->argv[i], name, &value)) continue;
    flags->used[i] = true;
    bool apart = !value && i + 1 < flags->argc && !is_flag(flags->argv[i + 1]);
    if (apart) {
      value = flags->argv[i + 1];
      flags->used[i + 1] = true;
    }
    if (index-- == 0) return value ? value : "";
  }
  return NULL;
}

const char* cli_flag_text(cli_flags* flags, const char* name) {
  const char* last = NULL;
  const char* value;
  for (int i = 0; (value = cli_flag_each(flags, name, i)) != NULL; i++) last = value;
  return last;
}

bool cli_flag_set(cli_flags* flags, const char* name) {
  bool found = false;
  for (int i = 0; i < flags->argc; i++) {
    const char* value;
    if (!matches(flags->argv[i], name, &value)) continue;
    flags->used[i] = found = true;
    if (value && (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)) found = false;
  }
  return found;
}

carnot_status* cli_flag_number(cli_flags* flags, const char* name, double min, double max,
                               double* value) {
  const char* text = cli_flag_text(flags, name);
  if (!text) return NULL;
  char* end;
  errno = 0;
  double number = strtod(text, &end);
  CARNOT_CHECK(end != text && *end == 0 && number >= min && number <= max, INVALID_ARGUMENT,
               "--%s is '%s', must be a number in [%g, %g]", name, text, min, max);
  *value = number;
  return NULL;
}

carnot_status* cli_flag_int(cli_flags* flags, const char* name, long long min, long long max,
                            long long* value) {
  const char* text = cli_flag_text(flags, name);
  if (!text) return NULL;
  char* end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  CARNOT_CHECK(end != text && *end == 0 && errno == 0 && number >= min && number <= max,
               INVALID_ARGUMENT, "--%s is '%s', must be an integer in [%lld, %lld]", name, text,
               min, max);
  *value = number;
  return NULL;
}

const char* cli_word(cli_flags* flags, int index) {
  for (int i = 0; i < flags->argc; i++) {
    if (flags->used[i] || is_flag(flags->argv[i])) continue;
    if (index-- == 0) {
      return flags->argv[i];
    }
  }
  return NULL;
}

// Cut off at 64 characters.
int cli_distance(const char* a, const char* b) {
  int row[65];
  size_t n = strlen(b);
  if (n > 64) return 999;
  for (size_t j = 0; j <= n; j++) row[j] = (int)j;
  for (size_t i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= n; j++) {
      int cost = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < cost) cost = row[j] + 1;
      if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
      row[j] = cost;
    }
  }
  return row[n];
}

carnot_status* cli_flags_finish(cli_flags* flags, const char* const* known) {
  for (int i = 0; i < flags->argc; i++) {
    if (flags->used[i] || !is_flag(flags->argv[i])) continue;
    char name[65];
    const char* start = flags->argv[i] + (flags->argv[i][1] == '-' ? 2 : 1);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(start, "="), start);
    const char* nearest = NULL;
    int best = 999;
    for (size_t k = 0; known && known[k]; k++) {
      int d = cli_distance(name, known[k]);
      if (d < best) best = d, nearest = known[k];
    }
    return nearest ? CARNOT_ERROR(INVALID_ARGUMENT, "unknown flag %s; the nearest is --%s",
                                  flags->argv[i], nearest)
                   : CARNOT_ERROR(INVALID_ARGUMENT, "unknown flag %s", flags->argv[i]);
  }
  return NULL;
}
