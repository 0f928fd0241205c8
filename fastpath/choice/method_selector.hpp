#pragma once
// Selects the method of a call from a table and from the environment's settings for each collective.
#include <cstddef>
#include <cstdint>

#include "fastpath/choice/settings.hpp"
#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// Maximum number of blocks of a call on a GPU with this many multiprocessors. A block takes at most half of a
/// multiprocessor. Then two communicators with all their blocks and one block of a third fit on the GPU at the same
/// time (docs/fastpath.md).
constexpr int max_blocks_on(int multiprocessors) { return multiprocessors > 2 ? multiprocessors - 1 : 1; }

/// Selects methods. Immutable. A communicator has a fast path only if its ranks' selectors have equal hashes.
class MethodSelector {
 public:
  /// `max_blocks` limits the blocks of methods from the table, but not those of a forced method.
  MethodSelector(const Settings& settings, Table table, int max_blocks = kMaxBlocks)
      : settings_(settings), table_(std::move(table)), max_blocks_(max_blocks) {}

  Mode mode(Collective collective) const noexcept { return settings_.mode(collective); }
  /// True if the results of at least one collective must be verified.
  bool verifies_any() const noexcept;

  /// True if at least one call of a communicator with this many ranks may run on the fast path.
  bool selects_any(int ranks) const noexcept;

  /// True if the method of such calls depends on whether their buffers lie in symmetric windows.
  bool depends_on_windows(Collective collective, int ranks) const noexcept {
    return settings_.forced ? settings_.forced->method == Method::direct : table_.has_window_lines(collective, ranks);
  }

  /// Returns the method of a call. `size_bytes` is counted as in nccl-tests. `in_windows`: the buffers lie in symmetric
  /// windows, so `direct` is possible.
  MethodConfig select(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;

  /// Returns a hash of the table and the settings that affect select().
  std::uint64_t hash() const noexcept;

 private:
  Settings settings_;
  Table table_;
  int max_blocks_;
};

}  // namespace busbw::fastpath
