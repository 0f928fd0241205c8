#pragma once
// Records the operations of the host backend to trace files (schema/trace.md). On GPUs the profiler plugin records.
#include "backends/host/host_backend.hpp"
#include "common/trace/trace_file.hpp"

namespace busbw {

/// Returns a wrapper with which the ranks of each process write one trace file: all operations, also those of warm-up
/// and check. The wrapped communicators must complete operations before their calls return. Either all processes of a
/// job record or none.
CommunicatorWrapper make_recorder(const trace::TraceSettings& settings, int ranks_per_process);

}  // namespace busbw
