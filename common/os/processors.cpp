// Reads the affinity mask of this thread.
#include "common/os/processors.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstddef>

namespace busbw {

std::vector<int> allowed_processors() {
  constexpr std::size_t kMaxProcessors = std::size_t{1} << 20;
  // The kernel rejects a set smaller than its own with EINVAL, so double the size until it fits.
  for (std::size_t count = CPU_SETSIZE; count <= kMaxProcessors; count *= 2) {
    std::vector<cpu_set_t> set(count / CPU_SETSIZE);
    const std::size_t bytes = set.size() * sizeof set[0];
    if (sched_getaffinity(0, bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> processors;
    for (std::size_t i = 0; i < count; ++i)
      if (CPU_ISSET_S(i, bytes, set.data())) processors.push_back(static_cast<int>(i));
    return processors;
  }
  return {};
}

std::optional<std::string> oversubscription_warning(int ranks, int processors, std::string_view host) {
  if (processors == 0 || ranks <= processors) return std::nullopt;
  const std::string on_host = host.empty() ? "" : fmt::format(" on {}", host);
  const char* const there = host.empty() ? "" : " there";
  const char* const plural = processors == 1 ? "" : "s";
  return fmt::format(
      "{} ranks{} share {} processor{}, so times include waiting for a turn; use at most {} rank{}{} to time the "
      "communication alone",
      ranks, on_host, processors, plural, processors, plural, there);
}

}  // namespace busbw
