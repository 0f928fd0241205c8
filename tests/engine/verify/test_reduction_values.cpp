#include "verify/reduction_values.hpp"

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "common/support/error.hpp"
#include "values/dispatch.hpp"
#include "verify/float_reduction.hpp"
#include "verify/host_data.hpp"
#include "verify/integer_reduction.hpp"

using namespace busbw;

namespace {

std::vector<std::byte> filled(const DataStream& stream, std::size_t elements) {
  std::vector<std::byte> data(elements * stream.element_bytes);
  fill_host(data.data(), stream, 0, elements);
  return data;
}

std::uint64_t differences(const std::vector<std::byte>& data, const DataStream& stream) {
  Mismatches mismatches;
  compare_host(data.data(), stream, 0, data.size() / stream.element_bytes, 0, mismatches);
  return mismatches.count;
}

template <class T>
std::string text(Dtype dtype, T bits) {
  return element_text(dtype, reinterpret_cast<const std::byte*>(&bits));
}

}  // namespace

TEST_CASE("tiles hold the elements of the reduction, moved by the seed") {
  for (const Dtype dtype : kDtypes) {
    for (const Redop op : kRedops) {
      CAPTURE(name(dtype));
      CAPTURE(name(op));
      const ReductionValues values(dtype, op, 3);
      CHECK(values.exactness() == "exact");
      with_element_type(dtype, [&]<class T>() {
        using Reduction = std::conditional_t<kIsFloat<T>, FloatReduction<T>, IntegerReduction<T>>;
        const Reduction reduction(op, 3);
        const DataStream contributed = values.contribution(2, 11);
        const DataStream reduced = values.reduced(11);
        CHECK(contributed.element_bytes == sizeof(T));
        CHECK(contributed.tile->size() == kTileElements * sizeof(T));
        std::size_t wrong = 0;
        for (const std::uint64_t position : {0ull, 1ull, 2047ull, 2048ull, 9999ull, 1ull << 33}) {
          const std::size_t in_tile = block_start(contributed.seed, position / kBlockElements) +
                                      static_cast<std::size_t>(position % kBlockElements);
          const T contribution = reduction.contribution(2, in_tile);
          const T result = reduction.reduced(in_tile);
          wrong += std::memcmp(contributed.at(position), &contribution, sizeof(T)) != 0;
          wrong += std::memcmp(reduced.at(position), &result, sizeof(T)) != 0;
        }
        CHECK(wrong == 0);
      });
    }
  }
}

TEST_CASE("a tile is made once") {
  const ReductionValues values(Dtype::float32, Redop::sum, 4);
  CHECK(values.contribution(1, 5).tile == values.contribution(1, 6).tile);
  CHECK(values.contribution(1, 5).tile != values.contribution(2, 5).tile);
  CHECK(values.reduced(5).tile == values.reduced(6).tile);
  CHECK(moved_stream(Dtype::float32, 0, 1).tile == moved_stream(Dtype::float32, 3, 2).tile);
}

TEST_CASE("numbers of ranks beyond the proof are errors") {
  CHECK_THROWS_AS(ReductionValues(Dtype::float32, Redop::sum, 0), UsageError);
  CHECK_THROWS_AS(ReductionValues(Dtype::float32, Redop::sum, 65537), UsageError);
  CHECK_NOTHROW(ReductionValues(Dtype::float32, Redop::sum, 65536));
}

TEST_CASE("the exactness states what the data cannot show") {
  const auto exactness = [](Dtype dtype, int ranks) { return ReductionValues(dtype, Redop::avg, ranks).exactness(); };
  CHECK(exactness(Dtype::int8, 127) == "exact");
  CHECK(exactness(Dtype::int8, 128) ==
        "exact, but each average is 0: the inputs must not sum to more than 127 over 128 ranks");
  CHECK(exactness(Dtype::uint8, 255) == "exact");
  CHECK(exactness(Dtype::uint8, 65536) ==
        "exact, but each average is 0: the inputs must not sum to more than 255 over 65536 ranks");
  CHECK(exactness(Dtype::f8e4m3, 1000) == "exact");
  CHECK(exactness(Dtype::f8e4m3, 4096) == "exact, but each average is 0: 1/4096 rounds to 0 in this type");
  CHECK(exactness(Dtype::f8e5m2, 65535) == "exact");
  CHECK(exactness(Dtype::float32, 65535) == "exact");
}

