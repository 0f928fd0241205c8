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

/// Algorithm of a kernel. `vectors`: 16 bytes at a time, instead of one element.
enum class DeviceKernel {
  all_reduce_lsa,
  all_reduce_lsa_vectors,
  all_reduce_multimem,
  all_reduce_multimem_vectors,
  alltoall_lsa,
  alltoall_lsa_vectors,
  alltoall_gin,
  alltoall_hybrid,  // stores to reachable ranks, network transfers to the other ranks
};

/// Number and requirements of one kernel.
struct DeviceKernelInfo {
  DeviceKernel kernel;
  std::string_view collective;
  int number;  // number for -D
  bool needs_peer_memory = false;  // all ranks must reach each other's memory by loads and stores
  bool needs_multimem = false;     // requires NVLink multicast
  bool needs_gin = false;          // requires a network with transfers that the GPU starts
};

/// All kernels of -D, by collective and number.
inline constexpr std::array kDeviceKernels{
    DeviceKernelInfo{
        .kernel = DeviceKernel::all_reduce_lsa, .collective = "all_reduce", .number = 1, .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_lsa_vectors,
                     .collective = "all_reduce",
                     .number = 2,
                     .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_multimem,
                     .collective = "all_reduce",
                     .number = 3,
                     .needs_peer_memory = true,
                     .needs_multimem = true},
    DeviceKernelInfo{.kernel = DeviceKernel::all_reduce_multimem_vectors,
                     .collective = "all_reduce",
                     .number = 4,
                     .needs_peer_memory = true,
                     .needs_multimem = true},
    DeviceKernelInfo{
        .kernel = DeviceKernel::alltoall_lsa, .collective = "alltoall", .number = 1, .needs_peer_memory = true},
    DeviceKernelInfo{
        .kernel = DeviceKernel::alltoall_lsa_vectors, .collective = "alltoall", .number = 2, .needs_peer_memory = true},
    DeviceKernelInfo{.kernel = DeviceKernel::alltoall_gin, .collective = "alltoall", .number = 3, .needs_gin = true},
    // Needs no peer memory: the GPU sends over the network to every rank that it cannot store to.
    DeviceKernelInfo{
        .kernel = DeviceKernel::alltoall_hybrid, .collective = "alltoall", .number = 4, .needs_gin = true}};

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
