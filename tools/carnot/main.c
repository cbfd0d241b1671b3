// carnot: the command line. One file a subcommand.
#include <stdlib.h>

#include "cli.h"

static const struct {
  const char* name;
  carnot_status* (*run)(cli_flags* flags);
  const char* does;
} kCommands[] = {
    {"run", cli_run, "run a model or engine on files"},
    {"bench", cli_bench, "time a model or engine"},
    {"build", cli_build, "build an engine from a model"},
    {"inspect", cli_inspect, "tell what an engine holds"},
};
enum { kCommandCount = sizeof(kCommands) / sizeof(kCommands[0]) };

static int usage(FILE* out) {
  fputs("carnot reads a trained network, fits it to this machine and runs it.\n\n", out);
  for (size_t i = 0; i < kCommandCount; i++) fprintf(out, "  carnot %-8s %s\n", kCommands[i].name, kCommands[i].does);
  return out == stdout ? 0 : 2;
}

int main(int argc, char** argv) {
  if (argc < 2) return usage(stderr);
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) return usage(stdout);
  for (size_t i = 0; i < kCommandCount; i++) {
    if (strcmp(argv[1], kCommands[i].name) != 0) continue;
    cli_flags flags;
    carnot_status* status = cli_flags_init(&flags, argc - 2, argv + 2);
    if (!status) status = kCommands[i].run(&flags);
    if (status) fprintf(stderr, "carnot %s: %s: %s\n", argv[1], carnot_code_name(carnot_status_code(status)), carnot_status_message(status));
    int code = status ? 1 : 0;
    carnot_status_free(status);
    cli_flags_deinit(&flags);
    return code;
  }
  fprintf(stderr, "carnot: there is no command %s\n", argv[1]);
  return usage(stderr);
}
