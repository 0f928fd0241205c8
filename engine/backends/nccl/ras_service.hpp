#pragma once
// What NCCL's own service for such cases (RAS, NCCL 2.24 and later) says of a job that does not get on. Every process
// of the job answers for all of them, over TCP on its own host.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"
#include "common/os/network.hpp"
#include "common/os/ticker.hpp"

namespace busbw {

struct RasAddress {
  std::string host;
  int port = 0;
};

/// NCCL_RAS_ADDR, localhost:28028 without. Missing where NCCL_RAS_ENABLE=0 switches the service off, and where the
/// address is not one.
std::optional<RasAddress> ras_address(Environment environment);

/// The lines of its errors and warnings, or that it has none, or that it took too long; at most kMaxRasLines. Empty
/// where nobody, or nobody like it, answers. Takes `ticks` at most.
inline constexpr std::size_t kMaxRasLines = 24;
std::vector<std::string> query_ras(const RasAddress& where, int ticks = 6 * kTicksPerS);

}  // namespace busbw
