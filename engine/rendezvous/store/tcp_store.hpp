#pragma once
// The job's store as one member reaches it over TCP.
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/tcp_channel.hpp"

namespace busbw {

/// What a member needs to know of its job while it waits.
struct StoreCallbacks {
  std::function<bool()> aborted;
  /// The store said that the job is aborted.
  std::function<void(const Failure&)> on_failure;
  /// The store is lost, and how; returns when the job is aborted.
  std::function<void(const std::string&)> on_lost_store;
};

/// Used by one thread.
class TcpStore final : public Store {
 public:
  /// `channel` has been welcomed. `limit_s`: the longest wait.
  TcpStore(TcpChannel channel, StoreCallbacks job, double limit_s)
      : channel_(std::move(channel)), job_(std::move(job)), limit_s_(limit_s) {}

  void set(const std::string& key, std::span<const std::byte> value, int reads = 0) override;
  Bytes get(const std::string& key) override;
  /// All are asked for at once.
  std::vector<Bytes> get_all(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void barrier(const std::string& key, int member, int members) override;
  void abort(const Failure& why) noexcept override;
  std::optional<Failure> failure() override { return failure_; }
  /// The longest wait from now on.
  void limit(double limit_s) { limit_s_ = limit_s; }
  /// Tells that a rank of this process, the `index`th, has come to a phase. Should it die there, that is known.
  void report_phase(int index, Phase phase);

 private:
  std::uint32_t send(StoreRequest request);
  Bytes ask(StoreRequest request);
  /// The next answer; `what` is named where it does not come in time.
  StoreReply wait(const StoreRequest& what);
  /// The answer in a frame that is one. Throws Aborted where it says that the job is aborted, and BrokenMessage.
  std::optional<StoreReply> answer_in(const TcpChannel::ReceivedFrame& received);

  TcpChannel channel_;
  StoreCallbacks job_;
  double limit_s_;
  std::uint32_t next_number_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace busbw
