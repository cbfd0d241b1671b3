// Parameters of the recurrent layers whose hidden units are shared out over a thread-block cluster.
#ifndef CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_CLUSTER_PARAMS_H_
#define CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_CLUSTER_PARAMS_H_

#include "kernel/cuda/common/params.h"

enum {
  CARNOT_CUDA_RECURRENT_THREADS = 512,
  // Of recurrent_mma: sequences of a cluster, the columns of a B operand.
  CARNOT_CUDA_RECURRENT_SEQUENCES = 8
};

// x [time, batch, input] (batch_first: [batch, time, input]), w [directions, gates * hidden,
// input], r [.., hidden], bias [directions, 2 * gates * hidden]; all but x, w, r, y may be NULL. A
// cluster of |blocks| computes |together| sequences of one direction; each block has |units| hidden
// units and keeps their rows of w and r in shared memory where |resident|. recurrent_mma has a
// multiple of 16 units, and |splits| warps that share a row's products.
typedef struct carnot_cuda_recurrent_cluster_params {
  const void *x, *w, *r, *bias, *h0, *c0;
  void *y, *last_h, *last_c;
  int time, batch, input, hidden, gates, directions;
  int batch_first, reverse, input_forget;
  int blocks, units, together, resident, splits;
  int input_pitch, hidden_pitch;  // of rows in shared memory: multiples of 8
} carnot_cuda_recurrent_cluster_params;

#endif  // CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_CLUSTER_PARAMS_H_
