#pragma once
// What the command line asks of NCCL beyond its collectives.
#include <optional>

#include "values/device_kernels.hpp"

namespace busbw {

/// How the ranks' buffers are made known to NCCL (-R).
enum class RegistrationMode { none, local, symmetric };

struct NcclOptions {
  RegistrationMode registration = RegistrationMode::none;  // -R
  std::optional<int> cta_policy;                   // -x; NCCL's own choice without
  std::optional<DeviceKernelInfo> kernel;          // -D; NCCL's own operation without
  int kernel_ctas = kDefaultDeviceCtas;            // -V
  bool reports_memory = false;                     // -M
  std::optional<int> max_peers;  // with whom a rank exchanges messages, where that is known to be few
};

}  // namespace busbw
