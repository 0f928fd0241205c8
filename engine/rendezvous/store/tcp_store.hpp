#pragma once
// The rendezvous store of a job, accessed over TCP.
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/tcp_channel.hpp"

namespace busbw {

/// State and callbacks of the job during waits.
struct StoreCallbacks {
  std::function<bool()> aborted;
  /// The store reported the job's failure.
  std::function<void(const Failure&)> on_failure;
  /// The connection to the store is lost, with the cause. Must abort the job before it returns.
  std::function<void(const std::string&)> on_lost_store;
};

/// For use by one thread.
class TcpStore final : public Store {
 public:
  /// `channel` has completed the handshake. `limit_s`: longest wait.
  TcpStore(TcpChannel channel, StoreCallbacks callbacks, double limit_s)
      : channel_(std::move(channel)), callbacks_(std::move(callbacks)), limit_s_(limit_s) {}

  void set(const std::string& key, std::span<const std::byte> value, int reads = 0) override;
  Bytes get(const std::string& key) override;
  /// Sends all requests at once.
  std::vector<Bytes> get_all(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void barrier(const std::string& key, int member, int members) override;
  void abort(const Failure& failure) noexcept override;
  std::optional<Failure> failure() override { return failure_; }
  /// Sets the longest wait for later calls.
  void limit(double limit_s) { limit_s_ = limit_s; }
  /// Reports the phase of local rank `index` at once, so that a crash is attributed to that phase.
  void report_phase(int index, Phase phase);

 private:
  std::uint32_t send(StoreRequest request);
  Bytes ask(StoreRequest request);
  /// Waits for the next reply. At the limit, throws an error that names `request`.
  StoreReply wait(const StoreRequest& request);
  /// Returns the reply in a frame, or nothing for other frames. Throws JobAborted on a failure frame, and
  /// BrokenMessage.
  std::optional<StoreReply> answer_in(const TcpChannel::ReceivedFrame& received);

  TcpChannel channel_;
  StoreCallbacks callbacks_;
  double limit_s_;
  std::uint32_t next_number_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace busbw
