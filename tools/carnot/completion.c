// carnot completion bash|zsh|fish|man: completion files and the manual page, from the tables of the
// subcommands' flags.
#include <stdio.h>
#include <string.h>

#include "carnot/builder.h"
#include "carnot/machine.h"
#include "cli.h"

// ---- values that flags and arguments take ----

static const struct {
  const char *flag, *values;
} kValues[] = {
    {"backend",
     "cpu cuda cuda:0 cuda:sm_75 cuda:sm_80 cuda:sm_86 cuda:sm_89 cuda:sm_90 cuda:sm_100"},
    {"builderOptimizationLevel", "0 1 2 3 4 5"},
    {"fp32", "exact fast"},
    {"layout", "nchw nhwc"},
    {"log", "text json"},
    {"precisionConstraints", "none prefer obey"},
    {"profilingVerbosity", "layer_names_only detailed none"},
    {"tacticSources", "-CUBLAS -CUBLAS_LT -CUDNN -ONEDNN +CUBLAS +CUBLAS_LT +CUDNN +ONEDNN"}};

static const struct {
  const char *command, *words;
} kWords[] = {{"debug", "compare passes precision backends reduce split"},
              {"completion", "bash zsh fish man"}};

static void print_passes(void) {
  const char* pass;
  for (size_t i = 0; (pass = carnot_pass_name(i, NULL)) != NULL; i++) printf("%s ", pass);
}

// The values of |flag|, with spaces between; false where it takes any.
static bool print_values(const char* flag) {
  const char* isa;
  if (strcmp(flag, "isa") == 0) {
    for (int i = 0; (isa = carnot_isa_level_name(i)) != NULL; i++) printf("%s ", isa);
    return true;
  }
  if (strcmp(flag, "disablePasses") == 0 || strcmp(flag, "dumpGraph") == 0) {
    print_passes();
    return true;
  }
  for (size_t i = 0; i < CLI_COUNT(kValues); i++)
    if (strcmp(kValues[i].flag, flag) == 0) return fputs(kValues[i].values, stdout) >= 0;
  return false;
}

static bool has_values(const char* flag) {
  if (strcmp(flag, "isa") == 0 || strcmp(flag, "disablePasses") == 0 ||
      strcmp(flag, "dumpGraph") == 0)
    return true;
  for (size_t i = 0; i < CLI_COUNT(kValues); i++)
    if (strcmp(kValues[i].flag, flag) == 0) return true;
  return false;
}

static const char* words_of(const char* command) {
  for (size_t i = 0; i < CLI_COUNT(kWords); i++)
    if (strcmp(kWords[i].command, command) == 0) return kWords[i].words;
  return NULL;
}

// Calls |visit| for every flag of |command| that works.
static void each_flag(const cli_command* command,
                      void (*visit)(const cli_command* command, const cli_flag* flag)) {
  for (const cli_flag* const* table = command->tables; *table; table++)
    for (const cli_flag* f = *table; f->name; f++)
      if (f->class != CLI_REFUSED) visit(command, f);
}

static void print_commands(void) {
  printf("help");
  for (const cli_command* c = cli_commands; c->name; c++) printf(" %s", c->name);
}

// ---- bash and zsh: a case for each command and each flag with values ----

static void print_flag_name(const cli_command* command, const cli_flag* f) {
  (void)command;
  printf("--%s%s ", f->name, f->value == CLI_VALUE ? "=" : "");
}

// "case" branches that set |flags| and |words| of the subcommand, then |values| of the flag.
static void print_shell_cases(void) {
  puts("  case \"$command\" in");
  printf("    help) words=\"");
  print_commands();
  puts("\" ;;");
  for (const cli_command* c = cli_commands; c->name; c++) {
    printf("    %s) flags=\"", c->name);
    each_flag(c, print_flag_name);
    printf("\"");
    if (words_of(c->name)) printf(" words=\"%s\"", words_of(c->name));
    puts(" ;;");
  }
  puts("  esac\n  case \"$flag\" in");
  const char* const kOwn[] = {"isa", "disablePasses", "dumpGraph"};
  for (size_t i = 0; i < CLI_COUNT(kOwn) + CLI_COUNT(kValues); i++) {
    const char* flag = i < CLI_COUNT(kOwn) ? kOwn[i] : kValues[i - CLI_COUNT(kOwn)].flag;
    printf("    --%s) values=\"", flag);
    print_values(flag);
    puts("\" ;;");
  }
  puts("  esac");
}

static void print_bash(void) {
  puts(
      "# Completion of carnot for bash.\n_carnot() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" command=\"${COMP_WORDS[1]}\" flag=\"\"\n"
      "  local flags=\"\" words=\"\" values=\"\"\n"
      "  # bash takes --isa=x apart at the sign.\n"
      "  if [ \"$word\" = \"=\" ]; then flag=\"${COMP_WORDS[COMP_CWORD-1]}\"; word=\"\"\n"
      "  elif [ \"$COMP_CWORD\" -gt 1 ] && [ \"${COMP_WORDS[COMP_CWORD-1]}\" = \"=\" ]; then\n"
      "    flag=\"${COMP_WORDS[COMP_CWORD-2]}\"\n  fi");
  print_shell_cases();
  printf("  if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W \"--help --version ");
  print_commands();
  puts(
      "\" -- \"$word\"))\n"
      "  elif [ -n \"$flag\" ]; then\n"
      "    if [ -n \"$values\" ]; then COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
      "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
      "  elif [[ \"$word\" == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
      "    [[ \"${COMPREPLY[0]}\" == *= ]] && compopt -o nospace\n"
      "  elif [ \"$COMP_CWORD\" = 2 ] && [ -n \"$words\" ]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\n"
      "complete -o filenames -F _carnot carnot");
}

