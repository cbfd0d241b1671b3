// Parameters of the kernel that looks bytes up.
#ifndef CARNOT_KERNEL_CUDA_QUANTIZE_TABLE_BYTES_PARAMS_H_
#define CARNOT_KERNEL_CUDA_QUANTIZE_TABLE_BYTES_PARAMS_H_

// y[i] = table[x[i]]; x and y begin at multiples of 16 bytes where |aligned|.
typedef struct carnot_cuda_table_bytes_params {
  const void *x, *table;
  void* y;
  long long count;
  int aligned;
} carnot_cuda_table_bytes_params;

enum { CARNOT_CUDA_TABLE_BYTES_THREADS = 256 };

#endif  // CARNOT_KERNEL_CUDA_QUANTIZE_TABLE_BYTES_PARAMS_H_
