// Raises the soft limit on open files (RLIMIT_NOFILE) as far as the hard limit allows.
#include "common/os/open_file_limit.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace busbw {

std::size_t raise_open_file_limit(std::size_t needed_count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return std::numeric_limits<std::size_t>::max();  // unknown: assume no limit
  if (limit.rlim_cur >= needed_count) return limit.rlim_cur;
  const rlim_t soft_limit = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(needed_count, limit.rlim_max);
  const bool can_raise = limit.rlim_cur > soft_limit;
  if (!can_raise || setrlimit(RLIMIT_NOFILE, &limit) != 0) return soft_limit;
  return limit.rlim_cur;
}

}  // namespace busbw
