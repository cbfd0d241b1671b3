// carnot: the command line. One file a subcommand.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_options.h"
#include "carnot/machine.h"
#include "cli.h"
#include "log.h"

#define CARNOT_VERSION "0.1.0"

#define TABLES(...) ((const cli_flag* const[]){__VA_ARGS__, cli_log_flags, NULL})
#define BUILD_TABLE cli_build_flag_table

static const cli_flag kNoFlags[] = {{NULL, CLI_NO_VALUE, CLI_WORKS, NULL}};

const cli_command cli_commands[] = {
    {"exec", NULL, "build and time with trtexec's flags",
     "carnot exec --onnx=MODEL [--saveEngine=ENGINE] [FLAGS]", 0,
     (const cli_flag* const[]){cli_exec_flags, BUILD_TABLE, NULL}},
    {"run", cli_run, "run a model or engine on files",
     "carnot run MODEL_OR_ENGINE --input NAME=FILE …", 1, TABLES(cli_run_flags, BUILD_TABLE)},
    {"bench", cli_bench, "time a model or engine", "carnot bench MODEL_OR_ENGINE [FLAGS]", 1,
     TABLES(cli_bench_flags, BUILD_TABLE)},
    {"build", cli_build, "build an engine from a model", "carnot build MODEL --output ENGINE", 1,
     TABLES(cli_build_flags_own, BUILD_TABLE)},
    {"quantize", cli_quantize, "write an ONNX model with Q/DQ nodes",
     "carnot quantize MODEL.onnx --output=QUANTIZED.onnx (--calibData=DIR | --calib=CACHE | "
     "--types=int4): a standard file for Carnot, ONNX Runtime, OpenVINO and TensorRT",
     1, TABLES(cli_quantize_flags, BUILD_TABLE)},
    {"inspect", cli_inspect, "print what a model or an engine holds",
     "carnot inspect MODEL_OR_ENGINE [FLAGS]", 1, TABLES(cli_inspect_flags, BUILD_TABLE)},
    {"report", cli_report, "write an HTML page about an engine",
     "carnot report MODEL_OR_ENGINE [--compare=OTHER] [--output=report.html]: one page without "
     "network access; docs/how-to-read-a-report.md explains it",
     1, TABLES(cli_report_flags, BUILD_TABLE)},
    {"compare", cli_compare, "compare two models on the same inputs",
     "carnot compare A B_OR_FOLDER: B may be a folder of .npy files as `run --output-dir` writes; "
     "the exit code is 0 when they agree, 1 when they differ, 2 when something failed",
     2, TABLES(cli_compare_flags, BUILD_TABLE)},
    {"debug", cli_debug, "find where a wrong result comes from",
     "carnot debug WHAT MODEL\n"
     "  compare    every layer of the engine beside the reference kernels; the first that differs\n"
     "  passes     which pass takes part in a fault\n"
     "  precision  which layers must stay float32 (--fp16 or --bf16; --each tries them one by "
     "one)\n"
     "  backends   every instruction set, no passes, half types, side by side\n"
     "  reduce     --output-dir=DIR: the smallest part of the model that fails, with its tensors\n"
     "  split      --at=TENSOR,… --output-dir=DIR: the model in two",
     2, TABLES(cli_debug_flags, BUILD_TABLE)},
    {"device", cli_device, "print what this machine is and can do", "carnot device [FLAGS]", 0,
     TABLES(cli_device_flags)},
    {"completion", cli_completion, "write a completion file or the manual page",
     "carnot completion bash > /etc/bash_completion.d/carnot\n"
     "carnot completion zsh > /usr/share/zsh/site-functions/_carnot\n"
     "carnot completion fish > /usr/share/fish/vendor_completions.d/carnot.fish\n"
     "carnot completion man > carnot.1",
     1, TABLES(kNoFlags)},
    {NULL, NULL, NULL, NULL, 0, NULL},
};

static const cli_command* find_command(const char* name) {
  for (const cli_command* c = cli_commands; c->name; c++)
    if (strcmp(c->name, name) == 0) return c;
  return NULL;
}

static int usage(FILE* out) {
  fputs("carnot reads a trained network, fits it to this machine and runs it.\n\n", out);
  for (const cli_command* c = cli_commands; c->name; c++)
    fprintf(out, "  carnot %-10s  %s\n", c->name, c->does);
  fputs("  carnot help COMMAND  its flags\n  carnot --version\n", out);
  return out == stdout ? 0 : 2;
}

