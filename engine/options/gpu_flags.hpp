#pragma once
// Flags that only GPUs support.
#include "common/os/environment.hpp"
#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

/// Reads the flags that only GPUs support, and sets host_error if the host backend cannot run one of them. The backend
/// is selected later.
void read_gpu_flags(const FlagValues& flags, Environment environment, Options& options);

/// Error text if the kernel of -D cannot run this command line. Empty if it can.
std::string device_kernel_error(const FlagValues& flags, const Options& options);

}  // namespace busbw
