// What carnot exec prints before it works: the options, the device and the version, with trtexec's
// headings and labels.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carnot/machine.h"
#include "exec.h"

int exec_tensorrt_version(char* out_text, size_t size) {
  const char* text = getenv("CARNOT_TRT_VERSION");
  int major = 10, minor = 3, patch = 0;
  if (text && sscanf(text, "%d.%d.%d", &major, &minor, &patch) < 1) major = 10;
  snprintf(out_text, size, "%d.%d.%d", major, minor, patch);
  return major >= 10 ? major * 10000 + minor * 100 + patch : major * 1000 + minor * 100 + patch;
}

static const char* enabled(bool on) { return on ? "Enabled" : "Disabled"; }
static const char* text_or_empty(const char* text) { return text ? text : ""; }

static void print_shapes(const char* phase, const char* which, const cli_shapes* shapes) {
  for (size_t i = 0; i < shapes->count; i++) {
    char text[256];
    cli_shape_text(&shapes->items[i].dims, text, sizeof(text));
    exec_log('I', "Input %s shape%s: %s=%s", phase, which, shapes->items[i].name, text);
  }
}

static void print_precision(const cli_build_options* b) {
  if (b->typing.strong) {
    exec_log('I', "Precision: Strongly Typed");
    return;
  }
  exec_log('I', "Precision: FP32%s%s%s", b->typing.f16 ? "+FP16" : "",
           b->typing.bf16 ? "+BF16" : "", b->quantized ? "+INT8" : "");
}

static void print_build(const exec_options* o) {
  const cli_build_options* b = &o->build;
  static const char* const kConstraints[] = {"None", "Prefer", "Obey"};
  exec_log('I', "=== Model Options ===");
  exec_log('I', "Format: %s", o->onnx ? "ONNX" : o->deploy ? "Caffe" : o->uff ? "UFF" : "*");
  if (o->deploy) exec_log('I', "Prototxt: %s", o->deploy);
  exec_log('I', "Model: %s", text_or_empty(o->deploy ? b->caffe_model : o->uff ? o->uff : o->onnx));
  exec_log('I', "=== Build Options ===");
  print_precision(b);
  exec_log('I', "Precision constraints: %s", kConstraints[b->typing.constraints]);
  exec_log('I', "Refit: %s", enabled(b->refit));
  exec_log('I', "Strip weights: %s", enabled(b->strip));
  exec_log('I', "Skip inference: %s", enabled(o->skip_inference));
  exec_log('I', "Save engine: %s", text_or_empty(o->save));
  exec_log('I', "Load engine: %s", text_or_empty(o->load));
  exec_log('I', "timingCacheFile: %s", text_or_empty(b->timing_cache_path));
  exec_log('I', "BuilderOptimizationLevel: %d", b->level);
  for (int i = 0; i < o->profile_count; i++) {
    print_shapes("build", " (min)", &o->profiles[i].min);
    print_shapes("build", " (opt)", &o->profiles[i].opt);
    print_shapes("build", " (max)", &o->profiles[i].max);
  }
}

static void print_inference(const exec_options* o) {
  exec_log('I', "=== System Options ===");
  exec_log('I', "Device: %s", o->device ? o->device : text_or_empty(o->build.device));
  exec_log('I', "=== Inference Options ===");
  print_shapes("inference", "", &o->shapes);
  exec_log('I', "Iterations: %lld", o->iterations);
  exec_log('I', "Duration: %gs (+ %lldms warm up)", o->duration_s, o->warm_up_ms);
  exec_log('I', "Idle time: %lldms", o->idle_ms);
  exec_log('I', "Inference Streams: %lld", o->streams);
  exec_log('I', "Data transfers: %s", enabled(!o->no_transfers || o->transfers));
  exec_log('I', "CUDA Graph: %s", enabled(!o->no_graph));
  exec_log('I', "Time Deserialize: %s", enabled(o->time_load));
  exec_log('I', "Time Refit: %s", enabled(o->time_refit));
  exec_log('I', "Optimization Profile Index: %lld", o->use_profile);
  for (int i = 0; i < o->inputs.count; i++)
    exec_log('I', "%s<-%s", o->inputs.items[i].name, o->inputs.items[i].file);
}

static void print_reporting(const exec_options* o) {
  char list[256] = "";
  for (int i = 0; i < o->percentile_count; i++)
    snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ",%g" : "%g", o->percentiles[i]);
  exec_log('I', "=== Reporting Options ===");
  exec_log('I', "Verbose: %s", enabled(o->verbose));
  exec_log('I', "Averages: %lld inferences", o->average_runs);
  exec_log('I', "Percentiles: %s", list);
  exec_log('I', "Dump refittable layers:%s", enabled(o->dump_refit));
  exec_log('I', "Dump output: %s", enabled(o->dump_output));
  exec_log('I', "Profile: %s", enabled(o->dump_profile));
  exec_log('I', "Export timing to JSON file: %s", text_or_empty(o->times));
  exec_log('I', "Export output to JSON file: %s", text_or_empty(o->output));
  exec_log('I', "Export profile to JSON file: %s", text_or_empty(o->profile));
}

// The model name of the processor, as the kernel tells it.
static void processor_name(char* out, size_t size) {
  snprintf(out, size, "CPU");
  FILE* file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof(line), file)) {
    const char* colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, size, "%s", colon + 2);
    break;
  }
  if (file) fclose(file);
}

static void print_device(const exec_options* o) {
  const char* spec = o->build.device ? o->build.device : "cuda";
  carnot_device_info info;
  char name[256], version[32];
  carnot_status* status = strcmp(spec, "cpu") == 0 ? NULL : carnot_device_get_info(spec, &info);
  bool is_gpu = strcmp(spec, "cpu") != 0 && !status;
  carnot_status_free(status);
  exec_log('I', "=== Device Information ===");
  if (is_gpu) {
    exec_log('I', "Selected Device: %s", info.name);
    exec_log('I', "Compute Capability: %s", info.arch);
    exec_log('I', "SMs: %d", info.multiprocessor_count);
    exec_log('I', "Device Global Memory: %llu MiB", (unsigned long long)(info.memory_bytes >> 20));
  } else {
    processor_name(name, sizeof(name));
    exec_log('I', "Selected Device: %s", name);
    exec_log('I', "Threads: %ld",
             o->build.threads ? o->build.threads : sysconf(_SC_NPROCESSORS_ONLN));
  }
  exec_tensorrt_version(version, sizeof(version));
  exec_log('I', "TensorRT version: %s", version);
}

void exec_print_blocks(const exec_options* o) {
  print_build(o);
  print_inference(o);
  print_reporting(o);
  exec_log('I', " ");
  print_device(o);
}
