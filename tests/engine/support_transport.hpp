#pragma once
// The host backend's two transports, so that a test runs over both: memory that ranks share, and sockets.
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "backends/host/host_backend.hpp"
#include "backends/host/socket_backend.hpp"

namespace busbw {

enum class Transport { shared_memory, sockets };
inline constexpr std::array kTransports{Transport::shared_memory, Transport::sockets};

/// The backend of a job of `ranks` threads in this process, with its buffers.
inline std::unique_ptr<Backend> backend_over(Transport transport, int ranks, std::size_t buffer_bytes,
                                             Faults faults = {}) {
  std::unique_ptr<Backend> backend;
  if (transport == Transport::sockets) {
    backend = std::make_unique<SocketBackend>(0, ranks, "0", std::move(faults));
  } else {
    backend = std::make_unique<HostBackend>(1, ranks, "0", std::move(faults));
  }
  backend->reserve(ranks, buffer_bytes);
  return backend;
}

}  // namespace busbw
