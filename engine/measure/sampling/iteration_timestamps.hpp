#pragma once
// Timestamps around the iterations of a batch.
#include <cstddef>

#include "backends/backend.hpp"

namespace busbw {

/// Start and end of each iteration on any clock. The end of an iteration is the start of the next one, unless a barrier
/// between them is not timed (-z 3).
class IterationTimestamps {
 public:
  /// `timestamps` must outlive this object.
  IterationTimestamps(Timestamps& timestamps, bool has_untimed_barriers)
      : timestamps_(timestamps), stride_(has_untimed_barriers ? 2 : 1) {}

  /// Discards all timestamps and reserves those of `iterations` iterations.
  void reset(std::size_t iterations) {
    last_ = iterations * stride_;
    timestamps_.reset(last_ + 1);
  }
  void set_start(std::size_t iteration) { timestamps_.set(iteration * stride_); }
  /// Call only with untimed barriers.
  void set_end(std::size_t iteration) { timestamps_.set(iteration * stride_ + 1); }
  /// Call after the last iteration.
  void set_last_end() { timestamps_.set(last_); }
  /// Duration of an iteration. Its operations must have ended.
  double seconds(std::size_t iteration) const {
    return timestamps_.seconds_between(iteration * stride_, iteration * stride_ + 1);
  }

 private:
  Timestamps& timestamps_;
  /// Timestamps per iteration. 2: iteration i begins at timestamp 2i and ends at 2i + 1. 1: it begins at i and ends at
  /// i + 1.
  std::size_t stride_;
  std::size_t last_ = 0;
};

}  // namespace busbw
