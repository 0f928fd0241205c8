#pragma once
// Selects the method of a call. Method `nccl` delegates the call to the real NCCL, every other method runs it on the
// fast path. For a call such as ncclAllReduce, these stages decide in this order, and each can delegate the call:
//
//   1. set_up_cliques() (communicator/clique_setup.hpp), once for each new communicator: whether it gets a fast path.
//   2. try_fast_path() (exports/exported_collectives.cpp): whether the communicator has a fast path, and whether this
//      library knows the call's type and operator.
//   3. CliqueRank::select_config_for_call() (communicator/clique_rank.hpp): whether the communicator is aborted, and
//      whether the call has data and a valid root. For a reduction, also whether the kernels can reduce the type; they
//      move all known types, but do not reduce all. Finds out whether the buffers lie in symmetric windows.
//   4. MethodSelector::select_config() (this file): the BUSBW_FASTPATH variables, which can switch a collective off or
//      force one method for all sizes.
//   5. Table::look_up_config() (choice/table.hpp): the table's line for collective, number of ranks and size. Stage 4
//      calls it if no variable decides.
//
// All ranks that are not aborted get the same result, because the ranks compare settings and tables in stage 1.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fastpath/choice/settings.hpp"
#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// Maximum number of blocks of a call on a GPU with this many multiprocessors. All blocks of two communicators and one
/// block of a third must fit on the GPU at the same time (docs/explanation/fast-path.md). A block takes at most half of
/// a multiprocessor, so n multiprocessors have room for 2 n blocks. Two communicators with n - 1 blocks each leave room
/// for the third: 2 (n - 1) + 1 < 2 n.
constexpr int max_blocks_on(int multiprocessors) { return std::max(1, multiprocessors - 1); }

/// Selects methods. Immutable. A communicator has a fast path only if its ranks' selectors have equal hashes.
class MethodSelector {
 public:
  /// `max_blocks` limits the blocks of methods from the table, but not those of a forced method.
  MethodSelector(const Settings& settings, Table table, int max_blocks = kMaxBlocks)
      : settings_(settings), table_(std::move(table)), max_blocks_(max_blocks) {}

  Mode mode(Collective collective) const noexcept { return settings_.mode(collective); }
  /// True if at least one collective is in mode `verify`.
  bool verifies_any() const noexcept;

  /// True if at least one call of a communicator with this many ranks may run on the fast path.
  bool may_use_fast_path(int ranks) const noexcept;

  /// True if the method of a call of this collective depends on whether its buffers lie in symmetric windows.
  bool depends_on_windows(Collective collective, int ranks) const noexcept {
    return settings_.forced ? settings_.forced->method == Method::direct : table_.has_window_lines(collective, ranks);
  }

  /// Returns the method config of a call: by the settings if they decide, else by the table. `size_bytes` is the size
  /// of the larger of a rank's two buffers, as in nccl-tests. `in_windows`: the buffers lie in symmetric windows, so
  /// `direct` is possible.
  MethodConfig select_config(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;

  /// Returns a hash of the table and the settings that affect select_config().
  std::uint64_t hash() const noexcept;

 private:
  Settings settings_;
  Table table_;
  int max_blocks_;
};

}  // namespace busbw::fastpath
