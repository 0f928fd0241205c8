#pragma once
// The flags that are GPUs' alone: what they ask for, and who cannot do it.
#include "common/os/environment.hpp"
#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

/// The flags that only a GPU can honour, as settings, and why the host cannot do what they ask for; which backend runs
/// is decided later.
void read_gpu_flags(const FlagValues& given, Environment environment, Options& options);

/// Why the kernel of -D cannot run what is asked for; empty where it can.
std::string device_kernel_error(const FlagValues& given, const Options& options);

}  // namespace busbw
