#pragma once
// Collectives that busbw implements as kernels on NCCL's device API; -D selects one. Their numbers are those of
// nccl-tests. LSA: loads and stores in the memory of ranks that are reachable over NVLink. Multimem: NVLink multicast
// through the NVSwitch. GIN: network transfers that the GPU starts.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/values/types.hpp"

namespace busbw {

/// Algorithm of a kernel, with nccl-tests' number.
enum class DeviceKernel {
  all_reduce_lsa,               // 1
  all_reduce_lsa_vectors,       // 2
  all_reduce_multimem,          // 3
  all_reduce_multimem_vectors,  // 4
  alltoall_lsa,                 // 1
  alltoall_lsa_vectors,         // 2
  alltoall_gin,                 // 3
  alltoall_hybrid,              // 4
};

/// Number, text and requirements of one kernel.
struct DeviceKernelInfo {
  DeviceKernel kernel;
  std::string_view collective;
  int number;  // number for -D
  std::string_view description;  // "stores to peers' memory, 16 bytes at a time"
  bool needs_peer_memory = false;  // all ranks must reach each other's memory by loads and stores
  bool needs_multimem = false;     // requires NVLink multicast
  bool needs_gin = false;          // requires a network with transfers that the GPU starts
};

/// All kernels of -D, by collective and number.
inline constexpr std::array kDeviceKernels{
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_lsa,
                     .collective = "all_reduce",
                     .number = 1,
                     .description = "loads and stores of peers' memory, one element at a time",
                     .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_lsa_vectors,
                     .collective = "all_reduce",
                     .number = 2,
                     .description = "loads and stores of peers' memory, 16 bytes at a time",
                     .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_multimem,
                     .collective = "all_reduce",
                     .number = 3,
                     .description = "NVLink multicast, one element at a time",
                     .needs_peer_memory = true,
                     .needs_multimem = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_multimem_vectors,
                     .collective = "all_reduce",
                     .number = 4,
                     .description = "NVLink multicast, 16 bytes at a time",
                     .needs_peer_memory = true,
                     .needs_multimem = true},
    DeviceKernelInfo{.kernel = DeviceKernel::alltoall_lsa,
                     .collective = "alltoall",
                     .number = 1,
                     .description = "stores to peers' memory, one element at a time",
                     .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::alltoall_lsa_vectors,
                     .collective = "alltoall",
                     .number = 2,
                     .description = "stores to peers' memory, 16 bytes at a time",
                     .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::alltoall_gin,
                     .collective = "alltoall",
                     .number = 3,
                     .description = "network transfers that the GPU starts",
                     .needs_gin = true},
    // Needs no peer memory: the GPU sends over the network to every rank that it cannot store to.
    DeviceKernelInfo{.kernel = DeviceKernel::alltoall_hybrid,
                     .collective = "alltoall",
                     .number = 4,
                     .description = "stores to reachable ranks, network transfers to the other ranks",
                     .needs_gin = true}};

/// CTAs (thread blocks) of a kernel: the maximum of -V, and nccl-tests' default.
inline constexpr int kMaxDeviceCtas = 128;
inline constexpr int kDefaultDeviceCtas = 16;

/// Returns the kernel that -D `number` selects for a collective. None if there is no such kernel.
std::optional<DeviceKernelInfo> find_device_kernel(std::string_view collective, int number);

/// True if the kernel can reduce `dtype` with `redop`, or if the kernel does not reduce.
bool supports(const DeviceKernelInfo& kernel, Dtype dtype, Redop redop);

/// Numbers of a collective's kernels: "1, 2, 3, 4". Empty if the collective has no kernel.
std::string device_kernel_numbers(std::string_view collective);

/// Types and operators that a kernel supports, for messages: "-o sum with -d float or double".
std::string supported_text(const DeviceKernelInfo& kernel);

}  // namespace busbw
