#pragma once
// Client of the rendezvous store: a key-value store with which the members of a job communicate before the measurement,
// and during the measurement for all that is not measured. Each rank of a launched job has a client with a connection
// of its own.
#include "rendezvous/channel/tcp_channel.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Functions of the job that the store calls during waits.
struct StoreCallbacks {
  /// Returns true if the job is aborted.
  std::function<bool()> aborted;
  /// Receives the job's failure when the store reports it.
  std::function<void(const Failure&)> on_failure;
  /// Receives the cause when the connection to the store is lost. This callback must abort the job before it returns.
  std::function<void(const std::string&)> on_lost_store;
};

/// Keys and values shared by all members of a job; a member is a process or a rank. Each call except report_phase()
/// waits for the store's reply. After the time limit, the call throws Error (ExitCode::rank_lost), which names the
/// missing key or members. After an abort, the call throws JobAborted. Not thread-safe.
class TcpStore {
 public:
  /// `channel` has completed the handshake. `limit_s`: time limit of each wait.
  TcpStore(TcpChannel channel, StoreCallbacks callbacks, double limit_s)
      : channel_(std::move(channel)), callbacks_(std::move(callbacks)), limit_s_(limit_s) {}

  /// Stores `value`, at most StoreState::kMaxValueBytes, under `key`. The value is removed after `reads` calls of
  /// get() (0: never).
  void set(const std::string& key, std::span<const std::byte> value, int reads = 0);
  /// Waits for the value of `key` and returns it.
  Bytes get(const std::string& key);
  /// Waits for the values of several keys and returns them in order. Sends all requests at once. `members`: rank of the
  /// member that sets each key. If this member is lost and the job continues, the value is empty. If `members` is
  /// empty, the call waits for all values.
  std::vector<Bytes> get_all(std::span<const std::string> keys, std::span<const int> members = {});
  /// Returns when `members` members have called `barrier` with this key. `member` is the index of the caller, from 0
  /// on. A key is usable once.
  void barrier(const std::string& key, int member, int members);
  bool aborted() const { return callbacks_.aborted(); }
  /// Sets the time limit of later waits.
  void set_limit_s(double limit_s) { limit_s_ = limit_s; }
  /// Reports the phase of local rank `index` at once, so that a crash is attributed to that phase.
  void report_phase(int index, Phase phase);

 private:
  /// Sends a request and returns its number.
  std::uint32_t send(StoreRequest request);
  /// Sends a request and returns the value in its reply. Throws EnvironmentError if the store refuses it.
  Bytes send_and_wait(StoreRequest request);
  /// Waits for the next reply to any request. After the time limit, throws an error that names `request`.
  StoreReply wait_for_reply(const StoreRequest& request);
  /// Returns the reply in a frame, or nothing for other frames. Throws JobAborted for a failure frame, and
  /// BrokenMessage for an invalid frame.
  std::optional<StoreReply> decode_reply(const TcpChannel::ReceivedFrame& received);

  TcpChannel channel_;
  StoreCallbacks callbacks_;
  double limit_s_;
  std::uint32_t next_number_ = 0;
};

}  // namespace busbw
