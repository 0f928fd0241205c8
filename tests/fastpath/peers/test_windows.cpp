#include "fastpath/peers/windows.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

using namespace busbw::fastpath;

namespace {

alignas(64) char memory[3][4096];  // this rank's buffer and its mappings of two peers' buffers

Windows two_windows() {
  Windows windows;
  for (const std::size_t at : {std::size_t{0}, std::size_t{2048}})
    windows.add({memory[0] + at, memory[0] + at, 2048, {memory[1] + at, memory[0] + at, memory[2] + at}});
  return windows;
}

CollectiveCall call_of(Collective collective, std::size_t send, std::size_t receive, std::size_t bytes) {
  CollectiveCall call;
  call.collective = collective;
  call.send = memory[0] + send;
  call.receive = memory[0] + receive;
  call.bytes = bytes;
  return call;
}

constexpr int kRanks = 3;

}  // namespace

TEST_CASE("the buffers of a call are found on every rank") {
  const auto reach = two_windows().peer_buffers(call_of(Collective::all_reduce, 64, 2048 + 16, 512), kRanks);
  REQUIRE(reach);
  CHECK(reach->send[0] == memory[1] + 64);
  CHECK(reach->send[1] == memory[0] + 64);
  CHECK(reach->send[2] == memory[2] + 64);
  CHECK(reach->receive[0] == memory[1] + 2048 + 16);
  CHECK(reach->receive[1] == memory[0] + 2048 + 16);
}

TEST_CASE("the whole buffer must be inside of a window") {
  const Windows windows = two_windows();
  const auto is_reached = [&](Collective collective, std::size_t send, std::size_t receive, std::size_t bytes) {
    return windows.peer_buffers(call_of(collective, send, receive, bytes), kRanks).has_value();
  };
  CHECK(is_reached(Collective::all_reduce, 0, 2048, 2048));
  CHECK_FALSE(is_reached(Collective::all_reduce, 16, 2048, 2048));
  CHECK_FALSE(is_reached(Collective::all_reduce, 0, 2048, 2064));
  CHECK_FALSE(is_reached(Collective::all_reduce, 0, 4096, 16));
  // The larger buffer has the parts of all ranks.
  CHECK(is_reached(Collective::all_gather, 0, 2048, 672));
  CHECK_FALSE(is_reached(Collective::all_gather, 0, 2048, 688));
  CHECK(is_reached(Collective::reduce_scatter, 0, 2048, 672));
  CHECK_FALSE(is_reached(Collective::reduce_scatter, 0, 2048, 688));
}

TEST_CASE("direct refuses partial cells, unaligned addresses and other collectives") {
  const Windows windows = two_windows();
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, 0, 2048, 24), kRanks));
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, 8, 2048, 32), kRanks));
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, 0, 2056, 32), kRanks));
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::broadcast, 0, 2048, 32), kRanks));
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::alltoall, 0, 2048, 32), kRanks));
}

TEST_CASE("windows are found in any order, up to their last byte") {
  Windows windows;
  for (const std::size_t at : {std::size_t{2048}, std::size_t{0}, std::size_t{1024}})
    windows.add({memory[0] + at, memory[0] + at, 512, {memory[1] + at, memory[0] + at, memory[2] + at}});
  for (const std::size_t at : {std::size_t{0}, std::size_t{1024}, std::size_t{2048}}) {
    const auto reach = windows.peer_buffers(call_of(Collective::all_reduce, at, at + 496, 16), kRanks);
    REQUIRE(reach);
    CHECK(reach->receive[2] == memory[2] + at + 496);
    CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, at, at + 512, 16), kRanks));
    CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, at, at + 496, 32), kRanks));
  }
}

TEST_CASE("a deregistered window is not found any more") {
  Windows windows = two_windows();
  windows.remove(memory[0]);
  CHECK_FALSE(windows.peer_buffers(call_of(Collective::all_reduce, 0, 2048, 32), kRanks));
  CHECK(windows.peer_buffers(call_of(Collective::all_reduce, 2048, 2048, 32), kRanks));
}
