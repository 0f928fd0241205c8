// Library to preload that lengthens every measured time by an exact fraction, so that a benchmark can test whether a
// slowdown is found.
//
// The monotonic clock runs faster by the fraction in the variable SLOWER_BY (0.05: 5 %) from the start of the program.
// An operation of duration t is measured as t * 1.05 on every rank, with all noise of the machine. Extra work on the
// ranks would not be exact: if two ranks share a processor, 5 % more work on each takes 10 % more time.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*clock_function)(clockid_t, struct timespec*);

static clock_function real_clock;
static double added_fraction;
static struct timespec start;

static const long long kNanosecondsPerSecond = 1000000000;

__attribute__((constructor)) static void begin(void) {
  real_clock = (clock_function)dlsym(RTLD_NEXT, "clock_gettime");
  const char* text = getenv("SLOWER_BY");
  added_fraction = text ? atof(text) : 0;
  real_clock(CLOCK_MONOTONIC, &start);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (!real_clock) begin();
  const int result = real_clock(clock, now);
  if (clock != CLOCK_MONOTONIC || result != 0) return result;
  const long long since_start = (now->tv_sec - start.tv_sec) * kNanosecondsPerSecond + (now->tv_nsec - start.tv_nsec);
  const long long nanoseconds = now->tv_nsec + (long long)((double)since_start * added_fraction);
  now->tv_sec += nanoseconds / kNanosecondsPerSecond;
  now->tv_nsec = nanoseconds % kNanosecondsPerSecond;
  return 0;
}
