#include "measure/buffers.hpp"

#include <doctest/doctest.h>

#include "collectives/registry.hpp"
#include "support_collective.hpp"
#include "support_communicator.hpp"

using namespace busbw;

namespace {

/// Offset of `at` in a buffer. The guard precedes the buffer's data.
std::size_t offset(std::span<const std::byte> buffer, const std::byte* at) {
  return static_cast<std::size_t>(at - buffer.data());
}

}  // namespace

TEST_CASE("buffers: iterations move through the buffers region by region and start again, as in nccl-tests") {
  // nccl-tests: region = the larger of both sides, positions = max / region, shift = region * (iteration % positions)
  constexpr std::uint64_t kMax = 1000;
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{8}, std::size_t{30}, std::size_t{63}, std::size_t{125}, std::size_t{250}}) {
    IdleCommunicator communicator(0, 4, buffer_bytes(kMax, 0));
    const Shape shape{.send_count = count, .recv_count = count, .param_count = count};
    const CaseBuffers buffers(communicator, shape, Dtype::float32, kMax, 0);
    for (std::uint64_t iteration = 0; iteration < 600; ++iteration) {
      const std::size_t expected = kGuardBytes + 4 * count * (iteration % (kMax / (4 * count)));
      const CollectiveCall call = buffers.call(Placement::out_of_place, iteration, Dtype::float32, Redop::max, 2);
      REQUIRE(offset(communicator.send_buffer(), call.send) == expected);
      REQUIRE(offset(communicator.recv_buffer(), call.recv) == expected);
      REQUIRE(call.count == count);
      REQUIRE(call.dtype == Dtype::float32);
      REQUIRE(call.redop == Redop::max);
      REQUIRE(call.root == 2);
    }
  }
}

TEST_CASE("buffers: every iteration of every collective stays between the guards, for any size and shift") {
  constexpr std::uint64_t kMax = 8192;
  for (const CollectiveEntry& entry : all_collectives()) {
    const auto collective = entry.make({});
    CAPTURE(entry.name);
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (!collective->rank_count_error(ranks).empty()) continue;
      for (const Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64})
        for (const int unalign : {0, 1, 3})
          for (const std::uint64_t bytes : {0, 1, 8, 100, 1024, 3000, 4096, 8191, 8192}) {
            const std::size_t width = size_bytes(dtype);
            const Shape shape = collective->shape(bytes / width, width, ranks);
            for (int rank = 0; rank < ranks; rank += ranks - 1 > 0 ? ranks - 1 : 1) {
              IdleCommunicator communicator(rank, ranks, buffer_bytes(kMax, unalign));
              const CaseBuffers buffers(communicator, shape, dtype, kMax, unalign);
              for (const Placement placement : {Placement::out_of_place, Placement::in_place}) {
                const auto send_buffer =
                    placement == Placement::in_place ? communicator.recv_buffer() : communicator.send_buffer();
                for (const std::uint64_t iteration : {0, 1, 2, 7, 100, 1'000'003}) {
                  const CollectiveCall call = buffers.call(placement, iteration, dtype, Redop::sum, 0);
                  const std::size_t sent_at = offset(send_buffer, call.send);
                  const std::size_t recv_at = offset(communicator.recv_buffer(), call.recv);
                  REQUIRE(sent_at >= kGuardBytes);
                  REQUIRE(recv_at >= kGuardBytes);
                  REQUIRE(sent_at + shape.send_count * width + kGuardBytes <= buffer_bytes(kMax, unalign));
                  REQUIRE(recv_at + shape.recv_count * width + kGuardBytes <= buffer_bytes(kMax, unalign));
                }
                const auto region = buffers.recv_region(placement);
                const std::size_t region_at = offset(communicator.recv_buffer(), region.data());
                REQUIRE(region_at >= kGuardBytes);
                REQUIRE(region_at + region.size() + kGuardBytes <= buffer_bytes(kMax, unalign));
              }
            }
          }
    }
  }
}

TEST_CASE("buffers: -u shifts both buffers by elements of the type") {
  for (const Dtype dtype : {Dtype::int8, Dtype::bfloat16, Dtype::float32, Dtype::int64}) {
    IdleCommunicator communicator(0, 2, buffer_bytes(1024, 3));
    const Shape shape{.send_count = 10, .recv_count = 10, .param_count = 10};
    const CaseBuffers buffers(communicator, shape, dtype, 1024, 3);
    CHECK(offset(communicator.send_buffer(), buffers.send_data(Placement::out_of_place)) ==
          kGuardBytes + 3 * size_bytes(dtype));
    CHECK(offset(communicator.recv_buffer(), buffers.recv_data(Placement::out_of_place)) ==
          kGuardBytes + 3 * size_bytes(dtype));
  }
}

TEST_CASE("buffers: in place, each rank's data lies at its offset in the receive buffer") {
  constexpr std::uint64_t kMax = 4096;
  for (int rank = 0; rank < 4; ++rank) {
    IdleCommunicator communicator(rank, 4, buffer_bytes(kMax, 0));
    const auto place = [&](const std::byte* at) { return offset(communicator.recv_buffer(), at) - kGuardBytes; };
    const auto at_rank = 64u * static_cast<unsigned>(rank);
    const CaseBuffers gathered(communicator, make_all_gather({})->shape(64, 4, 4), Dtype::float32, kMax, 0);
    CHECK(place(gathered.send_data(Placement::in_place)) == at_rank);
    CHECK(place(gathered.recv_data(Placement::in_place)) == 0);
    CHECK(gathered.recv_region(Placement::in_place).size() == 256);
    CHECK(gathered.send_region().size() == 64);
    const CaseBuffers scattered(communicator, make_reduce_scatter({})->shape(64, 4, 4), Dtype::float32, kMax, 0);
    CHECK(place(scattered.send_data(Placement::in_place)) == 0);
    CHECK(place(scattered.recv_data(Placement::in_place)) == at_rank);
    CHECK(scattered.recv_region(Placement::in_place).size() == 256);
    CHECK(scattered.recv_region(Placement::out_of_place).size() == 64);
    // The in-place offsets move with the iterations.
    const CollectiveCall call = scattered.call(Placement::in_place, 1, Dtype::float32, Redop::sum, 0);
    CHECK(place(call.send) == 256);
    CHECK(place(call.recv) == 256 + at_rank);
  }
}

TEST_CASE("buffers: an empty region does not move") {
  IdleCommunicator communicator(0, 2, buffer_bytes(64, 0));
  const CaseBuffers buffers(communicator, Shape{}, Dtype::float32, 64, 0);
  for (const std::uint64_t iteration : {0, 1, 5})
    CHECK(offset(communicator.send_buffer(),
                 buffers.call(Placement::out_of_place, iteration, Dtype::float32, Redop::sum, 0).send) == kGuardBytes);
}