static void print_zsh(void) {
  puts(
      "#compdef carnot\n# Completion of carnot for zsh.\n"
      "local word=\"${words[CURRENT]}\" command=\"${words[2]}\" flag=\"\" flags=\"\" values=\"\"\n"
      "local arguments=\"\"\n"
      "[[ \"$word\" == --*=* ]] && flag=\"${word%%=*}\"\n"
      "() {\n  local words=\"\"");
  print_shell_cases();
  puts("  arguments=\"$words\"\n}");
  printf("if (( CURRENT == 2 )); then compadd -- --help --version ");
  print_commands();
  puts(
      "\nelif [[ -n \"$flag\" ]]; then\n"
      "  compset -P '*='\n"
      "  if [[ -n \"$values\" ]]; then compadd -- ${=values}; else _files; fi\n"
      "elif [[ \"$word\" == -* ]]; then compadd -S '' -- ${=flags}\n"
      "elif (( CURRENT == 3 )) && [[ -n \"$arguments\" ]]; then compadd -- ${=arguments}\n"
      "else _files; fi");
}

// ---- fish ----

// In single quotes.
static void print_quoted(const char* text) {
  putchar('\'');
  for (; *text; text++) {
    if (*text == '\'' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('\'');
}

static void print_fish_flag(const cli_command* command, const cli_flag* f) {
  printf("complete -c carnot -n '__fish_seen_subcommand_from %s' -l %s", command->name, f->name);
  if (f->value != CLI_NO_VALUE) printf(" -r");
  if (has_values(f->name)) {
    printf(" -f -a '");
    print_values(f->name);
    putchar('\'');
  }
  printf(" -d ");
  print_quoted(f->note);
  putchar('\n');
}

static void print_fish(void) {
  puts("# Completion of carnot for fish.");
  for (const cli_command* c = cli_commands; c->name; c++) {
    printf("complete -c carnot -n __fish_use_subcommand -f -a %s -d ", c->name);
    print_quoted(c->does);
    putchar('\n');
    if (words_of(c->name))
      printf("complete -c carnot -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", c->name,
             words_of(c->name));
    each_flag(c, print_fish_flag);
  }
}

// ---- the manual page ----

// Text for troff: '-' and '\' are escaped, a '.' at the beginning is no request.
static void print_troff(const char* text) {
  for (const char* at = text; *at; at++) {
    if ((*at == '.' || *at == '\'') && (at == text || at[-1] == '\n')) fputs("\\&", stdout);
    if (*at == '-' || *at == '\\') putchar('\\');
    if (strncmp(at, "…", strlen("…")) == 0) {
      fputs("...", stdout);
      at += strlen("…") - 1;
    } else {
      putchar(*at);
    }
  }
}

static void print_man_flag(const cli_command* command, const cli_flag* f) {
  (void)command;
  printf(".TP\n.B ");
  print_troff("--");
  print_troff(f->name);
  puts(f->value == CLI_VALUE       ? "=\\fIVALUE\\fR"
       : f->value == CLI_MAY_VALUE ? "[=\\fIVALUE\\fR]"
                                   : "");
  print_troff(f->note);
  putchar('\n');
}

static void print_man(void) {
  puts(
      ".TH CARNOT 1 \"\" \"carnot\" \"User Commands\"\n.SH NAME\n"
      "carnot \\- read a trained network, optimize it for this machine and run it\n"
      ".SH SYNOPSIS\n.B carnot\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]\n.SH COMMANDS");
  for (const cli_command* c = cli_commands; c->name; c++) {
    printf(".SS carnot %s\n", c->name);
    print_troff(c->does);
    puts(".\n.PP\n.nf");
    print_troff(c->usage);
    puts("\n.fi");
    each_flag(c, print_man_flag);
  }
  puts(
      ".SH EXIT STATUS\n.TP\n0\nThe command did what it was asked.\n"
      ".TP\n1\nIt failed; compare and debug: something differs.\n"
      ".TP\n2\nThe command line is wrong; compare and debug: any failure.\n"
      ".SH ENVIRONMENT\n"
      ".TP\n.B CARNOT_THREADS\nThreads of builds and runs where none are given; 0: one for each "
      "processor.\n"
      ".TP\n.B CARNOT_ISA\nThe highest CPU ISA level to use.\n"
      ".TP\n.B CARNOT_DEVICE\nThe device where none is given: cpu, cuda, cuda:N.\n"
      ".TP\n.B CARNOT_CUDA_MODULE\nThe path of libcarnot_cuda.so.\n"
      ".TP\n.B CARNOT_CUDA_TACTICS\nThe CUDA tactics to use, for finding a wrong one.\n"
      ".TP\n.B NO_COLOR\nNo colours on terminals.\n"
      ".SH NOTES\nCalled trtexec, by a link of that name, it is carnot exec.");
}

carnot_status* cli_completion(cli_flags* flags) {
  static const struct {
    const char* name;
    void (*print)(void);
  } kShells[] = {
      {"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}, {"man", print_man}};
  const char* shell = cli_word(flags, 0);
  for (size_t i = 0; shell && i < CLI_COUNT(kShells); i++)
    if (strcmp(shell, kShells[i].name) == 0) {
      kShells[i].print();
      return NULL;
    }
  return CLI_ERROR(INVALID_ARGUMENT,
                   CLI_USAGE "carnot completion bash|zsh|fish|man; '%s' was given",
                   shell ? shell : "");
}
