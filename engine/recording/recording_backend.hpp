#pragma once
// Records the operations of the host backend to trace files (schema/trace.md). On GPUs the profiler plugin records.
#include <memory>

#include "backends/backend.hpp"
#include "common/trace/trace_file.hpp"

namespace busbw {

/// Returns a backend that writes one trace file for each process: all operations of its ranks, also those of warm-up
/// and check. `inner` completes operations before their calls return. Either all processes of a job record or none.
std::unique_ptr<Backend> make_recording_backend(std::unique_ptr<Backend> inner, const trace::TraceSettings& settings,
                                                int ranks_per_process);

}  // namespace busbw
