#pragma once
// What a stranger does at a port, and one round of waiting for those who serve it.
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "backends/host/sockets/socket_acceptor.hpp"
#include "backends/host/sockets/socket_connector.hpp"
#include "common/os/network.hpp"
#include "common/os/ticker.hpp"

namespace busbw {

/// A blocking connection to a port of loopback.
inline Descriptor stranger_at(int port) {
  const Endpoint to = endpoint_of("127.0.0.1", port);
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(made.number(), reinterpret_cast<const sockaddr*>(&to.address), to.length) != 0) made.close();
  return made;
}

inline void say(const Descriptor& connection, std::span<const std::byte> bytes) {
  static_cast<void>(!send(connection.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}
inline void say(const Descriptor& connection, const std::string& text) {
  say(connection, std::as_bytes(std::span(text)));
}

/// Whether the other end closes without a word; waits for it.
inline bool is_shut_out(const Descriptor& connection) {
  char byte = 0;
  return recv(connection.number(), &byte, 1, 0) <= 0;
}

/// Waits for something to happen at the door, for a tick at most, and serves it.
inline void serve(SocketAcceptor& visitors, int wait_ms = kTickMs) {
  std::vector<pollfd> polled;
  visitors.add_interests(polled);
  poll(polled.data(), polled.size(), wait_ms);
  visitors.proceed(polled);
}

/// Serves until `until()` holds, for a minute at most; says whether it does. `until` is not asked again then.
template <class Until>
bool serve_until(SocketAcceptor& visitors, Until until) {
  for (int round = 0; round < 600; ++round) {
    if (until()) return true;
    serve(visitors);
  }
  return false;
}

inline void proceed(SocketConnector& caller) {
  pollfd polled = caller.interest();
  if (poll(&polled, 1, kTickMs) > 0) caller.on_ready();
}

}  // namespace busbw
