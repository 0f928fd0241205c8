// Creates, uses and destroys communicators of the host backend, one call at a time, so that comm_ops can time each
// call.
#include "backends/host/host_lifecycle.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace busbw {
namespace {

class HostLifecycle final : public CommunicatorLifecycle {
 public:
  explicit HostLifecycle(ConnectTeam connect) : connect_(std::move(connect)) {}

  void rendezvous(const Creation& creation, LifecycleCommunicator* /*parent*/) override {
    const auto [first_member, _] = creation.members_of(creation.team.rank());
    team_ = creation.team.split(/*color=*/first_member);
  }
  std::unique_ptr<LifecycleCommunicator> create(const Creation& creation, LifecycleCommunicator* /*parent*/) override {
    const bool is_derived = creation.kind != CreationKind::init;
    auto connected = connect_(*team_, is_derived);
    return std::make_unique<HostCommunicator>(*this, std::move(team_), std::move(connected));
  }
  void set_input(std::span<const std::int32_t> elements) override {
    input_.assign(elements.begin(), elements.end());
    result_.assign(elements.size(), -1);
  }
  std::vector<std::int32_t> result() override { return result_; }

 private:
  class HostCommunicator final : public LifecycleCommunicator {
   public:
    HostCommunicator(HostLifecycle& lifecycle, std::unique_ptr<Team> team, std::unique_ptr<Communicator> communicator)
        : lifecycle_(lifecycle), team_(std::move(team)), communicator_(std::move(communicator)) {}
    int rank() const override { return communicator_->rank(); }
    void all_reduce() override {
      // The data goes through the backend's buffers, the only memory that ranks of other processes can read.
      const std::size_t bytes = lifecycle_.input_.size() * sizeof(std::int32_t);
      std::byte* const send = communicator_->send_buffer().data();
      std::byte* const recv = communicator_->recv_buffer().data();
      std::memcpy(send, lifecycle_.input_.data(), bytes);
      std::memcpy(recv, lifecycle_.result_.data(), bytes);  // -1, so that a missing result is noticed
      communicator_->all_reduce(send, recv, lifecycle_.input_.size(), Dtype::int32, Redop::sum);
      communicator_->synchronize();
      std::memcpy(lifecycle_.result_.data(), recv, bytes);
    }
    void wait() override {}  // all_reduce returns with the result
    void finalize() override { throw std::logic_error("finalize: the host backend has no such call"); }
    void destroy() override {
      communicator_.reset();
      team_.reset();
    }
    void abort() override { throw std::logic_error("abort: the host backend has no such call"); }

   private:
    HostLifecycle& lifecycle_;
    std::unique_ptr<Team> team_;
    std::unique_ptr<Communicator> communicator_;
  };

  ConnectTeam connect_;
  std::unique_ptr<Team> team_;  // team of the next communicator, from `rendezvous` until `create`
  std::vector<std::int32_t> input_;
  std::vector<std::int32_t> result_;
};

}  // namespace

std::unique_ptr<CommunicatorLifecycle> make_host_lifecycle(ConnectTeam connect) {
  return std::make_unique<HostLifecycle>(std::move(connect));
}

}  // namespace busbw
