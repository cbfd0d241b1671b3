// carnot completion bash: the subcommands and the flags of their tables.
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void print_flags(const cli_command* command) {
  for (const cli_flag* const* table = command->tables; *table; table++)
    for (const cli_flag* f = *table; f->name; f++) printf("--%s ", f->name);
}

carnot_status* cli_completion(cli_flags* flags) {
  const char* shell = cli_word(flags, 0);
  CLI_CHECK(shell && strcmp(shell, "bash") == 0, INVALID_ARGUMENT,
            "completion for '%s' is not known, must be bash", shell ? shell : "");
  puts(
      "# Completion of carnot for bash.\n_carnot() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" "
      "flags=\"\"\n  if [ \"$COMP_CWORD\" = 1 ]; then");
  printf("    COMPREPLY=($(compgen -W \"help --version");
  for (const cli_command* c = cli_commands; c->name; c++) printf(" %s", c->name);
  puts("\" -- \"$word\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}\" in");
  for (const cli_command* c = cli_commands; c->name; c++) {
    printf("    %s) flags=\"", c->name);
    print_flags(c);
    puts("\" ;;");
  }
  puts(
      "  esac\n  case \"$word\" in\n    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n "
      "   *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\n"
      "complete -o filenames -F _carnot carnot");
  return NULL;
}
