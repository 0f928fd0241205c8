#pragma once
// A rank's memory that its peers write into, and the way to theirs.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastpath/facts.hpp"
#include "fastpath/launch.hpp"

namespace busbw::fastpath {

/// Operations that a program queues itself and those that a graph replays come in no order that a host could know, so each
/// kind has a lane of its own.
enum class LaneOf { calls, graphs };
inline constexpr int kLanes = 2;

/// Owns memory on the current device at construction. Throws EnvironmentError where there is none.
class Scratch {
 public:
  Scratch(int ranks, int cells);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static std::size_t bytes_for(int ranks, int cells);

  /// Where it is, for this process and for others.
  void describe(Facts& facts) const;
  /// Finds the way to every peer's memory. False where one can't be reached over NVLink.
  bool reach(const std::vector<Facts>& ranks, int rank);

  const Lane& lane(LaneOf kind) const { return lanes_[static_cast<int>(kind)]; }

  /// Kernels that wait for a peer leave, now and later.
  void abort() noexcept;
  bool is_aborted() const noexcept;

 private:
  int device_ = 0;
  int ranks_;
  int cells_;
  char* memory_ = nullptr;
  std::uint32_t* aborted_ = nullptr;  // in the host's memory, seen by the GPU
  std::vector<void*> opened_;         // other processes' memory
  Lane lanes_[kLanes];
};

}  // namespace busbw::fastpath
