#pragma once
// RANKS FIND EACH OTHER HERE: what the ranks of a job can do together before and beside the collectives they measure.
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rendezvous/team/issued_operations.hpp"
#include "values/message.hpp"
#include "values/phase.hpp"

namespace busbw {

/// The ranks of a job, or of one group of it, as one of them sees it. Every call but `aborted`, `enter` and `issued` is
/// made by all members in the same order. A wait for what has not come ends with `Aborted` once any rank has aborted
/// the job.
class Team {
 public:
  virtual ~Team() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns when all members have called it.
  virtual void barrier() = 0;
  /// Every member's bytes in rank order at member 0; empty elsewhere.
  virtual std::vector<Bytes> gather(std::span<const std::byte> mine) = 0;
  /// Member 0's bytes at every member.
  virtual Bytes broadcast(std::span<const std::byte> from_first) = 0;
  /// The members that gave the same colour, ordered by rank.
  virtual std::unique_ptr<Team> split(int colour) = 0;
  /// True once some rank, or the watchdog, gave up.
  virtual bool aborted() const = 0;
  /// Tells the watchdog how far this rank is: a phase, and one step of progress within it. Throws Aborted once the job
  /// is, so that a rank which never has to wait ends, too.
  virtual void enter(Phase phase) = 0;
  /// Where this rank tells the watchdog of each operation that it issues; there as long as this team.
  virtual IssuedOperations& issued() = 0;
};

}  // namespace busbw
