#include "backends/host/reduce_kernel.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support_reduction.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kFirst = 3;  // elements before the reduced ones, which must stay as they are
constexpr std::size_t kAfter = 5;

/// Reduces elements kFirst .. kFirst + count of `ranks` sources. Returns a description of the first difference.
std::string reduce_and_compare(Dtype dtype, Redop redop, int ranks, std::size_t count, bool in_place, WriteMode store,
                               std::size_t shift_bytes = 0) {
  const std::size_t width = size_bytes(dtype);
  const std::size_t all = kFirst + count + kAfter;
  std::vector<std::vector<std::byte>> send;
  std::vector<std::vector<std::byte>> recv;
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  for (int rank = 0; rank < ranks; ++rank) {
    auto data = contributions(dtype, redop, rank, 0, all);
    data.insert(data.begin(), shift_bytes, std::byte{0});
    send.push_back(std::move(data));
    recv.emplace_back(all * width + shift_bytes, std::byte{0x5a});
  }
  for (std::size_t rank = 0; rank < send.size(); ++rank) {
    sources.push_back(send[rank].data() + shift_bytes);
    destinations.push_back((in_place ? send : recv)[rank].data() + shift_bytes);
  }
  reduce_elements(sources, destinations, kFirst, count, dtype, redop, store);

  const auto expected = reductions(dtype, redop, ranks, kFirst, count);
  for (int rank = 0; rank < ranks; ++rank) {
    auto whole =
        in_place ? contributions(dtype, redop, rank, 0, all) : std::vector<std::byte>(all * width, std::byte{0x5a});
    std::copy(expected.begin(), expected.end(), whole.begin() + static_cast<std::ptrdiff_t>(kFirst * width));
    if (!std::equal(whole.begin(), whole.end(), destinations[static_cast<std::size_t>(rank)])) {
      return std::string(name(dtype)) + " " + std::string(name(redop)) + " rank " + std::to_string(rank) + " of " +
             std::to_string(ranks) + ", " + std::to_string(count) + " elements; ";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("reduce_elements: every type and operator, any number of ranks, around the block size, in and out of place") {
  for (const Dtype dtype : kDtypes) {
    for (const Redop redop : kRedops) {
      for (const int ranks : {1, 2, 3, 4, 7, 8}) {
        for (const std::size_t count : {0, 1, 255, 256, 257, 1000}) {
          for (const bool in_place : {false, true}) {
            CHECK(reduce_and_compare(dtype, redop, ranks, count, in_place, WriteMode::cached) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("reduce_elements: streamed stores give the same, aligned or not") {
  for (const Dtype dtype : kDtypes) {
    for (const std::size_t count : {1, 256, 257, 5000}) {
      for (const std::size_t shift_elements : {0, 1}) {
        const std::size_t shift_bytes = shift_elements * size_bytes(dtype);
        CHECK(reduce_and_compare(dtype, Redop::sum, 3, count, false, WriteMode::streamed, shift_bytes) == "");
        CHECK(reduce_and_compare(dtype, Redop::sum, 3, count, true, WriteMode::streamed, shift_bytes) == "");
      }
    }
  }
}

TEST_CASE("reduce_elements: the number of ranks need not fit into the type that is averaged") {
  std::vector<std::int8_t> data(300, 0);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i < 100 ? 1 : 0;
  std::vector<const std::byte*> sources;
  for (const std::int8_t& value : data) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  std::byte result{0x77};
  std::byte* const destination = &result;
  reduce_elements(sources, {&destination, 1}, 0, 1, Dtype::int8, Redop::avg, WriteMode::cached);
  CHECK(result == std::byte{0});
}

TEST_CASE("reduce_elements: half is summed in float and rounded once") {
  // In half, 2048 + 1 is 2048 again; in float, 2048 + 1 + 1 is 2050, which half has.
  const std::vector<Float16> values{Float16::from_float(2048), Float16::from_float(1), Float16::from_float(1)};
  std::vector<const std::byte*> sources;
  for (const Float16& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  Float16 result;
  std::byte* const destination = reinterpret_cast<std::byte*>(&result);
  reduce_elements(sources, {&destination, 1}, 0, 1, Dtype::float16, Redop::sum, WriteMode::cached);
  CHECK(static_cast<float>(result) == 2050.0f);
}
