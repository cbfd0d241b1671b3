// Leased files: a mapping whose pages a thread replaces by private copies.
#include "base/leased_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/pages.h"

enum {
  kBlock = CARNOT_HUGE_PAGE,
  kLeastBytes = kBlock,  // smaller files are read: a thread costs as much
  kSmallRest = 8,        // a part of the file
  kNiceness = 10,        // of the thread that copies: a tenth of a processor that others want
  kSignal = SIGURG,      // sent to the keeper alone, which blocks it and waits for it
};

// A writer waits 45 s by default (/proc/sys/fs/lease-break-time); the signal wakes the keeper at
// once, this does where it is lost.
static const struct timespec kCheck = {.tv_sec = 5};

typedef enum lease_state {
  LEASE_ASKED,
  LEASE_REFUSED,
  LEASE_HELD,
  LEASE_SETTLED  // the wanted blocks are copied, or never will be
} lease_state;

struct carnot_lease {
  int file;
  size_t size;
  char* base;             // of the mapping
  unsigned char* copied;  // by block: 1 where it is; the copier's, then the keeper's
  pid_t owner;            // a child made by fork has no keeper
  pthread_t keeper;
  unsigned char* wanted;  // by block: what to copy once |is_due|
  atomic_bool is_due, stop, stop_copier;
  pthread_mutex_t mutex;  // guards |state|
  pthread_cond_t changed;
  lease_state state;
};

// File systems whose files change through this kernel only, so that it can hold back a writer.
static bool is_local(int file) {
  static const unsigned long kMagics[] = {
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // XFS
      0x9123683E,  // Btrfs
      0xF2F52010,  // F2FS
      0x01021994,  // tmpfs
      0x794C7630,  // overlayfs
  };
  struct statfs facts;
  if (fstatfs(file, &facts) != 0) return false;
  for (size_t i = 0; i < sizeof(kMagics) / sizeof(kMagics[0]); i++)
    if ((unsigned long)facts.f_type == kMagics[i]) return true;
  return false;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static size_t blocks_of(size_t bytes) { return (bytes + kBlock - 1) / kBlock; }

// ---- copying ----

// Bytes [at, at + bytes) of the file into |fresh|, which then takes the mapping's address: readers
// see the same bytes before and after, as the kernel changes the page tables under its lock.
static bool move_piece(const carnot_lease* lease, size_t at, size_t bytes, char* fresh) {
  carnot_status* status =
      carnot_read_range(lease->file, fresh, at, min_size(bytes, lease->size - at));
  carnot_status_free(status);  // the mapping would fail at the same bytes
  if (status || mprotect(fresh, bytes, PROT_READ) != 0) return false;
  char* to = lease->base + at;
  if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) return true;
  // The kernel had no memory for its tables and may have taken the old pages away.
  (void)!mmap(to, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, lease->file, (off_t)at);
  return false;
}

// Copies blocks [begin, end). They come from one region of memory and become one again.
static bool copy_blocks(const carnot_lease* lease, size_t begin, size_t end,
                        const atomic_bool* stop) {
  const size_t at = begin * kBlock;
  const size_t bytes = carnot_whole_pages(min_size(end * kBlock, lease->size) - at);
  char* fresh = carnot_map_aligned(bytes, PROT_READ | PROT_WRITE, 0);
  if (!fresh) return false;
  madvise(fresh, bytes, MADV_HUGEPAGE);
  size_t done = 0;
  while (done < bytes && !atomic_load(stop)) {
    const size_t piece = min_size(bytes - done, kBlock);
    if (!move_piece(lease, at + done, piece, fresh + done)) break;
    lease->copied[begin + done / kBlock] = 1;
    done += piece;
  }
  if (done < bytes) munmap(fresh + done, bytes - done);
  return done == bytes;
}

