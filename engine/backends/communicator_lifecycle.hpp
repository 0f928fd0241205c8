#pragma once
// Interface for timing how communicators are created and ended. They have no streams, gates or large buffers, which
// would add to the times. A backend makes one object for each rank.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rendezvous/team/team.hpp"

namespace busbw {

/// Ways to make a communicator.
enum class CreationKind { init, split, shrink, grow };

/// Calls in the life of a communicator.
enum class LifecycleCall { rendezvous, create, first_all_reduce, next_all_reduce, finalize, destroy, abort };

/// One creation, the same on all ranks of its team.
struct Creation {
  CreationKind kind = CreationKind::init;
  Team& team;  // init, grow: the ranks of the new communicator; split, shrink: those of the parent. In the same order.
  int kept_ranks = 0;  // ranks below it form one half of a split, remain after a shrink, or exist before a grow
  int roots = 1;  // init: number of unique ids
  bool shares = false;  // split, shrink: the new communicator shares resources with its parent
  bool aborts_parent = false;  // shrink: ends the parent's operations first

  /// True if `rank` belongs to the new communicator, and so calls `create`.
  bool includes(int rank) const { return kind != CreationKind::shrink || rank < kept_ranks; }
  /// Ranks of the team that form one communicator with `rank`, as first rank and end.
  std::pair<int, int> members_of(int rank) const {
    if (kind != CreationKind::split && kind != CreationKind::shrink) return {0, team.size()};
    return rank < kept_ranks ? std::pair(0, kept_ranks) : std::pair(kept_ranks, team.size());
  }
};

/// One rank's handle to a communicator. The destructor releases it unless one of the last two calls has done so.
class LifecycleCommunicator {
 public:
  virtual ~LifecycleCommunicator() = default;
  /// This rank's number in the communicator, as the library states it.
  virtual int rank() const = 0;
  /// Adds the input of all ranks, and returns when the result is complete.
  virtual void all_reduce() = 0;
  virtual void finalize() = 0;
  virtual void destroy() = 0;
  virtual void abort() = 0;
};

/// Makes communicators of one rank. All calls are made in the rank's own thread. Failing calls throw.
class CommunicatorLifecycle {
 public:
  virtual ~CommunicatorLifecycle() = default;
  /// Exchanges between the ranks of the team what `create` needs. Every rank of the team calls it.
  virtual void rendezvous(const Creation& creation, LifecycleCommunicator* parent) = 0;
  /// Makes the communicator. Only ranks that the creation includes call it. `parent`: this rank's parent communicator.
  /// Null for init, and for the new ranks of a grow.
  virtual std::unique_ptr<LifecycleCommunicator> create(const Creation& creation, LifecycleCommunicator* parent) = 0;
  /// Sets the input of `all_reduce`, and overwrites its result with -1.
  virtual void set_input(std::span<const std::int32_t> elements) = 0;
  /// Returns the result of the last `all_reduce`.
  virtual std::vector<std::int32_t> result() = 0;
};

}  // namespace busbw
