// Lookups in the table of kernels of -D.
#include "values/device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace busbw {
namespace {

/// True if the kernel computes. The kernels of alltoall only move data.
bool reduces(const DeviceKernelInfo& kernel) { return kernel.collective == "all_reduce"; }

}  // namespace

std::optional<DeviceKernelInfo> find_device_kernel(std::string_view collective, int number) {
  const auto kernel = std::ranges::find_if(kDeviceKernels, [&](const DeviceKernelInfo& info) {
    return info.collective == collective && info.number == number;
  });
  if (kernel == kDeviceKernels.end()) return std::nullopt;
  return *kernel;
}

// `supported_text` describes these rules: change both together.
bool supports(const DeviceKernelInfo& kernel, Dtype dtype, Redop redop) {
  if (!reduces(kernel)) return true;
  // The NVSwitch reduces (instruction multimem.ld_reduce). The kernels contain only its additions of float and double.
  if (kernel.needs_multimem) return redop == Redop::sum && (dtype == Dtype::float32 || dtype == Dtype::float64);
  // `mulsum` is an operator that ncclRedOpCreatePreMulSum creates. A kernel of busbw does not see its factors.
  return redop != Redop::mulsum;
}

std::string supported_text(const DeviceKernelInfo& kernel) {
  if (!reduces(kernel)) return "every type";
  if (kernel.needs_multimem) return "-o sum with -d float or double";
  return "-o sum, prod, max, min or avg with every type";
}

std::string device_kernel_numbers(std::string_view collective) {
  std::string numbers;
  for (const DeviceKernelInfo& info : kDeviceKernels)
    if (info.collective == collective) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", info.number);
  return numbers;
}

}  // namespace busbw
