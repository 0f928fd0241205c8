#include "verify/host_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "support/dispatch.hpp"

namespace busbw {
namespace {

/// Calls visit(values, offset, elements) for each run of positions whose values are consecutive in the tile; `offset`
/// counts from `first`.
template <class Visit>
void for_each_run(const Stream& stream, std::uint64_t first, std::size_t elements, const Visit& visit) {
  for (std::size_t offset = 0; offset < elements;) {
    const std::uint64_t position = first + offset;
    const std::size_t run =
        std::min<std::size_t>(elements - offset, kBlockElements - static_cast<std::size_t>(position % kBlockElements));
    visit(stream.at(position), offset, run);
    offset += run;
  }
}

/// Compares run by run, and the elements of runs that differ with `is_right(expected, got)`.
template <class IsRight>
void compare(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
             std::uint64_t index_base, Mismatches& mismatches, const IsRight& is_right) {
  const std::size_t size = stream.element_bytes;
  for_each_run(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t run) {
    const std::byte* const got = at + offset * size;
    if (std::memcmp(got, values, run * size) == 0) return;
    for (std::size_t i = 0; i < run; ++i) {
      if (!is_right(values + i * size, got + i * size)) {
        mismatches.add(index_base + offset + i, values + i * size, got + i * size, size);
      }
    }
  });
}

}  // namespace

void fill_host(std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements) {
  const std::size_t size = stream.element_bytes;
  for_each_run(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t run) {
    std::memcpy(at + offset * size, values, run * size);
  });
}

void compare_host(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
                  std::uint64_t index_base, Mismatches& mismatches) {
  const auto compare_elements_of = [&]<std::size_t size>() {
    compare(at, stream, first, elements, index_base, mismatches,
            [](const std::byte* expected, const std::byte* got) { return std::memcmp(expected, got, size) == 0; });
  };
  // Sizes known to the compiler make a result that is wrong throughout quick to count.
  switch (stream.element_bytes) {
    case 1: return compare_elements_of.operator()<1>();
    case 2: return compare_elements_of.operator()<2>();
    case 4: return compare_elements_of.operator()<4>();
    case 8: return compare_elements_of.operator()<8>();
    default: throw std::logic_error("compare_host: elements have 1, 2, 4 or 8 bytes");
  }
}

void compare_host_within(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
                         std::uint64_t index_base, Dtype dtype, const Tolerance& tolerance, Mismatches& mismatches) {
  if (tolerance.exact || !is_float(dtype)) {
    compare_host(at, stream, first, elements, index_base, mismatches);
    return;
  }
  with_element_type(dtype, [&]<class T>() {
    const auto number = [](const std::byte* bytes) {
      T value;
      std::memcpy(&value, bytes, sizeof(T));
      return to_double(value);
    };
    compare(at, stream, first, elements, index_base, mismatches, [&](const std::byte* expected, const std::byte* got) {
      const double right = number(expected);
      // A NaN compares as false and is a mismatch.
      return std::abs(number(got) - right) <= tolerance.relative * std::abs(right) + tolerance.absolute;
    });
  });
}

}  // namespace busbw
