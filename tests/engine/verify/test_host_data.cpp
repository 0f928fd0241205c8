#include "verify/host_data.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "verify/reduction_values.hpp"

using namespace busbw;

namespace {

std::vector<std::byte> filled(const DataStream& stream, std::uint64_t first, std::size_t elements) {
  std::vector<std::byte> data(elements * stream.element_bytes);
  fill_host(data.data(), stream, first, elements);
  return data;
}

Mismatches compared(const std::vector<std::byte>& data, const DataStream& stream, std::uint64_t first,
                    std::uint64_t index_base = 0) {
  Mismatches mismatches;
  compare_host(data.data(), stream, first, data.size() / stream.element_bytes, index_base, mismatches);
  return mismatches;
}

}  // namespace

TEST_CASE("filling writes the stream's elements for any start and end") {
  for (const Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64}) {
    const DataStream stream = moved_stream(dtype, 1, 5);
    for (const std::uint64_t first : {0ull, 1ull, 2047ull, 2048ull, 5000ull, 1ull << 40}) {
      for (const std::size_t elements : {0u, 1u, 2u, 2047u, 2048u, 2049u, 10000u}) {
        const auto data = filled(stream, first, elements);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < elements; ++i) {
          wrong += std::memcmp(&data[i * stream.element_bytes], stream.at(first + i), stream.element_bytes) != 0;
        }
        CHECK(wrong == 0);
        CHECK(compared(data, stream, first).count == 0);
      }
    }
  }
}

TEST_CASE("filling in parts gives what filling at once gives") {
  const DataStream stream = moved_stream(Dtype::float32, 0, 9);
  const auto whole = filled(stream, 100, 9000);
  std::vector<std::byte> parts(whole.size());
  for (std::size_t done = 0; done < 9000; done += 750) fill_host(&parts[done * 4], stream, 100 + done, 750);
  CHECK(parts == whole);
}

TEST_CASE("one flipped bit is found, anywhere") {
  for (const Dtype dtype : kDtypes) {
    const DataStream stream = moved_stream(dtype, 0, 1);
    auto data = filled(stream, 1000, 5000);
    for (std::size_t byte = 0; byte < data.size(); byte += 7) {
      const std::byte right = data[byte];
      data[byte] ^= static_cast<std::byte>(1u << (byte % 8));
      const Mismatches found = compared(data, stream, 1000, 70);
      CHECK(found.count == 1);
      CHECK(found.first.at(0).index == 70 + byte / stream.element_bytes);
      CHECK(found.first.at(0).expected != found.first.at(0).got);
      data[byte] = right;
      if (byte > 2000 && byte + 2000 < data.size()) byte += 1000;
    }
  }
}

TEST_CASE("data of another seed, rank or position is found in every block") {
  const DataStream stream = moved_stream(Dtype::float32, 0, 1);
  const std::size_t elements = 100 * kBlockElements;
  const auto wrong_share = [&](const DataStream& other, std::uint64_t first) {
    return static_cast<double>(compared(filled(other, first, elements), stream, 0).count) / elements;
  };
  CHECK(wrong_share(moved_stream(Dtype::float32, 0, 2), 0) > 0.99);
  CHECK(wrong_share(moved_stream(Dtype::float32, 1, 1), 0) > 0.99);
  CHECK(wrong_share(stream, 1) > 0.99);
  for (std::uint64_t shift = 1; shift < 1u << 20; shift *= 2) CHECK(wrong_share(stream, shift) > 0.99);
}

TEST_CASE("elements have sizes of types") {
  const DataStream stream{std::make_shared<std::vector<std::byte>>(3 * kTileElements), 3, 0};
  CHECK_THROWS_AS(compared(filled(stream, 0, 1), stream, 0), std::logic_error);
}
