// What the files of kernel_bench share: the machine's limits, timing and the lines of the table.
#ifndef CARNOT_BENCH_KERNEL_BENCH_H_
#define CARNOT_BENCH_KERNEL_BENCH_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/common/kernels.h"

typedef struct bench {
  const carnot_cpu_kernels* kernels;
  const char* family;      // only this one, or NULL for all
  double peak_flop;        // FLOP/s of this ISA level on registers
  double peak_int8;        // the same of INT8 operations
  double stream_bytes[3];  // byte/s read from L2, L3, memory
} bench;

// The least time of a call over repeats of about 0.1 s in all.
double least_time(void (*call)(void*), void* argument);

// |count| small numbers, aligned to 64 bytes; freed by free.
float* floats(int64_t count);

// A line with FLOP/s and their share of the FMA rate.
void report_flop(const bench* b, const char* kernel, const char* shape, double flop, double time);

// A line with INT8 operations a second and their share of the peak.
void report_int8(const bench* b, const char* kernel, const char* shape, double work, double time);

// A line with byte/s and their share of reading a buffer of that size.
void report_bytes(const bench* b, const char* kernel, const char* shape, double bytes, double time);

// One for each family of kernels.
void bench_gemm(const bench* b);
void bench_conv(const bench* b);
void bench_dequant(const bench* b);
void bench_depthwise(const bench* b);
void bench_pool(const bench* b);
void bench_pointwise(const bench* b);
void bench_rows(const bench* b);
void bench_attention(const bench* b);
void bench_int8(const bench* b);
void bench_tiles(const bench* b);
void bench_memory(const bench* b);

#endif
