#pragma once
// Derives the same port in all processes of a job from a number that they share, such as a hash of the job's id. So
// processes agree on the port without communication.
#include <cstdint>

namespace busbw {

/// Returns a port from 23,000 to 30,999, below Linux's ephemeral ports (32,768 and up). Consecutive job numbers have
/// different ports.
constexpr int derived_port(std::uint64_t job_number) {
  constexpr int kFirstPort = 23000;
  constexpr int kPortCount = 8000;
  return kFirstPort + static_cast<int>(job_number % kPortCount);
}

}  // namespace busbw
