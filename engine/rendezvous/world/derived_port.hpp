#pragma once
// A port that the processes of a job agree on without asking each other.
#include <cstdint>

namespace busbw {

/// From 23,000 to 30,999, below the ports that Linux gives to outgoing connections (32,768 on). Numbers that follow
/// each other have different ports.
constexpr int derived_port(std::uint64_t number) {
  constexpr int kFirst = 23000;
  constexpr int kCount = 8000;
  return kFirst + static_cast<int>(number % kCount);
}

}  // namespace busbw
