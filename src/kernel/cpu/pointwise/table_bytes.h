// A function of one byte by its table.
//   y[i] = table[x[i]]
// |table| [256]; |x| and |y| [count], the same or apart. Any thread.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_TABLE_BYTES_H_
#define CARNOT_KERNEL_CPU_POINTWISE_TABLE_BYTES_H_

#include <stdint.h>

typedef void carnot_table_bytes_fn(const uint8_t* table, int64_t count, const uint8_t* x,
                                   uint8_t* y);

#endif
