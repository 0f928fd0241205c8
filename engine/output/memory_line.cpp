// Formats the memory use of all ranks in one line.
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
  int decimals = 0;
  if (std::abs(amount) < 10)
    decimals = 2;
  else if (std::abs(amount) < 100)
    decimals = 1;
  return fmt::format("{:.{}f} {}", amount, decimals, units[unit]);
}

std::string memory_line(const std::vector<MemoryUse>& ranks) {
  if (ranks.empty()) return "";
  struct MemoryColumn {
    const char* name;
    std::optional<std::int64_t> MemoryUse::* bytes;  // the member with the figure
  };
  // The CUDA context's memory is only in the record, because nccl-tests does not count it.
  constexpr std::array columns{MemoryColumn{"Initialization", &MemoryUse::library_bytes},
                               MemoryColumn{"User-Allocated", &MemoryUse::buffer_bytes},
                               MemoryColumn{"Collective", &MemoryUse::collective_bytes}};
  std::string text;
  std::optional<std::int64_t> total_bytes;
  for (const MemoryColumn& column : columns) {
    std::optional<std::int64_t> max_bytes;
    for (const MemoryUse& rank : ranks)
      if (const auto& rank_bytes = rank.*column.bytes)
        max_bytes = std::max(max_bytes.value_or(*rank_bytes), *rank_bytes);
    if (max_bytes) total_bytes = total_bytes.value_or(0) + *max_bytes;
    text += fmt::format("{} {} | ", column.name, max_bytes ? memory_text(*max_bytes) : "N/A");
  }
  return fmt::format("# {:<20} : {}Total  {}\n", "GPU memory usage", text,
                     total_bytes ? memory_text(*total_bytes) : "N/A");
}

}  // namespace busbw
