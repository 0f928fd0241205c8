#include "output/memory_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace busbw {

std::string memory_text(std::int64_t bytes) {
  constexpr std::array units{"B", "KB", "MB", "GB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && std::abs(amount) >= 1024; ++unit) amount /= 1024;
  const int decimals = std::abs(amount) < 10 ? 2 : std::abs(amount) < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", amount, decimals, units[unit]);
}

std::string memory_line(const std::vector<RankMemory>& ranks) {
  if (ranks.empty()) return "";
  struct Share {
    const char* name;
    std::optional<std::int64_t> RankMemory::* bytes;
  };
  // What CUDA takes to begin with is in the record: nccl-tests does not see it.
  constexpr std::array shares{Share{"Initialization", &RankMemory::library_bytes},
                              Share{"User-Allocated", &RankMemory::buffer_bytes},
                              Share{"Collective", &RankMemory::collective_bytes}};
  std::string text;
  std::optional<std::int64_t> total;
  for (const Share& share : shares) {
    std::optional<std::int64_t> most;
    for (const RankMemory& rank : ranks)
      if (rank.*share.bytes) most = std::max(most.value_or(*(rank.*share.bytes)), *(rank.*share.bytes));
    if (most) total = total.value_or(0) + *most;
    text += fmt::format("{} {} | ", share.name, most ? memory_text(*most) : "N/A");
  }
  return fmt::format("# {:<20} : {}Total  {}\n", "GPU memory usage", text, total ? memory_text(*total) : "N/A");
}

}  // namespace busbw
