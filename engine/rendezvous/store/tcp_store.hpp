#pragma once
// Client of the rendezvous store over TCP. Each rank of a launched job has one, with its own connection.
#include "rendezvous/channel/tcp_channel.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Functions of the job that the store calls during waits.
struct StoreCallbacks {
  /// Returns true if the job is aborted.
  std::function<bool()> aborted;
  /// Receives the job's failure when the store reports it.
  std::function<void(const Failure&)> on_failure;
  /// Receives the cause when the connection to the store is lost. Must abort the job before it returns.
  std::function<void(const std::string&)> on_lost_store;
};

/// Not thread-safe.
class TcpStore final : public Store {
 public:
  /// `channel` has completed the handshake. `limit_s`: longest wait in seconds.
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
  /// Sets the longest wait of later calls.
  void set_limit_s(double limit_s) { limit_s_ = limit_s; }
  /// Reports the phase of local rank `index` at once, so that a crash is attributed to that phase.
  void report_phase(int index, Phase phase);

 private:
  /// Sends a request and returns its number.
  std::uint32_t send(StoreRequest request);
  /// Sends a request and returns the value in its reply.
  Bytes send_and_wait(StoreRequest request);
  /// Waits for the next reply to any request. After the longest wait, throws an error that names `request`.
  StoreReply wait_for_reply(const StoreRequest& request);
  /// Returns the reply in a frame, or nothing for other frames. Throws JobAborted for a failure frame, and
  /// BrokenMessage for an invalid frame.
  std::optional<StoreReply> decode_reply(const TcpChannel::ReceivedFrame& received);

  TcpChannel channel_;
  StoreCallbacks callbacks_;
  double limit_s_;
  std::uint32_t next_number_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace busbw
