#pragma once
// Traits that the backends of ranks in host memory share.
#include "values/backend_traits.hpp"

namespace busbw {

inline constexpr BackendTraits kHostTraits{.name = "host",
                                           .memory = BackendTraits::Memory::host,
                                           .clock = BackendTraits::Clock::host,
                                           .uses_nccl_library = false};

}  // namespace busbw
