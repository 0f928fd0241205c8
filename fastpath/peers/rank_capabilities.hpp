#pragma once
// Capabilities that the ranks of a communicator exchange in three rounds to decide whether they get a fast path
// (communicator/clique_setup.hpp). Each round fills in more fields.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace busbw::fastpath {

/// Capabilities of one rank, as plain bytes. The byte layout is the same in all processes with the same library.
struct RankCapabilities {
  std::uint64_t layout_version = 0;        ///< kLayoutVersion of the rank's library
  std::uint64_t selector_hash = 0;         ///< MethodSelector::hash()
  std::array<std::uint64_t, 2> host{};     ///< boot id of the machine; all zero: unknown
  std::array<std::uint64_t, 2> process{};  ///< random, because process ids repeat in containers
  std::array<char, 16> bus_id{};           ///< PCI bus id of the GPU
  std::array<char, 56> gpu{};              ///< name of the GPU, cut off after 55 characters
  std::int32_t capability_major = 0;  ///< major compute capability of the GPU
  std::int32_t cells = 0;  ///< cells per step (schedule.hpp) for which there is memory; 0: too little memory
  /// 1: the round succeeded. In round 2, NVLink connects all ranks, and the memory is allocated and has a handle. In
  /// round 3, all peers' memory is mapped, and the verifier exists if the settings need one.
  std::int32_t is_ready = 0;
  std::int32_t needs_nccl = 0;  ///< a variable requests a feature that only NCCL has
  std::uint64_t tags_begin = 0;  ///< random number before the first tag; all ranks use the value of rank 0
  std::uint64_t memory = 0;  ///< address of the scratch memory in the rank's process
  std::array<unsigned char, 64> handle{};  ///< CUDA IPC handle of the scratch memory
};

/// The size must be the same in every version, because ranks gather the struct before they can compare layouts.
static_assert(sizeof(RankCapabilities) == 216);

/// Version number of everything that ranks must have in common: this struct, the slots, the kernels and the order of
/// calls.
inline constexpr std::uint64_t kLayoutVersion = 4;

/// Returns the reason why these ranks cannot have a fast path. Empty if they can. Every rank gets the same result.
std::string refusal_reason(const std::vector<RankCapabilities>& ranks);

/// Returns a message that names the first rank that is not ready. Empty if all ranks are ready. The ranks do not
/// exchange errors, so the message names both kinds of reason: no NVLink, or an error.
std::string not_ready_message(const std::vector<RankCapabilities>& ranks);

/// Returns the smallest number of cells of all ranks.
int common_cells(const std::vector<RankCapabilities>& ranks);

/// Returns how many cells per step the scratch memory can hold if it takes at most 5/8 of the GPU's unreserved budget.
/// The rest stays available for later communicators. Returns 0 if fewer than the minimum useful number fit. `bytes_for`
/// returns the size of the scratch memory and must increase with `cells`.
int cells_that_fit(std::size_t unreserved_bytes, int ranks, std::size_t (*bytes_for)(int ranks, int cells));

}  // namespace busbw::fastpath