TEST_CASE("every single flipped bit of a result is found") {
  for (const Dtype dtype : kDtypes) {
    for (const Redop op : kRedops) {
      CAPTURE(name(dtype));
      CAPTURE(name(op));
      const ReductionValues values(dtype, op, 5);
      const DataStream reduced = values.reduced(1);
      auto data = filled(reduced, 2100);
      std::size_t missed = 0;
      for (std::size_t bit = 0; bit < data.size() * 8; bit += 101) {
        data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        Mismatches mismatches;
        compare_host(data.data(), reduced, 0, 2100, 0, mismatches);
        missed += mismatches.count != 1;
        data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      }
      CHECK(missed == 0);
    }
  }
}

TEST_CASE("results of another seed or at another position are found") {
  constexpr std::size_t kElements = 50 * kBlockElements;
  for (const Dtype dtype : kDtypes) {
    for (const Redop op : kRedops) {
      CAPTURE(name(dtype));
      CAPTURE(name(op));
      const ReductionValues values(dtype, op, 4);
      const DataStream reduced = values.reduced(1);
      const double share = static_cast<double>(differences(filled(values.reduced(2), kElements), reduced)) / kElements;
      CHECK(share > 0.5);
      const auto data = filled(reduced, kElements);
      for (std::size_t shift = 1; shift <= kBlockElements * 16; shift *= 2) {
        Mismatches mismatches;
        compare_host(data.data(), reduced, shift, kElements - shift, 0, mismatches);
        CHECK(static_cast<double>(mismatches.count) > 0.5 * static_cast<double>(kElements - shift));
      }
    }
  }
}

TEST_CASE("ranks contribute different data") {
  for (const Dtype dtype : kDtypes) {
    const ReductionValues values(dtype, Redop::sum, 4);
    const auto data = filled(values.contribution(0, 1), kTileElements);
    for (const int rank : {1, 2, 3}) {
      CHECK(differences(data, values.contribution(rank, 1)) > kTileElements / 2);
    }
  }
}

TEST_CASE("moved data are finite numbers, different for each rank, and guards are bytes") {
  for (const Dtype dtype : kDtypes) {
    const DataStream stream = moved_stream(dtype, 0, 1);
    CHECK(stream.element_bytes == size_bytes(dtype));
    bool all_finite = true;
    with_element_type(dtype, [&]<class T>() {
      for (std::uint64_t i = 0; i < 20000; ++i) {
        T value;
        std::memcpy(&value, stream.at(i), sizeof value);
        all_finite = all_finite && std::isfinite(to_double(value));
      }
    });
    CHECK(all_finite);
    const auto data = filled(stream, 20 * kBlockElements);
    for (int rank = 1; rank < 100; ++rank) {
      CHECK(differences(data, moved_stream(dtype, rank, 1)) > 18 * kBlockElements);
    }
  }
  CHECK(guard_stream(1).element_bytes == 1);
  CHECK(differences(filled(guard_stream(1), 4096), guard_stream(2)) > 3900);
}

TEST_CASE("the scalars of mulsum are nccl-tests'") {
  CHECK(mulsum_scalar(0) == 1);
  CHECK(mulsum_scalar(1) == 2);
  CHECK(mulsum_scalar(65534) == 1);
}

TEST_CASE("an element is shown as value and bits") {
  CHECK(text<float>(Dtype::float32, 3) == "3 (0x40400000)");
  CHECK(text<float>(Dtype::float32, 0.1f) == "0.1 (0x3dcccccd)");
  CHECK(text<double>(Dtype::float64, -1) == "-1 (0xbff0000000000000)");
  CHECK(text<std::int8_t>(Dtype::int8, -5) == "-5 (0xfb)");
  CHECK(text<std::uint8_t>(Dtype::uint8, 200) == "200 (0xc8)");
  CHECK(text<std::int32_t>(Dtype::int32, -1) == "-1 (0xffffffff)");
  CHECK(text<std::uint64_t>(Dtype::uint64, ~0ull) == "18446744073709551615 (0xffffffffffffffff)");
  CHECK(text<std::uint16_t>(Dtype::float16, 0x3c01) == "1.0009766 (0x3c01)");
  CHECK(text<std::uint16_t>(Dtype::bfloat16, 0x7fc0) == "nan (0x7fc0)");
  CHECK(text<std::uint8_t>(Dtype::f8e4m3, 0x7e) == "448 (0x7e)");
  CHECK(text<std::uint8_t>(Dtype::f8e5m2, 0xfc) == "-inf (0xfc)");
}
