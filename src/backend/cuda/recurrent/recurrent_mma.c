// LSTM, GRU and RNN of 16-bit floats by thread-block clusters on tensor cores.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/recurrent/recurrent.h"

enum { kTileUnits = 16, kChunk = 32, kMostTiles = CARNOT_CUDA_RECURRENT_THREADS / 32 };
enum { kSequences = CARNOT_CUDA_RECURRENT_SEQUENCES, kMostSplits = 4 };
enum { kWidest = 16, kMostWidth = 1 << 16 };  // blocks of a cluster; elements of a row of weights

static const carnot_cuda_kernel_id kKernels[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, recurrent_mma)};

static int tiles_of(const carnot_cuda_recurrent_cluster_params* p) {
  return p->gates * p->units / kTileUnits;
}
static int hidden_chunks_of(const carnot_cuda_recurrent_cluster_params* p) {
  return carnot_ceildiv(p->blocks * p->units, kChunk);
}

// Bytes of a block's shared memory, laid out as in recurrent_mma.cuh.
static size_t shared_bytes(const carnot_cuda_recurrent_cluster_params* p) {
  const size_t chunks = (size_t)(p->input_pitch / kChunk + hidden_chunks_of(p)),
               kept = (size_t)tiles_of(p) * chunks * kTileUnits * kChunk * 2,
               states = (size_t)(2 * kSequences * p->hidden_pitch) * 2,
               sums = (size_t)((p->gates == 3 ? 4 : p->gates) * p->units + 4);
  return kept + states + 4 * kSequences * ((size_t)p->splits * sums + 2 * (size_t)p->units);
}

// Shares the hidden units out over |blocks|; false where a block has no units or too many.
static bool share_units(carnot_cuda_recurrent_cluster_params* p, int blocks) {
  p->blocks = blocks;
  p->units = (int)carnot_align_up((size_t)carnot_ceildiv(p->hidden, blocks), kTileUnits);
  const int chunks = hidden_chunks_of(p);
  if ((blocks - 1) * p->units >= p->hidden || tiles_of(p) > kMostTiles) return false;
  p->splits = 1;
  while (2 * p->splits <= kMostSplits && 2 * p->splits * tiles_of(p) <= kMostTiles &&
         2 * p->splits <= chunks)
    p->splits *= 2;
  p->hidden_pitch = kChunk * (chunks | 1);  // odd: eight lanes read two rows from all banks
  return true;
}

// Shared memory that a block may have; of a device that is not there, what its architecture has.
static size_t room_of(const carnot_cuda* cuda) {
  const int bytes = cuda->block_bytes                       ? cuda->block_bytes
                    : cuda->major == 9 || cuda->major == 10 ? 227 << 10
                                                            : 99 << 10;
  return (size_t)bytes - 1024;
}

static const char* mma_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cuda_recurrent_cluster_reject(problem, reason, size);
  if (why) return why;
  const carnot_dtype dtype = problem->inputs[0].format.dtype;
  if (!kKernels[dtype])
    return carnot_cuda_reject_reason(reason, size, "operands of %s, takes 16-bit floats",
                                     carnot_dtype_name(dtype));
  const carnot_cuda* cuda = carnot_cuda_of(problem->device);
  const carnot_operand_desc *w = &problem->inputs[1], *r = &problem->inputs[2];
  if (cuda->major < 8) return "needs sm_80";
  if (w->rank != 3 || r->rank != 3 || w->dims[2] < 1 || w->dims[2] > kMostWidth || r->dims[2] < 1 ||
      r->dims[2] > kMostWidth)
    return "weights of unknown or large size";
  carnot_cuda_recurrent_cluster_params p = {
      .hidden = (int)r->dims[2],
      .gates = (int)(r->dims[1] / r->dims[2]),
      .input_pitch = (int)carnot_align_up((size_t)w->dims[2], kChunk)};
  for (int blocks = cuda->major < 9 ? 1 : kWidest; blocks >= 1; blocks /= 2)
    if (share_units(&p, blocks) && shared_bytes(&p) <= room_of(cuda)) return NULL;
  return carnot_cuda_reject_reason(reason, size,
                                   "%d gates of %d hidden units and %lld inputs do not fit into "
                                   "the shared memory of a cluster",
                                   p.gates, p.hidden, (long long)w->dims[2]);
}

// Nanoseconds of a step beside its products, and bytes of operands that a block reads in a
// nanosecond: estimates on an H100.
enum { kStepNs = 1000, kBytesPerNs = 200 };

// Nanoseconds of a step for all sequences, UINT64_MAX where the weights do not fit. Clusters that
// find no room on the device wait for others to end.
static carnot_status* weigh(carnot_cuda* cuda, carnot_cuda_recurrent_state* s, int blocks,
                            uint64_t* out_ns) {
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  const int64_t cluster[3] = {blocks, 1, 1};
  *out_ns = UINT64_MAX;
  if (!share_units(p, blocks)) return NULL;
  s->threads = (unsigned)(32 * tiles_of(p) * p->splits), s->shared_bytes = shared_bytes(p);
  if (s->shared_bytes > room_of(cuda)) return NULL;
  int fit = cuda->base.multiprocessor_count;
  if (cuda->base.has_clusters)
    CARNOT_TRY(
        carnot_cuda_cluster_count(cuda, s->function, s->threads, cluster, s->shared_bytes, &fit));
  if (fit < 1) return NULL;
  const int64_t clusters = carnot_ceildiv(p->batch, kSequences) * p->directions;
  const uint64_t chunks = (uint64_t)(p->input_pitch / kChunk + hidden_chunks_of(p)),
                 bytes = (uint64_t)tiles_of(p) * chunks * (kTileUnits + kSequences) * kChunk * 2;
  *out_ns = (uint64_t)carnot_ceildiv(clusters, fit) * (kStepNs + bytes / kBytesPerNs);
  return NULL;
}

static carnot_status* mma_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  carnot_cuda_recurrent_state* s = state;
  carnot_cuda_recurrent_cluster_params* p = &s->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_recurrent_cluster_params_of(step, inputs, outputs, p));
  p->input_pitch = (int)carnot_align_up((size_t)p->input, kChunk);
  p->together = kSequences;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kKernels, inputs[0].format.dtype, &s->function));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->function));
  const int widest =
      carnot_cuda_widest_cluster(cuda, s->function, CARNOT_CUDA_RECURRENT_THREADS, room_of(cuda));
  uint64_t best_ns = UINT64_MAX, ns;
  int best = 0;
  for (int blocks = widest; blocks >= 1; blocks /= 2) {
    CARNOT_TRY(weigh(cuda, s, blocks, &ns));
    if (ns < best_ns) best_ns = ns, best = blocks;
  }
  CARNOT_CHECK(best, UNSUPPORTED,
               "%d gates of %d hidden units and %d inputs do not fit into the shared memory of "
               "clusters of up to %d blocks",
               p->gates, p->hidden, p->input, widest);
  return weigh(cuda, s, best, &ns);
}

const carnot_tactic carnot_cuda_recurrent_mma = {.name = "cuda_recurrent_mma",
                                                 .anchor = CARNOT_OP_COUNT,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .device = true,
                                                 .reject = mma_reject,
                                                 .configure = mma_configure,
                                                 .run = carnot_cuda_recurrent_cluster_run};
