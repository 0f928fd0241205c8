#pragma once
// The way of one connection that this rank makes: which address is tried, how long, and what came of it.
#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/host/sockets/socket_handshake.hpp"
#include "common/os/network.hpp"

namespace busbw {

/// Calls the addresses of a peer one after the other until somebody answers who knows the peer's secret. Never blocks:
/// its owner polls, and ticks ten times a second.
class SocketConnector {
 public:
  /// Ticks until a connection that is not made is given up, in each round over all addresses; between two rounds; and
  /// until a peer that is connected must have answered. The first round passes quickly over addresses that lead
  /// nowhere; where there is only one there is no such round.
  static constexpr std::array kConnectTicks{3, 20, 50, 50};
  static constexpr int kPauseTicks = 5;
  static constexpr int kAnswerTicks = 100;

  SocketConnector(const std::vector<Endpoint>& addresses, const ListenerCredentials& door, int from, int to);

  /// What to poll for; negative descriptors are no error to poll.
  pollfd interest() const;
  /// After poll said that something happened.
  void on_ready();
  void tick();

  int to() const { return greeting_.to; }
  bool connected() const { return state_ == State::connected; }
  /// Every address was tried in every round.
  bool failed() const { return state_ == State::failed; }
  Descriptor take_connection() { return std::move(connection_); }
  /// "192.0.2.3:4711 (no answer), 10.0.0.3:4711 (Connection refused)"
  std::string tried() const;

 private:
  enum class State { pausing, connecting, waiting, connected, failed };
  struct ConnectAttempt {
    Endpoint endpoint;
    std::string outcome;
  };

  void call();
  void give_up(std::string outcome);
  void greet();
  void hear();

  std::vector<ConnectAttempt> tries_;
  ListenerCredentials door_;
  ConnectRequest greeting_;
  State state_ = State::pausing;
  std::size_t next_ = 0;
  std::size_t round_ = 0;
  int ticks_ = 0;
  Descriptor connection_;
  ListenerCredentials::Secret answer_{};
  std::size_t heard_bytes_ = 0;
};

/// The process may have no more sockets.
[[noreturn]] void throw_out_of_descriptors(int error);

}  // namespace busbw
