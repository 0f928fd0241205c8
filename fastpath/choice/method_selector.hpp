#pragma once
// What decides which method runs: a table, and what the environment says of each collective.
#include <cstddef>
#include <cstdint>

#include "fastpath/choice/settings.hpp"
#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// Blocks of a call, none of which takes more than half of a multiprocessor, so that kernels of three communicators
/// find room side by side on a GPU with this many, whatever they do: two times these and one more (docs/fastpath.md).
constexpr int max_blocks_on(int multiprocessors) { return multiprocessors > 2 ? multiprocessors - 1 : 1; }

/// Immutable; the same on all ranks of a communicator, or they have no fast path.
class MethodSelector {
 public:
  /// What the table chooses takes `max_blocks` at most; what is forced, what it says.
  MethodSelector(const Settings& settings, Table table, int max_blocks = kMaxBlocks)
      : settings_(settings), table_(std::move(table)), max_blocks_(max_blocks) {}

  Mode mode(Collective collective) const noexcept { return settings_.mode(collective); }
  /// Whether any collective's results are to be checked.
  bool verifies_any() const noexcept;

  /// Whether there is anything that is not handed over. It is the same on ranks whose choices are.
  bool selects_any(int ranks) const noexcept;

  /// Whether it makes a difference for such calls that buffers lie in windows.
  bool depends_on_windows(Collective collective, int ranks) const noexcept {
    return settings_.forced ? settings_.forced->method == Method::direct : table_.regards_windows(collective, ranks);
  }

  /// `size_bytes` as nccl-tests counts it; whether `direct` is possible.
  MethodConfig select(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;

  /// Equal where all choices are.
  std::uint64_t hash() const noexcept;

 private:
  Settings settings_;
  Table table_;
  int max_blocks_;
};

}  // namespace busbw::fastpath
