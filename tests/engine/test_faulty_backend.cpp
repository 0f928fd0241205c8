#include "backends/faulty_backend.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "support/error.hpp"
#include "support_cases.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

std::unique_ptr<Backend> backend_of(int ranks) {
  auto backend = std::make_unique<HostBackend>(1, ranks, "0");
  backend->reserve(ranks, kBufferBytes);
  return backend;
}

/// A backend of `ranks` threads that knows nothing of the faults; every copy is counted.
std::unique_ptr<Backend> faulty(int ranks, std::string_view fault, std::atomic<int>& copies) {
  return with_faults(backend_of(ranks), {parse_fault(fault)},
                     [&copies](std::byte* to, const std::byte* from, std::size_t bytes) {
                       ++copies;
                       std::memcpy(to, from, bytes);
                     });
}

}  // namespace

TEST_CASE("with_faults: a flipped bit is in the result of its rank, in the check phase alone") {
  for (const std::string_view collective : kCollectives) {
    for (const bool in_place : {false, true}) {
      std::atomic<int> copies = 0;
      const auto backend = faulty(3, "flip:rank=1,index=7,bit=3", copies);
      const Case of{collective, Dtype::float32, Redop::sum, 100, 1, in_place};
      const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
        const auto communicator = backend->connect(world, world);
        communicator->enter(Phase::timing);
        if (!CaseRunner(*communicator, of).run().empty() || copies != 0) return "struck too early; ";
        world.barrier();
        communicator->enter(Phase::check);
        const bool wrong = !CaseRunner(*communicator, of).run().empty();
        return wrong == (world.rank() == 1) ? "" : "not struck, or the wrong rank; ";
      });
      CAPTURE(collective);
      CHECK(complaints == "");
      CHECK(copies == 2);
    }
  }
}

TEST_CASE("with_faults: a result is spoilt once, when its rank has waited for it") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(1, "flip:rank=0,index=2,bit=0", copies);
  const std::string complaints = run_threads(1, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    communicator->enter(Phase::check);
    std::byte* const send = communicator->send_buffer().data();
    std::byte* const recv = communicator->recv_buffer().data();
    std::memset(send, 4, 16);
    communicator->all_reduce(send, recv, 16, Dtype::uint8, Redop::sum);
    if (recv[2] != std::byte{4}) return "struck before the wait; ";
    communicator->synchronize();
    communicator->synchronize();
    return recv[1] == std::byte{4} && recv[2] == std::byte{5} ? "" : "not struck once; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("with_faults: a write past the end of what was received") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(1, "overrun:rank=0", copies);
  const std::string complaints = run_threads(1, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    communicator->enter(Phase::check);
    std::byte* const send = communicator->send_buffer().data();
    std::byte* const recv = communicator->recv_buffer().data();
    std::memset(recv, 0, 9);
    const Transfer to_myself{0, send, 8};
    const Transfer from_myself{0, recv, 8};
    communicator->exchange({&to_myself, 1}, {&from_myself, 1}, Dtype::uint8);
    communicator->synchronize();
    return recv[8] == std::byte{0xff} ? "" : "not struck; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("with_faults: ranks that exist, and a backend without faults as it was") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(2, "flip:rank=2,index=0,bit=0", copies);
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    try {
      backend->connect(world, world);
    } catch (const UsageError& error) {
      return std::string(error.what()) == "--fault with rank=2: allowed is a rank from 0 to 1" ? "" : error.what();
    }
    return "accepted; ";
  });
  CHECK(complaints == "");
  auto plain = backend_of(1);
  const Backend* const same = plain.get();
  CHECK(with_faults(std::move(plain), {}, {}).get() == same);
}
