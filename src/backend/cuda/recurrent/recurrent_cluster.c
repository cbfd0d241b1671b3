// LSTM, GRU and RNN by thread-block clusters that keep the weights in shared memory.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/recurrent/recurrent.h"

enum { kLeastUnits = 4, kMostTogether = 8 };

typedef carnot_cuda_recurrent_state cluster_state;

static const carnot_cuda_kernel_id kKernels[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, recurrent_cluster)};

// Inputs of the operators.
enum { kLengths = 4, kInitialH, kInitialC, kPeepholes };

const char* carnot_cuda_recurrent_cluster_reject(carnot_problem* problem, char* reason,
                                                 size_t size) {
  const char* why = carnot_cuda_recurrent_reject(problem, reason, size);
  if (why) return why;
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  const carnot_operand_desc* x = &problem->inputs[0];
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    if (i == kLengths) return "the sequences have lengths";
    if (i == kPeepholes) return "it has peepholes";
    if (!kKernels[t->format.dtype] || t->format.dtype != x->format.dtype)
      return carnot_cuda_reject_reason(reason, size, "an operand of %s beside %s",
                                       carnot_dtype_name(t->format.dtype),
                                       carnot_dtype_name(x->format.dtype));
  }
  if (carnot_attr_float(row, &node->attrs, "clip") > 0) return "it clips";
  if (node->op == CARNOT_OP_GRU && !carnot_attr_int(row, &node->attrs, "linear_before_reset"))
    return "the reset comes before the product";
  return NULL;
}

// Bytes of a block's shared memory, laid out as in recurrent_cluster.cuh.
static size_t shared_bytes(const carnot_cuda_recurrent_cluster_params* p, int element) {
  const size_t rows = (size_t)(p->gates * p->units), n = (size_t)p->together;
  const size_t numbers =
      n * ((size_t)(2 * p->hidden_pitch + p->input_pitch) + 2 * rows + 2 * (size_t)p->units) +
      2 * rows;
  const size_t kept = rows * (size_t)(p->input_pitch + p->hidden_pitch) * (size_t)element;
  return carnot_align_up(4 * numbers, 16) + (p->resident ? kept : 0);
}

// A step in nanoseconds and each row of the weights, for some sequences that read it together:
// estimates on an H100.
enum { kStepNs = 2850, kRowNs = 22, kReadTogether = 4 };

// Nanoseconds of a step for all sequences, of clusters of |blocks| that |together| sequences share;
// *out_ns is UINT64_MAX where the weights do not fit. Clusters that find no room on the device wait
// for others to end: of 16 blocks there is room for few.
static carnot_status* weigh(carnot_cuda* cuda, cluster_state* s, int element, int blocks,
                            int together, uint64_t* out_ns) {
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  const int64_t cluster[3] = {blocks, 1, 1};
  p->blocks = blocks, p->together = together, p->resident = 1;
  p->units = (p->hidden + blocks - 1) / blocks;
  s->shared_bytes = shared_bytes(p, element);
  *out_ns = UINT64_MAX;
  if (s->shared_bytes > (size_t)cuda->block_bytes - 1024) return NULL;
  int fit = cuda->base.multiprocessor_count;
  if (cuda->base.has_clusters)
    CARNOT_TRY(carnot_cuda_cluster_count(cuda, s->function, CARNOT_CUDA_RECURRENT_THREADS, cluster,
                                         s->shared_bytes, &fit));
  const int64_t clusters = carnot_ceildiv(p->batch, together) * p->directions,
                rounds = carnot_ceildiv(clusters, carnot_max_i64(1, fit));
  // Half of a row's time is its reading, half the products.
  const int64_t reads = carnot_ceildiv(together, kReadTogether) + together;
  *out_ns = (uint64_t)rounds * (uint64_t)(kStepNs + kRowNs * p->gates * p->units * reads / 2);
  return NULL;
}

