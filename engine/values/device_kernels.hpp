#pragma once
// The kernels of our own that -D names: which number means which, and what each of them takes.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/values/types.hpp"

namespace busbw {

/// One algorithm, with nccl-tests' number for it.
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

struct DeviceKernelInfo {
  DeviceKernel kernel;
  std::string_view collective;
  int number;             // of -D
  std::string_view description;  // "loads and stores of peers' memory, 16 bytes at a time"
  bool needs_peer_memory;       // needs every rank's memory within reach of loads and stores
  bool multimem;          // needs NVLink multicast
  bool gin;               // needs a network whose transfers a GPU starts itself
};

inline constexpr std::array kDeviceKernels{
    DeviceKernelInfo{DeviceKernel::all_reduce_lsa, "all_reduce", 1, "loads and stores of peers' memory by elements",
                     true, false, false},
    DeviceKernelInfo{DeviceKernel::all_reduce_lsa_vectors, "all_reduce", 2,
                     "loads and stores of peers' memory by 16 bytes", true, false, false},
    DeviceKernelInfo{DeviceKernel::all_reduce_multimem, "all_reduce", 3, "NVLink multicast by elements", true, true,
                     false},
    DeviceKernelInfo{DeviceKernel::all_reduce_multimem_vectors, "all_reduce", 4, "NVLink multicast by 16 bytes", true,
                     true, false},
    DeviceKernelInfo{DeviceKernel::alltoall_lsa, "alltoall", 1, "stores to peers' memory by elements", true, false,
                     false},
    DeviceKernelInfo{DeviceKernel::alltoall_lsa_vectors, "alltoall", 2, "stores to peers' memory by 16 bytes", true,
                     false, false},
    DeviceKernelInfo{DeviceKernel::alltoall_gin, "alltoall", 3, "transfers over the network that the GPU starts", false,
                     false, true},
    DeviceKernelInfo{DeviceKernel::alltoall_hybrid, "alltoall", 4,
                     "stores within reach, transfers over the network beyond", false, false, true}};

/// CTAs of a kernel: what -V allows, and what nccl-tests takes without it.
inline constexpr int kMaxDeviceCtas = 128;
inline constexpr int kDefaultDeviceCtas = 16;

/// The kernel that -D `number` names for a collective; nothing where there is none.
std::optional<DeviceKernelInfo> find_device_kernel(std::string_view collective, int number);

/// Whether the kernel reduces `dtype` with `redop`. Those that do not reduce take everything.
bool supports(const DeviceKernelInfo& kernel, Dtype dtype, Redop redop);

/// "1, 2, 3, 4": the numbers that a collective knows; empty where it knows none.
std::string device_kernels_of(std::string_view collective);

/// "-o sum with -d float or double": what a kernel takes, for a sentence.
std::string supported_text(const DeviceKernelInfo& kernel);

}  // namespace busbw
