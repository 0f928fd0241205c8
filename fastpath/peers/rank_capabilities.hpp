#pragma once
// What ranks tell each other to find out whether they can write into each other's memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace busbw::fastpath {

/// One rank's facts, as they travel: plain bytes, the same in every process that runs the same library.
struct RankCapabilities {
  std::uint64_t layout = 0;                     ///< of this struct, the slots, the kernels and the order of calls
  std::uint64_t choices = 0;                    ///< a hash of everything that decides which method runs
  std::array<std::uint64_t, 2> host{};          ///< the boot of the machine; all zero: not known
  std::array<std::uint64_t, 2> process{};       ///< random; process ids repeat in containers
  std::array<char, 16> bus_id{};                ///< of the GPU
  std::array<char, 56> gpu{};                   ///< its name
  std::int32_t capability_major = 0;
  std::int32_t cells = 0;                       ///< of a step for which there is room, 0: for none
  std::int32_t is_ready = 0;  ///< the memory is there, and in the last round everybody's is reached
  std::int32_t needs_nccl = 0;  ///< a variable asks for what only NCCL does
  std::uint64_t tags_begin = 0;  ///< random; rank 0's is everybody's
  std::uint64_t memory = 0;  ///< its address within its process
  std::array<unsigned char, 64> handle{};  ///< of the memory, for other processes
};

/// They are gathered before anybody can look at the layout, so that every version must have as many bytes.
static_assert(sizeof(RankCapabilities) == 216);

/// What this library's builds must agree on.
inline constexpr std::uint64_t kLayout = 4;

/// Why these ranks can't have a fast path, in one sentence; empty where they can. Every rank comes to the same answer.
std::string refusal_reason(const std::vector<RankCapabilities>& ranks);

/// Why it failed though it should have worked: which ranks are not ready; empty where all are.
std::string not_ready_message(const std::vector<RankCapabilities>& ranks);

/// Room that all have.
int common_cells(const std::vector<RankCapabilities>& ranks);

/// The largest number of cells whose slots fit into five eighths of what is left of a GPU's allowance, so that a
/// communicator made later gets some too; 0 where less than the least useful number fits. `bytes_for(cells)` must grow.
int cells_that_fit(std::size_t left_bytes, int ranks, std::size_t (*bytes_for)(int ranks, int cells));

}  // namespace busbw::fastpath
