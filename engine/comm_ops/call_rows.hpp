#pragma once
// Makes the rows of one case of comm_ops from the times of all ranks.
#include <vector>

#include "comm_ops/comm_ops_runner.hpp"

namespace busbw {

/// Returns a row for each kind of call, in the order of a communicator's life. `calls`: by rank, as run_comm_ops
/// reports them. `backend` names the library's functions. `ranks`: of the job, in rank order.
CaseRows make_call_rows(const CommOpsCase& comm_case, const std::vector<std::vector<CallTimes>>& calls,
                        const Backend& backend, const std::vector<RankInfo>& ranks);

}  // namespace busbw
