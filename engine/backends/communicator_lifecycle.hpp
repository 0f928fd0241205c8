#pragma once
// Interface for timing how communicators are created and ended. These communicators have no streams, gates or large
// buffers, because their creation would add to the times. A backend makes one CommunicatorLifecycle for each rank.
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rendezvous/team/team.hpp"

namespace busbw {

/// Ways to make a communicator.
enum class CreationKind { init, split, shrink, grow };

/// Calls in the life of a communicator. `next_all_reduce` is each all-reduce after the first one.
enum class LifecycleCall { rendezvous, create, first_all_reduce, next_all_reduce, finalize, destroy, abort };

/// One creation, the same on all ranks of its team.
struct Creation {
  CreationKind kind = CreationKind::init;
  /// init, grow: the ranks of the new communicator. split, shrink: the ranks of the parent. The order of the ranks is
  /// that of the communicator.
  Team& team;
  /// Number of ranks at the start of `team` that form:
  /// - split: the first of the two new communicators
  /// - shrink: the new communicator
  /// - grow: the parent
  /// Not used by init.
  int kept_ranks = 0;
  int roots = 1;  // init: number of unique ids
  bool aborts_parent = false;  // shrink: ends the parent's operations first

  /// True if `rank` belongs to the new communicator, and so calls `create`.
  bool includes(int rank) const { return kind != CreationKind::shrink || rank < kept_ranks; }
  /// Ranks of the team that are in the same communicator as `rank` after the creation: the first rank, and the end of
  /// the range. After a shrink, the ranks outside of the new communicator form a range of their own.
  std::pair<int, int> members_of(int rank) const {
    const bool divides_team = kind == CreationKind::split || kind == CreationKind::shrink;
    if (!divides_team) return {0, team.size()};
    return rank < kept_ranks ? std::pair(0, kept_ranks) : std::pair(kept_ranks, team.size());
  }
};

/// One rank's handle to a communicator. The destructor releases the communicator unless destroy() or abort() has.
class LifecycleCommunicator {
 public:
  virtual ~LifecycleCommunicator() = default;
  /// Number of this rank in the communicator, as the library states it.
  virtual int rank() const = 0;
  /// Starts an all-reduce that adds the input of all ranks. May return before the result is complete.
  virtual void all_reduce() = 0;
  /// Returns when the result of `all_reduce` is complete.
  virtual void wait() = 0;
  virtual void finalize() = 0;
  virtual void destroy() = 0;
  virtual void abort() = 0;
};

/// Makes one rank's handles to communicators. All calls are made in the rank's own thread. Failing calls throw.
class CommunicatorLifecycle {
 public:
  virtual ~CommunicatorLifecycle() = default;
  /// Exchanges the data that `create` needs between the ranks of the team. Every rank of the team calls `rendezvous`.
  virtual void rendezvous(const Creation& creation, LifecycleCommunicator* parent) = 0;
  /// Makes the communicator. Only ranks that the creation includes call `create`. `parent`: this rank's handle to the
  /// parent. Null for init, and for the new ranks of a grow.
  virtual std::unique_ptr<LifecycleCommunicator> create(const Creation& creation, LifecycleCommunicator* parent) = 0;
  /// Sets the input of the next `all_reduce`, and overwrites the last result with -1.
  virtual void set_input(std::span<const std::int32_t> elements) = 0;
  /// Returns the result of the last `all_reduce`.
  virtual std::vector<std::int32_t> result() = 0;
};

}  // namespace busbw
