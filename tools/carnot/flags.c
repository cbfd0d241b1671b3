// The parser of flags, by the tables of the subcommands.
#include "flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A negative number is no flag.
static bool is_flag(const char* arg) {
  return arg[0] == '-' && arg[1] != 0 && !(arg[1] >= '0' && arg[1] <= '9');
}

static const cli_flag* find(const cli_flag* const* tables, const char* name, size_t length) {
  for (; *tables; tables++)
    for (const cli_flag* f = *tables; f->name; f++)
      if (strlen(f->name) == length && memcmp(f->name, name, length) == 0) return f;
  return NULL;
}

static bool has_flag(const cli_flag* const* tables, const char* name) {
  return find(tables, name, strlen(name)) != NULL;
}

// What users of other tools write, and the flag here.
static const char* other_name(const cli_flag* const* tables, const char* name) {
  static const char* const kNames[][2] = {
      {"batch", "shapes"},      {"batch_size", "shapes"}, {"o", "saveEngine"}, {"i", "input"},
      {"saveEngine", "output"}, {"verbosity", "verbose"}, {"v", "verbose"},    {"q", "quiet"}};
  for (size_t i = 0; i < CLI_COUNT(kNames); i++)
    if (strcmp(kNames[i][0], name) == 0 && has_flag(tables, kNames[i][1])) return kNames[i][1];
  return NULL;
}

// -o is --output where that is a file; the --output of trtexec names a result.
static const cli_flag* find_short(const cli_flag* const* tables, const char* arg) {
  const bool is_output = arg[1] == 'o' && (arg[2] == 0 || arg[2] == '=');
  return is_output && !has_flag(tables, "saveEngine") ? find(tables, "output", strlen("output"))
                                                      : NULL;
}

static carnot_status* unknown(const cli_flag* const* tables, const char* arg, const char* start) {
  char name[65];
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(start, "="), start);
  const char* nearest = other_name(tables, name);
  CLI_CHECK(!nearest, INVALID_ARGUMENT, "unknown flag %s; use --%s", arg, nearest);
  int best = cli_nearest_limit(name);
  for (; *tables; tables++)
    for (const cli_flag* f = *tables; f->name; f++) {
      int d = cli_distance(name, f->name);
      if (d < best) best = d, nearest = f->name;
    }
  return nearest ? CLI_ERROR(INVALID_ARGUMENT, "unknown flag %s; the nearest is --%s", arg, nearest)
                 : CLI_ERROR(INVALID_ARGUMENT, "unknown flag %s; `carnot help` lists them", arg);
}

carnot_status* cli_flags_parse(const cli_flag* const* tables, int argc, char** argv,
                               cli_flags* out) {
  *out = (cli_flags){0};
  out->given = CLI_NEW_ARRAY(&out->arena, cli_given, (size_t)argc + 1);
  out->words = CLI_NEW_ARRAY(&out->arena, const char*, (size_t)argc + 1);
  for (int i = 0; i < argc; i++) {
    const char* arg = argv[i];
    if (!is_flag(arg)) {
      out->words[out->word_count++] = arg;
      continue;
    }
    const char* start = arg + 1 + (arg[1] == '-');
    const cli_flag* flag = find(tables, start, strcspn(start, "="));
    if (!flag) flag = find_short(tables, arg);
    if (!flag) return unknown(tables, arg, start);
    const char* value = strchr(start, '=');
    if (value) value++;
    bool wants = flag->value == CLI_VALUE && !value;
    if (wants && i + 1 < argc && !is_flag(argv[i + 1])) value = argv[++i];
    CLI_CHECK(flag->value != CLI_VALUE || (value && *value), INVALID_ARGUMENT,
              "--%s needs a value: --%s=…", flag->name, flag->name);
    CLI_CHECK(flag->value != CLI_NO_VALUE || !value, INVALID_ARGUMENT,
              "--%s takes no value, '%s' was given", flag->name, value);
    out->given[out->given_count++] = (cli_given){flag, value};
  }
  return NULL;
}

void cli_flags_deinit(cli_flags* flags) { cli_arena_deinit(&flags->arena); }

void cli_flags_help(const cli_flag* const* tables, cli_flag_class class) {
  for (; *tables; tables++)
    for (const cli_flag* f = *tables; f->name; f++) {
      if (f->class != class) continue;
      char name[64];
      snprintf(name, sizeof(name), "--%s%s", f->name,
               f->value == CLI_VALUE       ? "=…"
               : f->value == CLI_MAY_VALUE ? "[=…]"
                                           : "");
      // The ellipsis takes three bytes and one column.
      int width = f->value == CLI_NO_VALUE ? 36 : 38;
      printf("  %-*s %s\n", width, name, f->note);
    }
}

// ---- values ----

const char* cli_flag_each(const cli_flags* flags, const char* name, int index) {
  for (int i = 0; i < flags->given_count; i++) {
    const cli_given* given = &flags->given[i];
    if (strcmp(given->flag->name, name) == 0 && index-- == 0)
      return given->value ? given->value : "";
  }
  return NULL;
}

const char* cli_flag_text(const cli_flags* flags, const char* name) {
  const char *last = NULL, *value;
  for (int i = 0; (value = cli_flag_each(flags, name, i)) != NULL; i++) last = value;
  return last;
}

bool cli_flag_set(const cli_flags* flags, const char* name) {
  return cli_flag_each(flags, name, 0) != NULL;
}

carnot_status* cli_flag_number(const cli_flags* flags, const char* name, double min, double max,
                               double* value) {
  const char* text = cli_flag_text(flags, name);
  if (!text) return NULL;
  char* end;
  double number = strtod(text, &end);
  CLI_CHECK(end != text && *end == 0 && number >= min && number <= max, INVALID_ARGUMENT,
            "--%s is '%s', must be a number in [%g, %g]", name, text, min, max);
  *value = number;
  return NULL;
}

carnot_status* cli_flag_int(const cli_flags* flags, const char* name, long long min, long long max,
                            long long* value) {
  const char* text = cli_flag_text(flags, name);
  if (!text) return NULL;
  char* end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  CLI_CHECK(end != text && *end == 0 && errno == 0 && number >= min && number <= max,
            INVALID_ARGUMENT, "--%s is '%s', must be an integer in [%lld, %lld]", name, text, min,
            max);
  *value = number;
  return NULL;
}

carnot_status* cli_flag_choice(const cli_flags* flags, const char* name, const char* const* words,
                               int* value) {
  const char* text = cli_flag_text(flags, name);
  if (!text) return NULL;
  char list[256] = "";
  for (int i = 0; words[i]; i++) {
    if (strcmp(text, words[i]) == 0) {
      *value = i;
      return NULL;
    }
    snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", words[i]);
  }
  return CLI_ERROR(INVALID_ARGUMENT, "--%s is '%s', must be one of %s", name, text, list);
}

const char* cli_word(const cli_flags* flags, int index) {
  return index < flags->word_count ? flags->words[index] : NULL;
}
