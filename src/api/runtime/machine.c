// What this machine is: CPU ISA levels and accelerators, and the measured peaks of accelerators.
#include "carnot/machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/onednn/onednn_library.h"
#include "backend/device.h"
#include "run/context.h"

const char* carnot_isa_level_name(int level) {
  return level >= 0 && level < CARNOT_ISA_COUNT ? carnot_isa_name((carnot_isa)level) : NULL;
}

bool carnot_isa_level_is_usable(int level, char* reason, size_t size) {
  if (size) reason[0] = 0;
  bool exists = level >= 0 && level < CARNOT_ISA_COUNT;
  if (exists && carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)level)) return true;
  if (!size) return false;
  const char* forced = getenv("CARNOT_ISA");
  carnot_isa wanted = forced ? carnot_isa_find(forced) : CARNOT_ISA_COUNT;
  if (!exists)
    snprintf(reason, size, "there is no such level");
  else if (wanted != CARNOT_ISA_COUNT && !carnot_isa_includes(wanted, (carnot_isa)level))
    snprintf(reason, size, "CARNOT_ISA=%s forbids it", forced);
  else
    snprintf(reason, size, "%s", carnot_isa_lacks((carnot_isa)level));
  return false;
}

void carnot_cpu_get_library(carnot_library_info* out_info) {
  const carnot_onednn* library;
  carnot_status* status = carnot_onednn_open(&library);
  *out_info = (carnot_library_info){.name = "oneDNN"};
  if (status)
    snprintf(out_info->missing, sizeof(out_info->missing), "%s", carnot_status_message(status));
  else
    snprintf(out_info->version, sizeof(out_info->version), "%d.%d.%d", library->version[0],
             library->version[1], library->version[2]);
  carnot_status_free(status);
}

carnot_status* carnot_device_get_info(const char* spec, carnot_device_info* out_info) {
  *out_info = (carnot_device_info){0};
  CARNOT_CHECK(spec, INVALID_ARGUMENT, "the name of the accelerator is NULL");
  carnot_device* device;
  CARNOT_TRY(carnot_device_open(spec, &device));
  snprintf(out_info->name, sizeof(out_info->name), "%s", device->name);
  snprintf(out_info->backend, sizeof(out_info->backend), "%s", device->backend->name);
  snprintf(out_info->arch, sizeof(out_info->arch), "%s", device->arch);
  out_info->is_present = device->ordinal >= 0;
  out_info->multiprocessor_count = device->multiprocessor_count;
  out_info->memory_bytes = device->memory_bytes;
  carnot_device_library libraries[CARNOT_MAX_DEVICE_LIBRARIES];
  out_info->library_count =
      device->backend->libraries(device, libraries, CARNOT_MAX_DEVICE_LIBRARIES);
  for (size_t i = 0; i < out_info->library_count; i++) {
    carnot_library_info* to = &out_info->libraries[i];
    snprintf(to->name, sizeof(to->name), "%s", libraries[i].name);
    snprintf(to->version, sizeof(to->version), "%s", libraries[i].version);
    snprintf(to->missing, sizeof(to->missing), "%s", libraries[i].missing);
  }
  return NULL;
}

static void add_compute(carnot_machine_peaks* out, const char* type, const char* arch,
                        double gops) {
  carnot_compute_peak* peak = &out->compute[out->compute_count++];
  peak->type = type;
  snprintf(peak->isa, sizeof(peak->isa), "%s", arch);
  peak->one_thread_gops = peak->all_threads_gops = gops;
}

static carnot_status* measure_device(carnot_device* device, carnot_machine_peaks* out) {
  carnot_device_peaks p;
  CARNOT_CHECK(device->ordinal >= 0, FAILED_PRECONDITION, "%s is not present: nothing can run",
               device->arch);
  CARNOT_TRY(device->backend->measure(device, &p));
  *out = (carnot_machine_peaks){.is_accelerator = true,
                                .thread_count = 1,
                                .memory_count = 1,
                                .memory = {{"memory", (double)device->memory_bytes, p.copy_gbs,
                                            p.copy_gbs, p.copy_gbs, p.copy_gbs}},
                                .launch_us = p.launch_us,
                                .early_launch_us = p.early_launch_us};
  add_compute(out, "f32", device->arch, p.f32_gflops);
  add_compute(out, "f16", device->arch, p.f16_gflops);
  add_compute(out, "bf16", device->arch, p.bf16_gflops);
  return NULL;
}

carnot_status* carnot_machine_measure_device(const char* spec, carnot_machine_peaks* out_peaks) {
  *out_peaks = (carnot_machine_peaks){0};
  CARNOT_CHECK(spec, INVALID_ARGUMENT, "the name of the accelerator is NULL");
  carnot_device* device;
  CARNOT_TRY(carnot_device_open(spec, &device));
  return measure_device(device, out_peaks);
}

carnot_status* carnot_machine_measure_context(const carnot_context* context, double seconds_each,
                                              carnot_machine_peaks* out_peaks) {
  *out_peaks = (carnot_machine_peaks){0};
  if (context->device.stream) return measure_device(context->device.stream->device, out_peaks);
  return carnot_machine_measure_cpu(carnot_executor_thread_count(context->executor), seconds_each,
                                    out_peaks);
}