static int unknown(const char* name) {
  const char* nearest = NULL;
  int best = cli_nearest_limit(name);
  for (const cli_command* c = cli_commands; c->name; c++) {
    int d = cli_distance(name, c->name);
    if (d < best) best = d, nearest = c->name;
  }
  fprintf(stderr,
          nearest ? "carnot: there is no command %s; the nearest is %s\n"
                  : "carnot: there is no command %s\n",
          name, nearest);
  return usage(stderr);
}

static int help(const char* name) {
  if (!name) return usage(stdout);
  if (strcmp(name, "exec") == 0) return cli_exec(2, (char*[]){"carnot exec", "--help", NULL});
  const cli_command* command = find_command(name);
  if (!command) return unknown(name);
  printf("%s: %s\n\n%s\n", command->name, command->does, command->usage);
  cli_flags_help(command->tables, CLI_WORKS);
  return 0;
}

// The exit codes: 0, 1 where the command failed, 2 where the command line is wrong. compare and
// debug answer as diff does: 1 where something differs, 2 for every failure.
static int exit_code(const cli_command* command, bool parsed, const carnot_status* status) {
  if (!status) return 0;
  bool answers = command->run == cli_compare || command->run == cli_debug;
  const char* message = carnot_status_message(status);
  if (!parsed || strncmp(message, CLI_USAGE, strlen(CLI_USAGE)) == 0) return 2;
  if (answers) return strncmp(message, CLI_DIFFERENT, strlen(CLI_DIFFERENT)) == 0 ? 1 : 2;
  return 1;
}

static carnot_status* parse(const cli_command* command, int argc, char** argv, cli_flags* flags) {
  CLI_TRY(cli_flags_parse(command->tables, argc, argv, flags));
  CLI_TRY(cli_log_configure(flags));
  CLI_CHECK(flags->word_count <= command->word_count, INVALID_ARGUMENT,
            "unexpected argument '%s': %s", cli_word(flags, command->word_count), command->usage);
  return NULL;
}

static int run_command(const cli_command* command, int argc, char** argv) {
  for (int i = 0; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return help(command->name);
  cli_flags flags;
  carnot_status* status = parse(command, argc, argv, &flags);
  bool parsed = !status;
  if (parsed) status = carnot_environment_check();
  if (!status) status = command->run(&flags);
  cli_end_progress();
  if (status) cli_say(CLI_SAY_ERROR, "carnot %s: %s", command->name, carnot_status_message(status));
  int code = exit_code(command, parsed, status);
  carnot_status_free(status);
  cli_flags_deinit(&flags);
  return code;
}

static int dispatch(int argc, char** argv) {
  const char* called = argc ? strrchr(argv[0], '/') : NULL;
  called = called ? called + 1 : argc ? argv[0] : "";
  if (strcmp(called, "trtexec") == 0) return cli_exec(argc, argv);
  if (argc < 2) return usage(stderr);
  if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
    printf("carnot %s\n", CARNOT_VERSION);
    return 0;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
    return help(argv[1][0] == '-' ? NULL : argv[2]);
  const cli_command* command = find_command(argv[1]);
  if (!command) return unknown(argv[1]);
  if (!command->run) return cli_exec(argc - 1, argv + 1);
  return run_command(command, argc - 2, argv + 2);
}

// ---- the process ----

static void end_by_signal(int signal_number) {
  carnot_remove_temporary_files();
  raise(signal_number);  // SA_RESETHAND: the default action ends the process
}

// A signal that ends the process leaves no temporary file; a file size limit is an error of write.
static void handle_signals(void) {
  static const int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = SA_RESETHAND | SA_NODEFER};
  for (size_t i = 0; i < CLI_COUNT(kSignals); i++) {
    struct sigaction old;
    // nohup ignores SIGHUP: so it stays.
    if (sigaction(kSignals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction(kSignals[i], &action, NULL);
  }
  signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char** argv) {
  handle_signals();
  int code = dispatch(argc, argv);
  // What was printed must have arrived: the disk may be full, or the reader of a pipe gone.
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fputs("carnot: cannot write to the standard output\n", stderr);
    return code ? code : 1;
  }
  return code;
}
