#pragma once
// Interface for communication between ranks before a communicator exists, and outside the measured collectives.
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rendezvous/team/issued_operations.hpp"
#include "values/message.hpp"
#include "values/phase.hpp"

namespace busbw {

/// One member's handle to a team. A team is the ranks of a job, or of one group of the job. All members must call
/// `barrier`, `gather`, `broadcast` and `split` in the same order. Waits throw JobAborted after any rank has aborted
/// the job.
class Team {
 public:
  virtual ~Team() = default;
  /// Returns this member's index in the team, from 0.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns when all members have called `barrier`.
  virtual void barrier() = 0;
  /// At member 0, returns every member's bytes in rank order. The bytes of a lost member are empty, if the job
  /// tolerates the loss. At other members, returns an empty list.
  virtual std::vector<Bytes> gather(std::span<const std::byte> own_bytes) = 0;
  /// Returns member 0's bytes at every member. `own_bytes` of other members are ignored.
  virtual Bytes broadcast(std::span<const std::byte> own_bytes) = 0;
  /// Returns the new team of all members that pass the same color, in rank order.
  virtual std::unique_ptr<Team> split(int color) = 0;
  /// True after a rank or the watchdog has aborted the job.
  virtual bool aborted() const = 0;
  /// Reports a phase and one step of progress to the watchdog. Throws JobAborted after an abort, so that a rank that
  /// never waits also notices it.
  virtual void enter(Phase phase) = 0;
  /// Returns this member's counter of issued operations, which the timed loop increments and the watchdog reads. Valid
  /// while the team exists.
  virtual IssuedOperations& issued() = 0;
};

/// At member 0, returns every member's value in rank order. A lost member has the default value, if the job tolerates
/// the loss. At other members, returns an empty list.
template <class Value>
std::vector<Value> gather_values(Team& team, const Value& own_value) {
  std::vector<Value> values;
  for (const Bytes& bytes : team.gather(MessageWriter().add(own_value).bytes()))
    values.push_back(bytes.empty() ? Value{} : MessageReader(bytes).take<Value>());
  return values;
}

/// Returns member 0's value at every member.
template <class Value>
Value broadcast_value(Team& team, const Value& value) {
  return MessageReader(team.broadcast(MessageWriter().add(value).bytes())).template take<Value>();
}

/// At every member, returns every member's value in rank order. Throws BrokenMessage if member 0 does not
/// send one value per member.
template <class Value>
std::vector<Value> all_gather_values(Team& team, const Value& own_value) {
  auto values = broadcast_value(team, gather_values(team, own_value));
  if (std::ssize(values) != team.size()) throw BrokenMessage();
  return values;
}

}  // namespace busbw