// The blocks of a cluster and its sequences by the least time; where no block holds its weights,
// rows are read as they are, by 16 bytes.
static carnot_status* share_out(carnot_cuda* cuda, cluster_state* s, int element) {
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  const size_t most = (size_t)cuda->block_bytes - 1024;
  int widest = carnot_cuda_widest_cluster(cuda, s->function, CARNOT_CUDA_RECURRENT_THREADS, most);
  while (widest > 1 && p->hidden < widest * kLeastUnits) widest /= 2;
  uint64_t best_ns = UINT64_MAX, ns;
  int blocks = widest, together = 1;
  for (int b = widest; b >= 1; b /= 2)
    for (int n = 1; n <= kMostTogether && n <= p->batch; n++) {
      CARNOT_TRY(weigh(cuda, s, element, b, n, &ns));
      if (ns < best_ns) best_ns = ns, blocks = b, together = n;
    }
  CARNOT_TRY(weigh(cuda, s, element, blocks, together, &ns));
  if (ns < UINT64_MAX) return NULL;
  p->resident = 0;
  s->shared_bytes = shared_bytes(p, element);
  const int vector = 16 / element;
  CARNOT_CHECK(p->input % vector == 0 && p->hidden % vector == 0 && s->shared_bytes <= most,
               UNSUPPORTED, "%d inputs and %d hidden units, multiples of %d are required", p->input,
               p->hidden, vector);
  return NULL;
}

carnot_status* carnot_cuda_recurrent_cluster_params_of(const carnot_step_view* step,
                                                       const carnot_operand* inputs,
                                                       const carnot_operand* outputs,
                                                       carnot_cuda_recurrent_cluster_params* out) {
  carnot_cuda_recurrent_params g;
  CARNOT_TRY(carnot_cuda_recurrent_geometry(step, inputs, outputs, &g));
  CARNOT_CHECK(g.time <= INT32_MAX && g.batch <= UINT16_MAX && g.input <= INT32_MAX / 64 &&
                   g.hidden <= INT32_MAX / 64,
               UNSUPPORTED, "%lld steps of %lld sequences", g.time, g.batch);
  *out = (carnot_cuda_recurrent_cluster_params){.time = (int)g.time,
                                                .batch = (int)g.batch,
                                                .input = (int)g.input,
                                                .hidden = (int)g.hidden,
                                                .gates = g.gates,
                                                .directions = g.directions,
                                                .batch_first = g.batch_first,
                                                .reverse = g.reverse,
                                                .input_forget = g.gates == 4 && g.flag};
  return NULL;
}

static carnot_status* cluster_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  cluster_state* s = state;
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_recurrent_cluster_params_of(step, inputs, outputs, p));
  s->threads = CARNOT_CUDA_RECURRENT_THREADS;
  p->input_pitch = (int)carnot_align_up((size_t)p->input, 8);
  p->hidden_pitch = (int)carnot_align_up((size_t)p->hidden, 8);
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kKernels, inputs[0].format.dtype, &s->function));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->function));
  return share_out(cuda, s, carnot_cuda_bytes(&inputs[0]));
}

carnot_status* carnot_cuda_recurrent_cluster_run(const carnot_step_view* step, void* state,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* outputs, void* workspace,
                                                 carnot_executor* executor) {
  (void)workspace, (void)executor;
  cluster_state* s = state;
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  p->x = inputs[0].data, p->w = inputs[1].data, p->r = inputs[2].data;
  p->bias = carnot_cuda_optional(step, inputs, 3)->data;
  p->h0 = carnot_cuda_optional(step, inputs, kInitialH)->data;
  p->c0 = carnot_cuda_optional(step, inputs, kInitialC)->data;
  p->y = carnot_cuda_output(step, outputs, 0)->data;
  p->last_h = carnot_cuda_output(step, outputs, 1)->data;
  p->last_c = carnot_cuda_output(step, outputs, 2)->data;
  const int64_t grid[3] = {p->blocks, p->directions, carnot_ceildiv(p->batch, p->together)},
                cluster[3] = {p->blocks, 1, 1};
  return carnot_cuda_launch_clusters(step, s->function, grid, s->threads, cluster, s->shared_bytes,
                                     p);
}

const carnot_tactic carnot_cuda_recurrent_cluster = {.name = "cuda_recurrent_cluster",
                                                     .anchor = CARNOT_OP_COUNT,
                                                     .numerics = CARNOT_NUMERICS_EXACT,
                                                     .device = true,
                                                     .reject = carnot_cuda_recurrent_cluster_reject,
                                                     .configure = cluster_configure,
                                                     .run = carnot_cuda_recurrent_cluster_run};
