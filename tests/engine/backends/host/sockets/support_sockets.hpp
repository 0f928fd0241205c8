#pragma once
// Helpers for socket tests: an acceptor that serves in its own thread.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "backends/host/sockets/socket_acceptor.hpp"
#include "support_wire.hpp"

namespace busbw {

/// Serves until `until()` holds, for a minute at most. Returns the accepted connections.
template <class Until>
std::vector<SocketAcceptor::AcceptedConnection> serve_until(SocketAcceptor& acceptor, Until until) {
  std::vector<SocketAcceptor::AcceptedConnection> accepted;
  for (int waited = 0; waited < test::kTimeoutMs && !until(accepted); ++waited)
    for (auto& connection : acceptor.serve()) accepted.push_back(std::move(connection));
  return accepted;
}

/// Serves an acceptor in a thread until the object is destroyed.
class ServingThread {
 public:
  explicit ServingThread(SocketAcceptor& acceptor)
      : thread_([this, &acceptor] {
          serve_until(acceptor, [&](const auto& accepted) {
            accepted_ = accepted.size();
            return should_stop_.load();
          });
        }) {}
  ~ServingThread() {
    should_stop_ = true;
    thread_.join();
  }
  std::size_t accepted() const { return accepted_; }

 private:
  std::atomic<bool> should_stop_{false};
  std::atomic<std::size_t> accepted_{0};
  std::thread thread_;
};

/// The greeting of a rank.
inline ClientInfo greeting_of(int rank) {
  ClientInfo client;
  client.process = rank;
  return client;
}

}  // namespace busbw
