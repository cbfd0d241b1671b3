// The subcommands of the command line.
#ifndef CARNOT_TOOLS_CLI_H_
#define CARNOT_TOOLS_CLI_H_

#include "flags.h"

typedef struct cli_command {
  const char* name;
  carnot_status* (*run)(cli_flags* flags);  // NULL: exec, which reports errors itself
  const char* does;
  const char* usage;              // lines of text
  int word_count;                 // arguments that are no flags, at most
  const cli_flag* const* tables;  // of its flags, ends with NULL
} cli_command;
extern const cli_command cli_commands[];  // ends with a NULL name

carnot_status* cli_run(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_bench(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_build(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_quantize(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_inspect(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_debug(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_report(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_compare(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_device(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_completion(cli_flags* flags) CARNOT_MUST_USE;
// argv[0] is the name it was called by. Returns the exit code of the process.
int cli_exec(int argc, char** argv);

// The own flags of each subcommand.
extern const cli_flag cli_run_flags[], cli_bench_flags[], cli_build_flags_own[],
    cli_inspect_flags[], cli_debug_flags[], cli_compare_flags[], cli_device_flags[],
    cli_exec_flags[], cli_report_flags[], cli_quantize_flags[];

#endif  // CARNOT_TOOLS_CLI_H_
