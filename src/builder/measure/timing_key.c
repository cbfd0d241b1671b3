// Keys of the timing cache: a problem, and the machine that it was timed on.
#include "builder/measure/timing_key.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/onednn/onednn_library.h"
#include "backend/device.h"
#include "base/hash.h"

static uint64_t mix(uint64_t h, uint64_t value) { return carnot_hash(&value, sizeof(value), h); }
static uint64_t mix_text(uint64_t h, const char* text) {
  return carnot_hash(text, strlen(text) + 1, h);
}

// ---- the machine ----

// The lines of /proc/cpuinfo that identify the CPU model, of the first processor.
static uint64_t mix_cpu_model(uint64_t h) {
  static const char* const kLines[] = {"vendor_id", "cpu family", "model", "stepping"};
  char line[512];
  FILE* file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof(line), file) && line[0] != '\n')
    for (size_t i = 0; i < sizeof(kLines) / sizeof(kLines[0]); i++)
      if (strncmp(line, kLines[i], strlen(kLines[i])) == 0) h = mix_text(h, line);
  if (file) fclose(file);
  return h;
}

static long cache_bytes(int name) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : 0;
}

size_t carnot_cached_weight_bytes(void) {
  // A last-level cache of more than 32 times the L2 of one core is that of many cores, and of other
  // machines where this one is virtual.
  enum { kMostL2 = 32 };
  const long l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE), l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
  const long share = kMostL2 * l2;
  return (size_t)(!l3 ? l2 : share && share < l3 ? share : l3);
}

uint64_t carnot_machine_hash(carnot_device* device) {
  enum { kMostLibraries = 16 };
  uint64_t h = mix_cpu_model(1);
  h = mix(h, (uint64_t)cache_bytes(_SC_LEVEL1_DCACHE_SIZE));
  h = mix(h, (uint64_t)cache_bytes(_SC_LEVEL2_CACHE_SIZE));
  h = mix(h, (uint64_t)cache_bytes(_SC_LEVEL3_CACHE_SIZE));
  const carnot_onednn* onednn;
  carnot_status* missing = carnot_onednn_open(&onednn);
  if (!missing) h = carnot_hash(onednn->version, sizeof(onednn->version), mix_text(h, "oneDNN"));
  carnot_status_free(missing);
  if (!device) return h;
  h = mix_text(h, device->name);
  carnot_device_library libraries[kMostLibraries];
  size_t count = device->backend->libraries(device, libraries, kMostLibraries);
  for (size_t i = 0; i < count; i++)
    h = mix_text(mix_text(h, libraries[i].name), libraries[i].version);
  return h;
}

// ---- the problem ----

static uint64_t mix_attr(uint64_t h, const carnot_attr* attr) {
  h = mix_text(mix(h, (uint64_t)attr->type), attr->name);
  switch (attr->type) {
    case CARNOT_ATTR_INT: return mix(h, (uint64_t)attr->i);
    case CARNOT_ATTR_FLOAT: return carnot_hash(&attr->f, sizeof(attr->f), h);
    case CARNOT_ATTR_STRING: return carnot_hash(attr->s.data, attr->s.size, mix(h, attr->s.size));
    case CARNOT_ATTR_INTS:
      return carnot_hash(attr->ints, attr->count * sizeof(*attr->ints), mix(h, attr->count));
    case CARNOT_ATTR_FLOATS:
      return carnot_hash(attr->floats, attr->count * sizeof(*attr->floats), mix(h, attr->count));
    case CARNOT_ATTR_STRINGS:
      h = mix(h, attr->count);
      for (size_t i = 0; i < attr->count; i++)
        h = carnot_hash(attr->strings[i].data, attr->strings[i].size,
                        mix(h, attr->strings[i].size));
      return h;
    default: return mix(h, attr->count);
  }
}

static uint64_t mix_operand(uint64_t h, const carnot_operand_desc* t) {
  h = carnot_format_hash(&t->format, mix(h, (uint64_t)t->kind));
  h = mix(mix(h, (uint64_t)(int64_t)t->rank), (uint64_t)t->is_constant);
  for (int d = 0; d < t->rank; d++) h = mix(h, (uint64_t)t->dims[d]);
  return h;
}

uint64_t carnot_problem_key(const carnot_problem* p, const carnot_timing_machine* machine) {
  uint64_t h = mix(mix(machine->hash, (uint64_t)p->isa), (uint64_t)machine->threads);
  h = mix(mix(h, (uint64_t)p->fast_fp32), (uint64_t)p->allowed_numerics);
  // Device candidates are always timed with cold weights.
  h = mix(h, (uint64_t)(p->device || machine->cold_weights));
  if (p->device) h = mix_text(h, p->device->name);
  for (uint32_t n = 0; n < p->region->node_count; n++) {
    const carnot_plan_node* node = &p->region->nodes[n];
    h = mix_text(h, carnot_op_get(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) h = mix(h, node->inputs[i]);
    for (size_t a = 0; a < node->attrs.count; a++) h = mix_attr(h, &node->attrs.items[a]);
  }
  for (uint32_t i = 0; i < p->input_count; i++) h = mix_operand(h, &p->inputs[i]);
  for (uint32_t i = 0; i < p->output_count; i++) h = mix_operand(h, &p->outputs[i]);
  return h;
}