// Copies the blocks that are |wanted| (NULL: all). Without memory the rest stays in the file.
static void copy_wanted(const carnot_lease* lease, const unsigned char* wanted,
                        const atomic_bool* stop) {
  const size_t count = blocks_of(lease->size);
  for (size_t i = 0, end; i < count; i = end + 1) {
    for (end = i; end < count && !lease->copied[end] && (!wanted || wanted[end]);) end++;
    if (end > i && !copy_blocks(lease, i, end, stop)) return;
  }
}

static size_t count_left(const carnot_lease* lease) {
  size_t left = 0;
  for (size_t i = 0; i < blocks_of(lease->size); i++) left += !lease->copied[i];
  return left;
}

// ---- the keeper ----

static bool take_lease(const carnot_lease* lease) {
  // The kernel tells this thread when somebody opens the file for writing.
  const struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
  if (fcntl(lease->file, F_SETSIG, kSignal) != 0 || fcntl(lease->file, F_SETOWN_EX, &owner) != 0 ||
      fcntl(lease->file, F_SETLEASE, F_RDLCK) != 0)
    return false;
  // From now on the file stays as it is.
  if (lseek(lease->file, 0, SEEK_END) == (off_t)lease->size) return true;
  fcntl(lease->file, F_SETLEASE, F_UNLCK);
  return false;
}

static void set_state(carnot_lease* lease, lease_state state) {
  pthread_mutex_lock(&lease->mutex);
  lease->state = state;
  pthread_cond_broadcast(&lease->changed);
  pthread_mutex_unlock(&lease->mutex);
}

// Waits for a state after |state|, which it returns.
static lease_state wait_beyond(carnot_lease* lease, lease_state state) {
  pthread_mutex_lock(&lease->mutex);
  while (lease->state <= state) pthread_cond_wait(&lease->changed, &lease->mutex);
  const lease_state now = lease->state;
  pthread_mutex_unlock(&lease->mutex);
  return now;
}

static bool is_settled(carnot_lease* lease) {
  pthread_mutex_lock(&lease->mutex);
  const bool is_settled = lease->state == LEASE_SETTLED;
  pthread_mutex_unlock(&lease->mutex);
  return is_settled;
}

// Copies what is wanted where others leave processors idle, and a small rest with it: then neither
// the lease nor the keeper is needed.
static void* copy_meanwhile(void* arg) {
  carnot_lease* lease = arg;
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), kNiceness);
  copy_wanted(lease, lease->wanted, &lease->stop_copier);
  if (count_left(lease) <= blocks_of(lease->size) / kSmallRest)
    copy_wanted(lease, NULL, &lease->stop_copier);
  set_state(lease, LEASE_SETTLED);
  pthread_kill(lease->keeper, kSignal);
  return NULL;
}

static void* keep(void* arg) {
  carnot_lease* lease = arg;
  const bool is_held = take_lease(lease);
  set_state(lease, is_held ? LEASE_HELD : LEASE_REFUSED);
  if (!is_held) return NULL;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, kSignal);
  sigaddset(&signals, SIGIO);  // what the kernel sends where it has no memory for the other
  bool is_being_broken = false, has_copier = false;
  pthread_t copier;
  while (!is_being_broken && !atomic_load(&lease->stop)) {
    sigtimedwait(&signals, NULL, &kCheck);
    is_being_broken = fcntl(lease->file, F_GETLEASE) != F_RDLCK;
    if (is_settled(lease)) {
      if (count_left(lease) == 0) break;
    } else if (!has_copier && !is_being_broken && atomic_load(&lease->is_due)) {
      has_copier = pthread_create(&copier, NULL, copy_meanwhile, lease) == 0;
      if (!has_copier) set_state(lease, LEASE_SETTLED);  // the weights stay in the file
    }
  }
  atomic_store(&lease->stop_copier, true);
  if (has_copier) pthread_join(copier, NULL);
  if (is_being_broken) copy_wanted(lease, NULL, &lease->stop);  // the writer waits
  fcntl(lease->file, F_SETLEASE, F_UNLCK);
  close(lease->file);
  lease->file = -1;
  set_state(lease, LEASE_SETTLED);
  return NULL;
}

