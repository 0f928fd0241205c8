#pragma once
// Both transports of the host backend, shared memory and sockets, so that a test runs over both.
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "backends/host/sockets/socket_backend.hpp"

namespace busbw {

enum class Transport { shared_memory, sockets };
inline constexpr std::array kTransports{Transport::shared_memory, Transport::sockets};

/// Backend of a job of `ranks` threads in this process, with its buffers.
inline std::unique_ptr<Backend> backend_over(Transport transport, int ranks, std::size_t buffer_bytes) {
  std::unique_ptr<Backend> backend;
  if (transport == Transport::sockets) {
    backend = std::make_unique<SocketBackend>(0, ranks, "0");
  } else {
    backend = std::make_unique<SharedMemoryBackend>(1, ranks, "0");
  }
  backend->reserve(ranks, buffer_bytes);
  return backend;
}

/// Sums the world ranks of the communicator's members, in one element and in `many`, because all-reduce uses different
/// algorithms for the two. Returns an error text.
inline std::string sum_of_ranks(Communicator& communicator, int world_rank, int expected, std::size_t many) {
  for (const std::size_t count : {std::size_t{1}, many}) {
    auto* const send = communicator.send_buffer().data();
    auto* const recv = communicator.recv_buffer().data();
    for (std::size_t i = 0; i < count; ++i) std::memcpy(send + 4 * i, &world_rank, 4);
    communicator.all_reduce(send, recv, count, Dtype::int32, Redop::sum);
    for (std::size_t i = 0; i < count; ++i) {
      int got = 0;
      std::memcpy(&got, recv + 4 * i, 4);
      if (got != expected) return "got " + std::to_string(got) + ", not " + std::to_string(expected) + "; ";
    }
  }
  return {};
}

}  // namespace busbw
