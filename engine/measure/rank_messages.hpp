#pragma once
// Messages about one placement: results from each rank to rank 0, and decisions of rank 0.
#include "measure/checker.hpp"
#include "measure/samples.hpp"
#include "rendezvous/team/team.hpp"
#include "values/message.hpp"

namespace busbw {

/// Encodes all fields of `samples`.
Bytes samples_message(const Samples& samples);
Samples read_samples(const Bytes& bytes);

Bytes check_result_message(const RankCheckResult& check_result);
RankCheckResult read_check_result(const Bytes& bytes);

/// Returns rank 0's `value` on every rank. All ranks must call it.
template <class Value>
Value broadcast_from_rank0(Team& team, const Value& value) {
  return MessageReader(team.broadcast(MessageWriter().add(value).bytes())).template take<Value>();
}

}  // namespace busbw