// The keeper sees no signal of the process but those that an instruction of its own raises.
static int start_keeper(carnot_lease* lease) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  static const int kOwn[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof(kOwn) / sizeof(kOwn[0]); i++) sigdelset(&blocked, kOwn[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const int failure = pthread_create(&lease->keeper, NULL, keep, lease);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failure;
}

// ---- interface ----

// Takes |file|, but not where there is no memory (NULL).
static carnot_lease* make_lease(int file, size_t size) {
  carnot_lease* lease = calloc(1, sizeof(carnot_lease));
  unsigned char* blocks = calloc(2 * blocks_of(size), 1);
  if (!lease || !blocks) {
    free(lease);
    free(blocks);
    return NULL;
  }
  lease->file = file;
  lease->size = size;
  lease->copied = blocks;
  lease->wanted = blocks + blocks_of(size);
  lease->owner = getpid();
  pthread_mutex_init(&lease->mutex, NULL);
  pthread_cond_init(&lease->changed, NULL);
  return lease;
}

static void free_lease(carnot_lease* lease) {
  if (lease->file >= 0) close(lease->file);
  free(lease->copied);
  free(lease);
}

static bool map_file(carnot_lease* lease) {
  lease->base = carnot_map_aligned(carnot_whole_pages(lease->size), PROT_NONE, MAP_NORESERVE);
  return lease->base && mmap(lease->base, lease->size, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                             lease->file, 0) == lease->base;
}

// Starts the keeper and waits for its answer.
static bool is_granted(carnot_lease* lease) {
  if (start_keeper(lease) != 0) return false;
  const bool is_held = wait_beyond(lease, LEASE_ASKED) != LEASE_REFUSED;
  if (!is_held) pthread_join(lease->keeper, NULL);
  return is_held;
}

carnot_status* carnot_lease_file(const char* path, carnot_mapping* out_mapping,
                                 carnot_lease** out_lease) {
  *out_mapping = (carnot_mapping){0};
  *out_lease = NULL;
  int file;
  size_t size;
  CARNOT_TRY(carnot_open_file(path, &file, &size));
  carnot_lease* lease = size >= kLeastBytes && is_local(file) ? make_lease(file, size) : NULL;
  if (!lease) close(file);
  if (lease && !(map_file(lease) && is_granted(lease))) {
    if (lease->base) munmap(lease->base, carnot_whole_pages(size));
    free_lease(lease);
    lease = NULL;
  }
  if (!lease) return carnot_read_file(path, out_mapping);
  *out_mapping = (carnot_mapping){lease->base, size};
  *out_lease = lease;
  return NULL;
}

static bool has_keeper(const carnot_lease* lease) { return lease && lease->owner == getpid(); }

void carnot_lease_want(carnot_lease* lease, size_t begin, size_t end) {
  if (begin < end) memset(lease->wanted + begin / kBlock, 1, blocks_of(end) - begin / kBlock);
}

void carnot_lease_copy(carnot_lease* lease) {
  // Every run calls this: where it is known to be due, nothing is written.
  if (!lease || atomic_load(&lease->is_due) || atomic_exchange(&lease->is_due, true)) return;
  if (has_keeper(lease)) pthread_kill(lease->keeper, kSignal);
}

void carnot_lease_settle(carnot_lease* lease) {
  carnot_lease_copy(lease);
  if (has_keeper(lease)) wait_beyond(lease, LEASE_HELD);
}

void carnot_lease_end(carnot_lease* lease) {
  if (!lease) return;
  if (has_keeper(lease)) {
    atomic_store(&lease->stop, true);
    pthread_kill(lease->keeper, kSignal);
    pthread_join(lease->keeper, NULL);
    pthread_cond_destroy(&lease->changed);
    pthread_mutex_destroy(&lease->mutex);
  }
  free_lease(lease);
}
