#pragma once
// Settings that make NCCL send each flow of the program `flows` through one known NIC, and the NIC of each GPU.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

/// Sets NCCL's variables for flows in the environment, except those that the user set. Call before NCCL is opened.
void set_flow_environment();

/// Sets NCCL_COMM_BLOCKING=0, even if the user set another value. The variable overrides the configuration of a
/// communicator, and a blocking communicator would wait forever for a lost rank. Call it only if the library reads
/// configurations of communicators.
void forbid_blocking_communicators();

/// Returns the variables that the two functions above set, with their current values. Leaves out variables without a
/// value.
std::vector<std::pair<std::string, std::string>> flow_environment();

/// Returns the NIC that shares the longest path in the PCI tree with the GPU `bus_id`. The NIC is an RDMA device, or an
/// Ethernet device if the machine has no RDMA device. NCCL_IB_HCA and NCCL_SOCKET_IFNAME limit the choice. Of several
/// equally near NICs, `gpu_number` selects one, so that GPUs use them in turn. Nothing if the machine has no NIC.
/// `sys`: the mount of sysfs.
std::optional<NetworkPort> nearest_port(std::string bus_id, int gpu_number, const std::string& sys = "/sys");

}  // namespace busbw
