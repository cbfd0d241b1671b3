// LSTM, GRU and RNN over float32 with constant weights: what preparation and execution share.
#ifndef CARNOT_BACKEND_CPU_RECURRENT_RECURRENT_H_
#define CARNOT_BACKEND_CPU_RECURRENT_RECURRENT_H_

#include "backend/cpu/common/packed_weights.h"

// Inputs of the operator.
enum { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes, kMask };

// Plain data, stored in the engine.
typedef struct carnot_cpu_recurrent_params {
  int64_t input, hidden;
  int32_t directions, gates;
  int32_t reverse, batch_first;
  int32_t linear;   // GRU: linear_before_reset
  int32_t weights;  // carnot_weights_type of the packed W; see carnot_cpu_recurrent_r_type
} carnot_cpu_recurrent_params;

// Constants of the step.
enum { kPackedW, kPackedR, kInputBias, kStateBias, kConstants };

static inline const carnot_plan_node* carnot_cpu_recurrent_node(const carnot_region* region) {
  return &region->nodes[0];
}
static inline int32_t carnot_cpu_recurrent_gates(carnot_op op) {
  return op == CARNOT_OP_LSTM ? 4 : op == CARNOT_OP_GRU ? 3 : 1;
}
// The node has its optional input |i|.
static inline bool carnot_cpu_recurrent_has(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count && node->inputs[i] != CARNOT_PLAN_NONE;
}
// Columns of the GEMM of the input: the gates of all directions.
static inline int64_t carnot_cpu_recurrent_columns(const carnot_cpu_recurrent_params* p) {
  return p->directions * p->gates * p->hidden;
}
// Gates that the first GEMM of a time step computes. The others, of a GRU that applies the reset
// gate before its GEMM, need the reset gate first.
static inline int64_t carnot_cpu_recurrent_first_gates(const carnot_cpu_recurrent_params* p) {
  return p->gates == 3 && !p->linear ? 2 : p->gates;
}

// How R is packed. A step multiplies it by one row for each sequence: float32 streams fewer bytes
// than its parts.
static inline carnot_weights_type carnot_cpu_recurrent_r_type(
    const carnot_cpu_recurrent_params* p) {
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  return carnot_packed_weights_split(type) ? CARNOT_WEIGHTS_F32 : type;
}

static inline carnot_packed_weights_shape carnot_cpu_recurrent_r_shape(
    const carnot_cpu_recurrent_params* p, int64_t gates) {
  return (carnot_packed_weights_shape){1, p->hidden, gates * p->hidden};
}

// Bytes of R^T of a direction: the first gates, then the others.
static inline size_t carnot_cpu_recurrent_first_r_bytes(const carnot_cpu_recurrent_params* p) {
  return carnot_packed_weights_bytes(
      carnot_cpu_recurrent_r_type(p),
      carnot_cpu_recurrent_r_shape(p, carnot_cpu_recurrent_first_gates(p)));
}
static inline size_t carnot_cpu_recurrent_r_bytes(const carnot_cpu_recurrent_params* p) {
  return carnot_cpu_recurrent_first_r_bytes(p) +
         carnot_packed_weights_bytes(
             carnot_cpu_recurrent_r_type(p),
             carnot_cpu_recurrent_r_shape(p, p->gates - carnot_cpu_recurrent_first_gates(p)));
}

// Partitions the work for the operands' sizes (a tactic's configure) and computes (its run).
carnot_status* carnot_cpu_recurrent_configure(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* memory,
                                              size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_cpu_recurrent_run(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_RECURRENT_RECURRENT_H_
