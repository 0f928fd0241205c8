#pragma once
// What decides which method runs: a table, and what the environment says of each collective.
#include <cstddef>
#include <cstdint>

#include "fastpath/settings.hpp"
#include "fastpath/table.hpp"

namespace busbw::fastpath {

/// Immutable; the same on all ranks of a communicator, or they have no fast path.
class Choices {
 public:
  Choices(const Settings& settings, Table table) : settings_(settings), table_(std::move(table)) {}

  Mode mode(Collective collective) const noexcept { return settings_.mode(collective); }

  /// Whether it makes a difference for such calls that buffers lie in windows.
  bool regards_windows(Collective collective, int ranks) const noexcept {
    return settings_.forced ? settings_.forced->method == Method::direct : table_.regards_windows(collective, ranks);
  }

  /// `size_bytes` as nccl-tests counts it; whether `direct` is possible.
  Choice choose(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;

  /// Equal where all choices are.
  std::uint64_t hash() const noexcept;

 private:
  Settings settings_;
  Table table_;
};

}  // namespace busbw::fastpath
