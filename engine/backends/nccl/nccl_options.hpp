#pragma once
// Settings that change how NCCL is used. Most are flags of the command line.
#include <optional>

#include "values/device_kernels.hpp"

namespace busbw {

/// Registration of the ranks' buffers with NCCL (-R).
enum class RegistrationMode { none, local, symmetric };

/// How one run uses NCCL. The defaults are those of nccl-tests.
struct NcclOptions {
  RegistrationMode registration = RegistrationMode::none;  // -R
  std::optional<int> cta_policy;                           // -x; if empty, NCCL chooses
  std::optional<DeviceKernelInfo> kernel;                  // -D; if empty, NCCL's own operation runs
  int kernel_ctas = kDefaultDeviceCtas;                    // -V
  bool reports_memory = false;                             // -M
  bool reports_algorithms = false;                         // --report-algorithms
  int rma_contexts = 0;                                    // -H; 0: no puts
  bool captures = false;                                   // -G
  bool shares_gpus = false;                                // several local ranks use one GPU
  bool survives_losses = false;   // flows: no rank waits forever for a lost rank, because calls do not block
  int root_every = 0;             // comm_ops -R: number of ranks for each root; 0: one root
  bool shares_resources = false;  // comm_ops -S: split and shrunk communicators share those of their parent
  std::optional<int> max_peers;   // maximum number of peers that a rank sends to; empty: no limit
};

}  // namespace busbw
