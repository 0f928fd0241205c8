// Decides from the gathered capabilities whether the ranks get a fast path, and how many cells a step has.
#include "fastpath/peers/rank_capabilities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {
namespace {

// Maximum of the cells per step times the number of ranks. The number of ranks is rounded up to a power of two. At its
// full rate, NVLink transfers 2^18 cells in 11 us (16 bytes x 2^18 / 365 GB/s). This is several times NVLink's latency,
// so larger steps would gain little.
constexpr int kMaxCellsTimesRanks = 1 << 18;
// Minimum number of cells per step: 32 KiB for each peer. A fast path with fewer cells is not useful.
constexpr int kMinCells = 1 << 11;

/// Returns the text before the first zero byte.
template <std::size_t n>
std::string_view text(const std::array<char, n>& bytes) {
  return {bytes.data(), static_cast<std::size_t>(std::find(bytes.begin(), bytes.end(), '\0') - bytes.begin())};
}

}  // namespace

std::string refusal_reason(const std::vector<RankCapabilities>& ranks) {
  if (ranks.size() < 2) return "a single rank has no peers";
  if (ranks.size() > kMaxRanks) return fmt::format("{} ranks are more than the supported {}", ranks.size(), kMaxRanks);
  const RankCapabilities& first = ranks.front();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankCapabilities& current = ranks[rank];
    if (current.layout_version != kLayoutVersion)
      return fmt::format("rank {} has another version of this library", rank);
    if (current.host == std::array<std::uint64_t, 2>{}) return fmt::format("rank {} cannot identify its host", rank);
    if (current.host != first.host) return fmt::format("ranks 0 and {} are on different hosts", rank);
    // GPUs of different architectures can have the same name here, because long names are cut off.
    const bool is_same_gpu = current.gpu == first.gpu && current.capability_major == first.capability_major;
    if (!is_same_gpu)
      return fmt::format("the GPUs differ: {} on rank 0, {} on rank {}", text(first.gpu), text(current.gpu), rank);
    if (current.selector_hash != first.selector_hash)
      return fmt::format("ranks 0 and {} have different tables or BUSBW_FASTPATH variables; use the same on every rank",
                         rank);
    for (std::size_t other = 0; other < rank; ++other)
      if (ranks[other].bus_id == current.bus_id)
        return fmt::format("ranks {} and {} share GPU {}", other, rank, text(current.bus_id));
    if (current.needs_nccl != 0)
      return fmt::format(
          "rank {} sets NCCL_LAUNCH_ORDER_IMPLICIT, NCCL_CHECK_MODE or NCCL_CHECK_POINTERS, which only NCCL supports",
          rank);
    if (current.cells <= 0)
      return fmt::format("rank {} has no scratch memory left for another communicator; raise BUSBW_FASTPATH_MIB", rank);
  }
  return {};
}

std::string not_ready_message(const std::vector<RankCapabilities>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].is_ready == 0)
      return fmt::format(
          "rank {} cannot access every peer's memory over NVLink, or its setup failed with the error in its log", rank);
  return {};
}

int common_cells(const std::vector<RankCapabilities>& ranks) {
  int min_cells = ranks.front().cells;
  for (const RankCapabilities& rank : ranks) min_cells = std::min(min_cells, rank.cells);
  return min_cells;
}

int cells_that_fit(std::size_t unreserved_bytes, int ranks, std::size_t (*bytes_for)(int ranks, int cells)) {
  int cells = kMaxCellsTimesRanks;
  // Rounds the number of ranks up to a power of two, so that `cells` stays a power of two: 2^16 for 3 or 4 ranks.
  for (int power_of_two = 1; power_of_two < ranks; power_of_two *= 2) cells /= 2;
  const std::size_t max_bytes = unreserved_bytes / 8 * 5;
  for (; cells >= kMinCells; cells /= 2)
    if (bytes_for(ranks, cells) <= max_bytes) return cells;
  return 0;
}

}  // namespace busbw::fastpath
