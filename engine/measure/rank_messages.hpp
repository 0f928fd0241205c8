#pragma once
// What ranks tell rank 0 of a placement, as bytes, and what rank 0 tells them.
#include "measure/checker.hpp"
#include "measure/samples.hpp"
#include "rendezvous/team/team.hpp"
#include "values/message.hpp"

namespace busbw {

/// All of `samples`.
Bytes samples_message(const Samples& samples);
Samples read_samples(const Bytes& bytes);

Bytes findings_message(const RankCheckResult& findings);
RankCheckResult read_findings(const Bytes& bytes);

/// What rank 0 decided, on every rank.
template <class Value>
Value broadcast_from_rank0(Team& team, const Value& decided) {
  return MessageReader(team.broadcast(MessageWriter().add(decided).bytes())).template take<Value>();
}

}  // namespace busbw
