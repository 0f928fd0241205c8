// Checks that the selected backend can do what the command line requests.
#include "options/backend_checks.hpp"

#include <fmt/format.h>

#include <array>

#include "values/device_kernels.hpp"

namespace busbw {
namespace {

constexpr int kSymmetricWindows = 2;  // value of -R

/// Error if the backend has no GPUs, and an option needs a GPU.
std::string gpu_error(const Options& options, const BackendTraits& traits) {
  if (traits.memory == BackendTraits::Memory::gpu) return "";
  const RunSettings& settings = options.settings;
  struct GpuFlag {
    const char* name;
    bool needs_gpu;  // true if the value requires a GPU
    const char* purpose;
  };
  const std::array gpu_flags{
      GpuFlag{"--cudagraph", settings.graph_launches > 0, "launches CUDA graphs"},
      GpuFlag{"--local_register", settings.local_register > 0, "registers GPU memory with NCCL"},
      GpuFlag{"--cta_policy", settings.cta_policy.has_value(), "sets NCCL's CTA policy"},
      GpuFlag{"--stream_null", options.null_stream, "uses CUDA's null stream"},
      GpuFlag{"--device_implementation", settings.device_implementation > 0, "runs kernels on the GPU"},
      GpuFlag{"--device_cta_count", options.flags.has("--device_cta_count"), "sets the CTAs of kernels on the GPU"},
      GpuFlag{"--memory", settings.report_memory, "reports GPU memory"},
      GpuFlag{"--report-algorithms", settings.report_algorithms, "shows NCCL's algorithms"}};
  for (const GpuFlag& flag : gpu_flags)
    if (flag.needs_gpu)
      return fmt::format("{} {} {}, which the {} backend cannot do; drop it, or measure on GPUs", spelling(flag.name),
                         options.flags.text(flag.name, ""), flag.purpose, traits.name);
  if (const int gpus = settings.gpus_per_thread; gpus > 1)
    return fmt::format(
        "-g {0} (--ngpus): the {1} backend has no GPUs; for {0} ranks on the host use -t {0} or "
        "--processes {0}",
        gpus, traits.name);
  if (options.first_device)
    return fmt::format("NCCL_TESTS_DEVICE={} selects a GPU, but the {} backend has none; unset it",
                       *options.first_device, traits.name);
  return "";
}

std::string library_error(const Options& options, const BackendTraits& traits) {
  if (traits.uses_nccl_library || options.nccl_library.empty()) return "";
  return fmt::format("--library {}: the {} backend uses no NCCL library; drop it", options.nccl_library, traits.name);
}

/// Error if the kernel of -D cannot run the command line. gpu_error has already refused -D on backends without GPUs.
std::string device_kernel_error(const Options& options, const BackendTraits& /*traits*/) {
  const int number = options.settings.device_implementation;
  if (number == 0) {
    if (!options.flags.has("--device_cta_count")) return "";
    return fmt::format("-V {} (--device_cta_count) sets the CTAs of a kernel and needs -D; add -D, or drop -V",
                       options.flags.text("--device_cta_count", ""));
  }
  const std::string request = fmt::format("-D {} (--device_implementation)", number);
  const auto kernel = find_device_kernel(options.collective, number);
  if (!kernel) {
    const std::string numbers = device_kernel_numbers(options.collective);
    return fmt::format("{}: {} has no such kernel; allowed: {}", request, options.program,
                       numbers.empty() ? "0 (all_reduce_perf and alltoall_perf have kernels)" : "0, " + numbers);
  }
  if (options.settings.local_register != kSymmetricWindows)
    return fmt::format("{}: a kernel needs buffers in symmetric windows; add -R 2", request);
  for (const Dtype dtype : options.data.dtypes)
    for (const Redop redop : options.data.redops)
      if (!supports(*kernel, dtype, redop))
        return fmt::format("{} with -o {} and -d {}: allowed: {}", request, name(redop), name(dtype),
                           supported_text(*kernel));
  return "";
}

/// Error if -H runs on GPUs without the windows that it needs, or requests several contexts on another backend.
std::string one_sided_error(const Options& options, const BackendTraits& traits) {
  const int contexts = options.settings.rma_contexts;
  if (contexts == 0) return "";
  const std::string request = fmt::format("-H {} (--host_rma_implementation)", contexts);
  if (traits.memory != BackendTraits::Memory::gpu) {
    if (contexts == 1) return "";
    return fmt::format("{}: the {} backend has no contexts of NCCL; use -H 1", request, traits.name);
  }
  if (options.settings.local_register == kSymmetricWindows) return "";
  return request + ": puts need buffers in symmetric windows; add -R 2";
}

}  // namespace

std::string backend_error(const Options& options, const BackendTraits& traits) {
  for (const auto check : {gpu_error, library_error, device_kernel_error, one_sided_error})
    if (std::string error = check(options, traits); !error.empty()) return error;
  return "";
}

}  // namespace busbw
