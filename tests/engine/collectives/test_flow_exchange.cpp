// The part of each rank in a round of flows.
#include <doctest/doctest.h>

#include "collectives/registry.hpp"
#include "support_communicator.hpp"

using namespace busbw;

namespace {

/// Keeps the transfers of the last exchange.
class ExchangeRecorder final : public IdleCommunicator {
 public:
  explicit ExchangeRecorder(int rank) : IdleCommunicator(rank, 4, 1000) {}
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override {
    last_sends.assign(sends.begin(), sends.end());
    last_recvs.assign(recvs.begin(), recvs.end());
  }
  std::vector<Transfer> last_sends, last_recvs;
};

}  // namespace

TEST_CASE("flow exchange: a rank sends one buffer to all receivers and receives each flow in its own region") {
  const std::vector<Flow> flows{{0, 2}, {1, 2}, {3, 2}, {2, 0}};
  ExchangeRecorder communicator(2);
  const auto exchange = make_flow_exchange(flows, 2);
  const Shape shape = exchange->shape(100, 1, 4);
  CHECK(shape.send_count == 100);
  CHECK(shape.recv_count == 300);
  CHECK(shape.param_count == 100);
  std::byte* const recv = communicator.recv_buffer().data();
  exchange->run(communicator,
                {.send = communicator.send_buffer().data(), .recv = recv, .count = 100, .dtype = Dtype::uint8});
  REQUIRE(communicator.last_sends.size() == 1);
  CHECK(communicator.last_sends[0].peer == 0);
  CHECK(communicator.last_sends[0].data == communicator.send_buffer().data());
  REQUIRE(communicator.last_recvs.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(communicator.last_recvs[i].peer == std::array{0, 1, 3}[i]);
    CHECK(communicator.last_recvs[i].data == recv + 100 * i);
    CHECK(communicator.last_recvs[i].count == 100);
  }
}

TEST_CASE("flow exchange: a rank without flows takes part with empty lists; all ranks plan the same memory") {
  const std::vector<Flow> flows{{0, 2}, {1, 2}};
  ExchangeRecorder communicator(3);
  const auto exchange = make_flow_exchange(flows, 3);
  CHECK(exchange->shape(8, 1, 4).recv_count == 16);
  exchange->run(communicator, {.count = 8, .dtype = Dtype::uint8});
  CHECK(communicator.last_sends.empty());
  CHECK(communicator.last_recvs.empty());
}

TEST_CASE("flow exchange: is made by name, but is no collective of the list") {
  CHECK(make_collective("flows", {})->name() == "flows");
  for (const auto& entry : all_collectives()) CHECK(entry.name != "flows");
}

TEST_CASE("flow exchange: the maximum number of flows counts flows to the same receiver, and is at least one") {
  CHECK(max_flows_to_one_rank(std::vector<Flow>{{0, 2}, {1, 2}, {2, 0}, {2, 1}}) == 2);
  CHECK(max_flows_to_one_rank(std::vector<Flow>{}) == 1);
}
