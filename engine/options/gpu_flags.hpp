#pragma once
// Flags that only the NCCL backend supports. The backend is selected later, so an unsuitable flag is not yet an error:
// the message is stored in Options::host_error or Options::nccl_error.
#include "common/os/environment.hpp"
#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

/// Reads the flags that only GPUs support. Sets host_error, the error if the run is on the host, if one of them is
/// given.
void read_gpu_flags(const FlagValues& flags, Environment environment, Options& options);

/// Error text if the kernel of -D cannot run this command line. Empty if it can.
std::string device_kernel_error(const FlagValues& flags, const Options& options);

}  // namespace busbw
