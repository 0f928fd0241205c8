// Collects mismatches: counts all and keeps the first ones.
#include "verify/mismatch.hpp"

#include <cstring>

namespace busbw {

void Mismatches::add(std::uint64_t index, const std::byte* expected, const std::byte* got, std::size_t element_bytes) {
  ++count;
  if (first.size() == kKept) return;
  Mismatch mismatch;
  mismatch.index = index;
  std::memcpy(mismatch.expected.data(), expected, element_bytes);
  std::memcpy(mismatch.got.data(), got, element_bytes);
  first.push_back(mismatch);
}

void Mismatches::add_vanished(std::uint64_t first_index, std::uint64_t elements) {
  if (vanished == 0) vanished_range_start = first_index;
  vanished += elements;
  count += elements;
}

}  // namespace busbw
