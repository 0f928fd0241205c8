#pragma once
// Messages of protocol 1 between `busbw find` (src/busbw/find/protocol.py) and the engine's program `flows`: one JSON
// object per line. Unknown fields are ignored.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "flows/cluster.hpp"

namespace busbw {

/// Asks for the description of the cluster.
struct ClusterRequest {};

/// Asks for the times of flows that run at the same time, `iterations` times in succession.
struct MeasureRequest {
  std::int64_t id = 0;  // repeated in the answer
  std::uint64_t size_bytes = 0;  // of each flow in each iteration
  int iterations = 0;
  std::vector<std::pair<FlowEnd, FlowEnd>> flows;  // sender and receiver
};

struct EndRequest {};

using Request = std::variant<ClusterRequest, MeasureRequest, EndRequest>;

/// Parses a line. Throws UsageError if the line is not a request of protocol 1.
Request parse_request(std::string_view line);

/// Times of one flow, or the reason why the flow has no times.
struct FlowResult {
  std::vector<double> times_s;  // [iteration], measured at the receiver
  std::string error;
};

/// Each of these returns an answer with its end of line. `settings`: NCCL's variables for flows, with their values.
/// `flows`: in the order of the request. `took_s`: time from the request to the answer.
std::string cluster_answer(const FlowCluster& cluster, const std::vector<LostGpu>& lost,
                           const std::vector<std::pair<std::string, std::string>>& settings);
std::string measure_answer(std::int64_t id, const std::vector<FlowResult>& flows, const std::vector<LostGpu>& lost,
                           double took_s);
std::string error_answer(std::string_view message, const std::vector<LostGpu>& lost = {});

}  // namespace busbw
