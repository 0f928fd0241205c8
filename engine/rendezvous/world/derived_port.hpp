#pragma once
// Port that all processes of a job derive from a common number, without communication.
#include <cstdint>

namespace busbw {

/// Returns a port from 23,000 to 30,999, below Linux's ephemeral ports (32,768 and up). Consecutive numbers have
/// different ports.
constexpr int derived_port(std::uint64_t number) {
  constexpr int kFirst = 23000;
  constexpr int kCount = 8000;
  return kFirst + static_cast<int>(number % kCount);
}

}  // namespace busbw
