// The environment variables of the library: names and values are checked, so that a typing error
// does not go unnoticed.
#include "carnot/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tactic/tactic.h"

static carnot_status* check_isa(const char* value) {
  carnot_isa isa = carnot_isa_find(value);
  if (isa != CARNOT_ISA_COUNT) {
    const char* lacks = carnot_isa_lacks(isa);
    CARNOT_CHECK(!lacks, UNSUPPORTED, "CARNOT_ISA is %s: %s", value, lacks);
    return NULL;
  }
  char list[512] = "";
  for (int i = 0; i < CARNOT_ISA_COUNT; i++)
    snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s",
             carnot_isa_name((carnot_isa)i));
  return CARNOT_ERROR(INVALID_ARGUMENT, "CARNOT_ISA is '%s', must be one of %s", value, list);
}

static carnot_status* check_threads(const char* value) {
  char* end;
  long count = strtol(value, &end, 10);
  CARNOT_CHECK(end != value && *end == 0 && count >= 0 && count <= 1024, INVALID_ARGUMENT,
               "CARNOT_THREADS is '%s', must be an integer in [0, 1024]", value);
  return NULL;
}

static carnot_status* check_device(const char* value) {
  bool cuda = strncmp(value, "cuda", 4) == 0 && (value[4] == 0 || value[4] == ':');
  CARNOT_CHECK(!*value || strcmp(value, "cpu") == 0 || cuda, INVALID_ARGUMENT,
               "CARNOT_DEVICE is '%s', must be cpu, cuda, cuda:N or cuda:sm_NN", value);
  return NULL;
}

static const struct {
  const char* name;
  carnot_status* (*check)(const char* value);  // NULL: any value, or checked where it is used
  bool is_for_tests;
} kVariables[] = {{"CARNOT_ISA", check_isa, false},       {"CARNOT_THREADS", check_threads, false},
                  {"CARNOT_DEVICE", check_device, false}, {"CARNOT_CUDA_MODULE", NULL, false},
                  {"CARNOT_CUDA_TACTICS", NULL, false},   {"CARNOT_TRT_VERSION", NULL, false},
                  {"CARNOT_ONEDNN", NULL, false},         {"CARNOT_CUDA_DRIVER", NULL, true},
                  {"CARNOT_FAKE_KERNELS", NULL, true},    {"CARNOT_FAKE_TIMES", NULL, true},
                  {"CARNOT_MODELS", NULL, true},          {"CARNOT_MUTATIONS", NULL, true},
                  {"CARNOT_OOM_STRIDE", NULL, true},      {"CARNOT_PLUGIN_LIBRARY", NULL, true},
                  {"CARNOT_TEST_DEVICE", NULL, true}};
enum { kVariableCount = sizeof(kVariables) / sizeof(kVariables[0]) };

static carnot_status* unknown(const char* entry, int length) {
  char list[512] = "";
  for (int i = 0; i < kVariableCount; i++)
    if (!kVariables[i].is_for_tests)
      snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s",
               kVariables[i].name);
  return CARNOT_ERROR(INVALID_ARGUMENT, "the environment variable %.*s is not known; known are %s",
                      length, entry, list);
}

carnot_status* carnot_environment_check(void) {
  for (char** entry = environ; entry && *entry; entry++) {
    if (strncmp(*entry, "CARNOT_", 7) != 0) continue;
    int length = (int)strcspn(*entry, "="), i = 0;
    while (i < kVariableCount && (strncmp(kVariables[i].name, *entry, (size_t)length) != 0 ||
                                  kVariables[i].name[length] != 0))
      i++;
    if (i == kVariableCount) return unknown(*entry, length);
    if (kVariables[i].check && (*entry)[length])
      CARNOT_TRY(kVariables[i].check(*entry + length + 1));
  }
  return NULL;
}
