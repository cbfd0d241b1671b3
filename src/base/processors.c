// How many processors this process may use: the affinity mask and the quota of the control group.
#include "base/processors.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int carnot_processors_of_quota(const char* text) {
  char* end;
  long long quota = strtoll(text, &end, 10);
  if (end == text || quota <= 0) return 0;
  long long period = strtoll(end, NULL, 10);
  return period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static int quota_in(const char* folder) {
  char path[600], text[64] = "";
  snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", folder);
  FILE* file = fopen(path, "re");
  if (!file) return 0;
  size_t got = fread(text, 1, sizeof(text) - 1, file);
  text[got] = 0;
  fclose(file);
  return carnot_processors_of_quota(text);
}

// The least quota of the group of this process and those above it (cgroup v2). In a container the
// group is "/".
static int quota_of_group(void) {
  char line[512] = "", *group = NULL;
  FILE* file = fopen("/proc/self/cgroup", "re");
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, "0::", 3) == 0) {
      group = line + 3;
      group[strcspn(group, "\n")] = 0;
      break;
    }
  if (file) fclose(file);
  int least = quota_in("");
  for (char* slash; group && (slash = strrchr(group, '/')) != NULL; *slash = 0) {
    int quota = strcmp(group, "/") == 0 ? 0 : quota_in(group);
    if (quota && (!least || quota < least)) least = quota;
  }
  return least;
}

int carnot_usable_processors(void) {
  const char* wanted = getenv("CARNOT_THREADS");
  int count = wanted ? atoi(wanted) : 0;
  if (count > 0) return count < 1024 ? count : 1024;
  cpu_set_t set;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int)online;
  int quota = quota_of_group();
  if (quota && quota < count) count = quota;
  return count > 0 ? count : 1;
}
