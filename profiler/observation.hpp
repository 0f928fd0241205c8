#pragma once
// Passes enqueued collectives to an observer in the program (common/libraries/collective_observer.hpp). The plugin
// needs no trace file for it. Any thread may call these functions.
#include "profiler/recorder.hpp"

namespace busbw::profiler {

/// Sets the address of NCCL's mask of wanted events, which all communicators share. From then on, an observer that the
/// program sets receives events.
void set_events_mask(int* mask) noexcept;

/// Reports a task to the observer, if the program has set an observer.
void report(const Task&) noexcept;

}  // namespace busbw::profiler
