#pragma once
// Selects the events that the plugin requests from NCCL. Some events slow down the job in some versions of NCCL.
#include "common/os/environment.hpp"

namespace busbw::profiler {

/// Returns the version of the NCCL that contains the address (22809 for 2.28.9). If the file of this NCCL has no
/// ncclGetVersion, returns the version of the NCCL that the process finds first. Returns 0 if no version is known.
int nccl_version_of(const void* address);

/// Returns the mask of EventType for BUSBW_TRACE_DEVICE_TIMES (auto, on or off) and BUSBW_TRACE_NETWORK (on or off).
/// Throws UsageError if a value is invalid. `interface`: version of the profiler interface. `nccl_version`: as
/// nccl_version_of returns it.
int wanted_events(Environment environment, int interface, int nccl_version);

}  // namespace busbw::profiler
