#pragma once
// Makes one connection from this rank to a higher rank: tries its addresses in turn and records the outcomes for error
// messages. SocketMesh has one connector per higher rank.
#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/host/sockets/socket_handshake.hpp"
#include "common/os/network.hpp"

namespace busbw {

/// Tries a peer's addresses in turn until a listener gives the peer's answer (ListenerCredentials). No call blocks: the
/// owner polls, and calls `tick` ten times a second.
class SocketConnector {
 public:
  /// Limit of a connection attempt in ticks, by round. The short first round skips unreachable addresses quickly. It is
  /// left out if there is only one address.
  static constexpr std::array kConnectTicks{3, 20, 50, 50};
  static constexpr int kPauseTicks = 5;  // between two rounds
  /// Limit for the peer's answer.
  static constexpr int kAnswerTicks = 100;

  /// Starts the first attempt. `credentials`: of the peer. `from`, `to`: ranks in the communicator.
  SocketConnector(const std::vector<Endpoint>& addresses, const ListenerCredentials& credentials, int from, int to);

  /// Descriptor and events to poll. The descriptor may be negative, which poll ignores.
  pollfd interest() const;
  /// Call after poll has reported an event.
  void on_ready();
  /// Counts time for the limits.
  void tick();

  int to() const { return request_.to; }
  bool connected() const { return state_ == State::connected; }
  /// True if every address has failed in every round.
  bool failed() const { return state_ == State::failed; }
  Descriptor take_connection() { return std::move(connection_); }
  /// "192.0.2.3:4711 (no answer), 10.0.0.3:4711 (Connection refused)"
  std::string attempts_text() const;

 private:
  enum class State { pausing, connecting, awaiting_answer, connected, failed };
  struct ConnectAttempt {
    Endpoint endpoint;
    std::string outcome;
  };

  void try_next_address();
  void fail_attempt(std::string outcome);
  void send_request();
  void receive_answer();

  std::vector<ConnectAttempt> attempts_;
  ListenerCredentials credentials_;
  ConnectRequest request_;
  State state_ = State::pausing;
  std::size_t next_address_ = 0;  // index in attempts_ of the current or next attempt
  std::size_t round_ = 0;         // a round tries every address once
  int ticks_ = 0;                 // in the current state
  Descriptor connection_;
  ListenerCredentials::Secret answer_{};
  std::size_t received_bytes_ = 0;
};

/// Throws the error of a process that has reached its limit on sockets.
[[noreturn]] void throw_out_of_descriptors(int error);

}  // namespace busbw
