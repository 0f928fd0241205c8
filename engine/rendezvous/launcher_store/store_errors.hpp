#pragma once
// Errors of a launcher's key-value store with their remedies, shared by PMIx and PMI-1.
#include <fmt/format.h>

#include <string_view>

#include "common/os/ticker.hpp"
#include "common/support/error.hpp"

namespace busbw {

/// Error for a store that cannot be used.
inline EnvironmentError unusable_store_error(std::string_view protocol, std::string_view problem) {
  return EnvironmentError(
      fmt::format("cannot find process 0 through the launcher's key-value store ({}): {}; use busbw launch mpirun, or "
                  "set BUSBW_RENDEZVOUS=tcp://HOST:PORT for all processes, HOST being the first host",
                  protocol, problem));
}

/// Error for a wait that exceeded the limit. The usual cause is that not all processes have joined.
inline Error store_timeout_error(std::string_view protocol, int limit_ticks) {
  return Error(
      ExitCode::rank_lost,
      fmt::format("not all processes have joined the launcher's key-value store ({}) in {:g} s; check that all "
                  "processes run the same program, or set BUSBW_JOIN_TIMEOUT_S",
                  protocol, limit_ticks / static_cast<double>(kTicksPerS)));
}

}  // namespace busbw
