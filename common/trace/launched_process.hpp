#pragma once
// Rank of a recorded process in its job, from the variables of its launcher.
#include <cstdint>

#include "common/os/environment.hpp"

namespace busbw::trace {

/// Values of -1 are unknown.
struct LaunchedProcess {
  std::int32_t rank = -1;
  std::int32_t size = -1;
};

/// Reads the variables of the first known launcher that set a valid rank. It trusts them, unlike the engine: a wrong
/// rank in a trace is visible, and a recorder must not refuse a job.
LaunchedProcess launched_process(Environment environment);

}  // namespace busbw::trace
