// Point-to-point flows between chosen ranks, which run at the same time: one round of the program `flows`.
#include <algorithm>
#include <map>
#include <set>

#include "collectives/registry.hpp"

namespace busbw {
namespace {

constexpr CollectiveFacts kFacts{
    .name = kFlowsName, .bus_factor = "1", .input = "whole", .output = "whole", .redop = "never"};

/// All flows of a sender send the same data. Each flow of a receiver has its own region of the receive buffer.
class FlowExchange final : public Collective {
 public:
  FlowExchange(std::span<const Flow> flows, int rank)
      : Collective(kFacts), max_flows_to_one_rank_(max_flows_to_one_rank(flows)) {
    for (const Flow& flow : flows) {
      if (flow.sender == rank) {
        receivers_.push_back(flow.receiver);
      } else if (flow.receiver == rank) {
        senders_.push_back(flow.sender);
      } else {
        busy_ranks_.insert({flow.sender, flow.receiver});
      }
    }
  }

  bool synchronizes_all_ranks() const override { return false; }
  /// All flows of a rank are one call, which may address all peers.
  int weighted_calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  Shape shape(std::size_t count, std::size_t /*element_bytes*/, int /*ranks*/) const override {
    return {.send_count = count, .recv_count = count * max_flows_to_one_rank_, .param_count = count};
  }
  /// Not defined: flows are timed and not checked.
  Segments expected_segments(const Shape&, const RankPosition&) const override { return {}; }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    std::vector<Transfer> sends;
    std::vector<Transfer> recvs;
    for (const int receiver : receivers_)
      sends.push_back(make_send(receiver, call.send, call.count, busy_ranks_.contains(receiver)));
    for (const int sender : senders_) {
      std::byte* const region = call.recv + recvs.size() * call.count * size_bytes(call.dtype);
      recvs.push_back({sender, region, call.count, busy_ranks_.contains(sender)});
    }
    communicator.exchange(sends, recvs, call.dtype);
  }

 private:
  std::vector<int> receivers_;  // ranks that this rank sends to
  std::vector<int> senders_;    // ranks that this rank receives from
  std::set<int> busy_ranks_;    // ranks with flows to or from another rank than this one
  std::size_t max_flows_to_one_rank_;  // in the whole round
};

}  // namespace

std::size_t max_flows_to_one_rank(std::span<const Flow> flows) {
  std::size_t max_count = 1;
  std::map<int, std::size_t> count_by_receiver;
  for (const Flow& flow : flows) {
    ++count_by_receiver[flow.receiver];
    max_count = std::max(max_count, count_by_receiver[flow.receiver]);
  }
  return max_count;
}

std::unique_ptr<Collective> make_flow_exchange(std::span<const Flow> flows, int rank) {
  return std::make_unique<FlowExchange>(flows, rank);
}

}  // namespace busbw
