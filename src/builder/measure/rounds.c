#include "builder/measure/rounds.h"

enum { kMostRounds = 32 };
enum { kLongNs = 4000000 };   // a run that fewer rounds tell apart
enum { kSpentNs = 8000000 };  // beyond it, and some runs, only the least number of rounds is run
enum { kSpentRuns = 8 };
// Of one that an older instruction set leads, up to twice its time: rounds, and their time.
enum { kDoubtfulRounds = 16 };
enum { kDoubtfulNs = 30000000 };

carnot_contestant carnot_contestant_make(uint64_t around_ns, int rank) {
  return (carnot_contestant){.runs = true,
                             .around_ns = around_ns,
                             .rank = rank,
                             .least_ns = UINT64_MAX,
                             .calm_ns = {UINT64_MAX, UINT64_MAX}};
}

void carnot_contestant_note(carnot_contestant* c, uint64_t ns, bool is_calm) {
  c->rounds++;
  if (ns < c->least_ns) c->least_ns = ns;
  if (!is_calm) return;
  const bool is_least = ns < c->calm_ns[0];
  if (is_least || ns < c->calm_ns[1]) c->calm_ns[1] = is_least ? c->calm_ns[0] : ns;
  if (is_least) c->calm_ns[0] = ns;
}

// UINT64_MAX before the first round.
static uint64_t cost_of(const carnot_contestant* c) {
  return c->least_ns == UINT64_MAX ? UINT64_MAX : c->least_ns + c->around_ns;
}

// The rank of the leader goes to |out_rank|.
static uint64_t least_cost(const carnot_contestant* contestants, size_t count, int* out_rank) {
  uint64_t least = UINT64_MAX / 4;
  *out_rank = 0;
  for (size_t i = 0; i < count; i++) {
    const carnot_contestant* c = &contestants[i];
    if (!c->runs || cost_of(c) >= least) continue;
    least = cost_of(c);
    *out_rank = c->rank;
  }
  return least;
}

static uint32_t least_rounds(const carnot_contestant* c) { return c->least_ns >= kLongNs ? 2 : 4; }

// How far behind the leader one may be to run again. The first round warms up, and one that was
// never calm may have been disturbed every time.
static bool is_near(const carnot_contestant* c, uint64_t leader) {
  const bool is_known = c->calm_ns[0] != UINT64_MAX || c->rounds >= 2 * least_rounds(c);
  const uint64_t behind = c->rounds < 3 ? leader : c->rounds < 5 ? leader / 2 : leader / 8;
  return cost_of(c) <= leader + (is_known ? behind : 2 * leader);
}

static bool is_believed(const carnot_contestant* c) {
  return c->calm_ns[1] != UINT64_MAX && c->calm_ns[1] <= c->least_ns + c->least_ns / 64;
}

// The time of one of several that are close, or of the only one, is not believed yet.
static bool is_undecided(const carnot_contestant* contestants, size_t count, uint64_t leader) {
  size_t near = 0, believed = 0;
  for (size_t i = 0; i < count; i++) {
    const carnot_contestant* c = &contestants[i];
    const bool is_disturbed = c->calm_ns[0] == UINT64_MAX && is_near(c, leader);
    if (!c->runs || (cost_of(c) > leader + leader / 8 && !is_disturbed)) continue;
    near++;
    believed += is_believed(c);
  }
  return believed < near && (near > 1 || count == 1);
}

// Whether an older instruction set leads |c|, not by far.
static bool is_doubtful(const carnot_contestant* c, uint64_t leader, int rank) {
  return c->runs && c->rank > rank && cost_of(c) <= 2 * leader && c->rounds < kDoubtfulRounds &&
         c->rounds * c->least_ns < kDoubtfulNs;
}

// The leader, whose least time is of as many rounds as that of a doubtful one.
static bool is_challenged(const carnot_contestant* contestants, size_t count,
                          const carnot_contestant* c, uint64_t leader, int rank) {
  if (cost_of(c) > leader || c->rounds >= kDoubtfulRounds) return false;
  for (size_t i = 0; i < count; i++)
    if (is_doubtful(&contestants[i], leader, rank)) return true;
  return false;
}

bool carnot_contestant_continues(const carnot_contestant* contestants, size_t count, size_t i,
                                 uint64_t spent_ns) {
  const carnot_contestant* c = &contestants[i];
  int rank;
  const uint64_t leader = least_cost(contestants, count, &rank);
  if (!c->runs || c->rounds == kMostRounds) return false;
  if (c->rounds == 0 || is_doubtful(c, leader, rank)) return true;
  if (is_challenged(contestants, count, c, leader, rank)) return true;
  if (!is_near(c, leader)) return false;
  if (c->rounds < least_rounds(c)) return true;
  return spent_ns < kSpentNs + kSpentRuns * leader && is_undecided(contestants, count, leader);
}
