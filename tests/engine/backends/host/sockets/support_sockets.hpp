#pragma once
// Helpers for socket tests: raw connections to a port, and one poll round of an acceptor or connector.
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
inline Descriptor connect_to_port(int port) {
  const Endpoint to = endpoint_of("127.0.0.1", port);
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(made.number(), reinterpret_cast<const sockaddr*>(&to.address), to.length) != 0) made.close();
  return made;
}

inline void send_bytes(const Descriptor& connection, std::span<const std::byte> bytes) {
  static_cast<void>(!send(connection.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}
inline void send_bytes(const Descriptor& connection, const std::string& text) {
  send_bytes(connection, std::as_bytes(std::span(text)));
}

/// True if the other end closes the connection without sending data. Blocks until then.
inline bool is_closed(const Descriptor& connection) {
  char byte = 0;
  return recv(connection.number(), &byte, 1, 0) <= 0;
}

/// Polls an acceptor for one tick at most and serves the events.
inline void serve(SocketAcceptor& acceptor, int wait_ms = kTickMs) {
  std::vector<pollfd> polled;
  acceptor.add_interests(polled);
  poll(polled.data(), polled.size(), wait_ms);
  acceptor.on_ready(polled);
}

/// Serves until `until()` holds, for a minute at most. Returns true if it did; `until` is not called again then.
template <class Until>
bool serve_until(SocketAcceptor& acceptor, Until until) {
  for (int round = 0; round < 600; ++round) {
    if (until()) return true;
    serve(acceptor);
  }
  return false;
}

inline void poll_once(SocketConnector& connector) {
  pollfd polled = connector.interest();
  if (poll(&polled, 1, kTickMs) > 0) connector.on_ready();
}

}  // namespace busbw
