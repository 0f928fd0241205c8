#pragma once
// Measures rounds of flows on request. Rank 0 reads requests and writes answers; all ranks measure.
#include <functional>
#include <string>

#include "backends/backend.hpp"
#include "flows/cluster.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// Descriptors of rank 0's process on which requests arrive and answers leave, and the limit of a flow.
struct FlowService {
  int requests_fd = 0;
  int answers_fd = 1;
  double flow_limit_s = 0;  // a flow has failed if it moves no data for this time
};

/// Connects the ranks, and serves requests until a request asks to end, or `requests_fd` has no more requests. All
/// ranks call it. If the communicator can give up peers, a failure ends only its own flows: a flow that times out, or
/// all flows of a lost process. The other ranks connect again, and repeat the round. Otherwise such a failure ends the
/// job.
///
/// `communicator`: covers all ranks of the job, also the ranks that could not start. `max_bytes`: length of each buffer
/// without its guards. `location`: that of this rank. Rank 0 calls `failure_message` in a catch block.
/// `failure_message` reports the current exception to the job and returns the text of the answer: the message of the
/// failure.
void serve_flows(Job& job, Team& world, Communicator& communicator, const FlowService& service, std::uint64_t max_bytes,
                 const RankLocation& location, const std::function<std::string()>& failure_message);

}  // namespace busbw
