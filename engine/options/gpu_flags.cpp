#include "options/gpu_flags.hpp"

#include <fmt/format.h>

#include <array>

#include "common/support/printable.hpp"
#include "values/device_kernels.hpp"

namespace busbw {
namespace {

/// Reads and range-checks the values of the GPU flags.
void read_values(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  settings.graph_launches = flags.integer("--cudagraph", 0, 0);
  settings.local_register = flags.integer("--local_register", 0, 0, 2);
  if (flags.has("--cta_policy")) settings.cta_policy = flags.integer("--cta_policy", 0, 0, 2);
  options.null_stream = flags.is_on("--stream_null");
  settings.device_implementation = flags.integer("--device_implementation", 0, 0, 4);
  const auto ctas = flags.integer("--device_cta_count", kDefaultDeviceCtas, 1, kMaxDeviceCtas);
  if (settings.device_implementation > 0) settings.device_cta_count = ctas;
  settings.report_memory = flags.is_on("--memory");
  settings.gpus_per_thread = flags.integer("--ngpus", 1, 1, kMaxHostRanks);
}

}  // namespace

void read_gpu_flags(const FlagValues& flags, Environment environment, Options& options) {
  read_values(flags, options);
  struct GpuFlag {
    const char* name;
    bool needs_gpu;  // true if the value requires a GPU
    const char* purpose;
  };
  const RunSettings& settings = options.settings;
  const std::array gpu_flags{
      GpuFlag{"--cudagraph", settings.graph_launches > 0, "launches CUDA graphs"},
      GpuFlag{"--local_register", settings.local_register > 0, "registers GPU memory with NCCL"},
      GpuFlag{"--cta_policy", settings.cta_policy.has_value(), "sets NCCL's CTA policy"},
      GpuFlag{"--stream_null", options.null_stream, "uses CUDA's null stream"},
      GpuFlag{"--device_implementation", settings.device_implementation > 0, "runs kernels on the GPU"},
      GpuFlag{"--device_cta_count", flags.has("--device_cta_count"), "sets the CTAs of kernels on the GPU"},
      GpuFlag{"--memory", settings.report_memory, "reports GPU memory"}};
  const auto set_if_empty = [](std::string& first_error, std::string error) {
    if (first_error.empty()) first_error = std::move(error);
  };
  for (const GpuFlag& flag : gpu_flags) {
    if (!flag.needs_gpu) continue;
    const std::string request = fmt::format("{} {} {}", spelling(flag.name), flags.text(flag.name, ""), flag.purpose);
    set_if_empty(options.host_error,
                 fmt::format("{}, which the host backend cannot do; drop it, or measure on GPUs", request));
  }
  if (const int gpus = settings.gpus_per_thread; gpus > 1)
    set_if_empty(options.host_error,
                 fmt::format("-g {0} (--ngpus): the host backend has no GPUs; for {0} ranks on the host use -t {0} or "
                             "--processes {0}",
                             gpus));
  if (const auto device = nonempty_variable(environment, "NCCL_TESTS_DEVICE")) {
    set_if_empty(options.host_error,
                 fmt::format("NCCL_TESTS_DEVICE={} selects a GPU, but the host backend has none; unset it",
                             printable_value(*device)));
    const auto number = parse_integer(*device);
    if (!number || *number < 0 || *number > kMaxInt)
      throw UsageError(
          fmt::format("NCCL_TESTS_DEVICE={}: allowed: a GPU index of at least 0", printable_value(*device)));
    options.first_device = static_cast<int>(*number);
  }
  options.nccl_library = flags.text("--library", "");
  if (flags.has("--library")) {
    if (options.nccl_library.empty())
      throw flags.invalid_value("--library", "the path of a library with NCCL's interface");
    set_if_empty(options.host_error,
                 fmt::format("--library {}: the host backend uses no NCCL library; drop it", options.nccl_library));
  }
}

std::string device_kernel_error(const FlagValues& flags, const Options& options) {
  const int number = options.settings.device_implementation;
  if (number == 0) {
    if (!flags.has("--device_cta_count")) return "";
    return fmt::format("-V {} (--device_cta_count) sets the CTAs of a kernel and needs -D; add -D, or drop -V",
                       flags.text("--device_cta_count", ""));
  }
  const std::string request = fmt::format("-D {} (--device_implementation)", number);
  const auto kernel = find_device_kernel(options.collective, number);
  if (!kernel) {
    const std::string numbers = device_kernel_numbers(options.collective);
    return fmt::format("{}: {} has no such kernel; allowed: {}", request, options.program,
                       numbers.empty() ? "0 (all_reduce_perf and alltoall_perf have kernels)" : "0, " + numbers);
  }
  if (options.settings.local_register != 2)
    return fmt::format("{}: a kernel needs buffers in symmetric windows; add -R 2", request);
  for (const Dtype dtype : options.data.dtypes)
    for (const Redop redop : options.data.redops)
      if (!supports(*kernel, dtype, redop))
        return fmt::format("{} with -o {} and -d {}: allowed: {}", request, name(redop), name(dtype),
                           supported_text(*kernel));
  return "";
}

}  // namespace busbw
