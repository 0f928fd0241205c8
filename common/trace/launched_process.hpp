#pragma once
// Rank of a recorded process in its job, and the job's size, from the variables of the launcher.
#include <cstdint>

#include "common/os/environment.hpp"

namespace busbw::trace {

/// Rank of this process in its job, and number of processes. Values of -1 are unknown.
struct LaunchedProcess {
  std::int32_t rank = -1;
  std::int32_t size = -1;
};

/// Returns rank and size from the variables of the first launcher that gives a valid rank. Unlike the engine, does not
/// compare launchers and does not throw. A wrong rank in a trace is visible, and a recorder must not refuse a job.
LaunchedProcess launched_process(Environment environment);

}  // namespace busbw::trace
