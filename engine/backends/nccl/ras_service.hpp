#pragma once
// Queries NCCL's RAS service (reliability, availability, serviceability; NCCL 2.24 and later) about a stalled job.
// Every process of the job offers the service on its own host over TCP, and answers about the whole job.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"
#include "common/os/network.hpp"
#include "common/os/ticker.hpp"

namespace busbw {

/// Address at which the RAS service is queried.
struct RasAddress {
  std::string host;
  int port = 0;
};

/// NCCL_RAS_ADDR, or localhost:28028 if unset. Nothing if NCCL_RAS_ENABLE=0 disables the service, or if the address is
/// invalid.
std::optional<RasAddress> ras_address(Environment environment);

/// Maximum number of lines that query_ras() returns.
inline constexpr std::size_t kMaxRasLines = 24;
/// Returns the service's errors and warnings, at most kMaxRasLines lines. If it has none, or accepts the query but does
/// not answer completely in time, one line says so. Empty if no service accepts the query. Takes at most `ticks`.
std::vector<std::string> query_ras(const RasAddress& address, int ticks = 6 * kTicksPerS);

}  // namespace busbw
