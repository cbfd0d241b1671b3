// How many processors this process may use.
#ifndef CARNOT_BASE_PROCESSORS_H_
#define CARNOT_BASE_PROCESSORS_H_

// CARNOT_THREADS if it is set and not 0; else the processors of the affinity mask, at most as many
// as the CPU quota of the control group allows (a container's --cpus), rounded up. At least 1.
int carnot_usable_processors(void);
// The processors that |quota| of |period| microseconds allow, from the text of cpu.max: "150000
// 100000" is 2, "max 100000" is 0 (no limit), as is any other text.
int carnot_processors_of_quota(const char* text);

#endif  // CARNOT_BASE_PROCESSORS_H_
