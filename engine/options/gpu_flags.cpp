#include "options/gpu_flags.hpp"

#include <fmt/format.h>

#include <array>

#include "common/support/printable.hpp"
#include "values/device_kernels.hpp"

namespace busbw {
namespace {

/// What all these flags may be; the rest of this file has only what follows from it.
void read_values(const FlagValues& given, Options& options) {
  RunSettings& settings = options.settings;
  settings.graph_launches = given.integer("--cudagraph", 0, 0);
  settings.local_register = given.integer("--local_register", 0, 0, 2);
  if (given.has("--cta_policy")) settings.cta_policy = given.integer("--cta_policy", 0, 0, 2);
  options.null_stream = given.on("--stream_null");
  settings.device_implementation = given.integer("--device_implementation", 0, 0, 4);
  const auto ctas = given.integer("--device_cta_count", kDefaultDeviceCtas, 1, kMaxDeviceCtas);
  if (settings.device_implementation > 0) settings.device_cta_count = ctas;
  settings.report_memory = given.on("--memory");
  settings.gpus_per_thread = given.integer("--ngpus", 1, 1, kMaxHostRanks);
}

}  // namespace

void read_gpu_flags(const FlagValues& given, Environment environment, Options& options) {
  read_values(given, options);
  struct GpuFlag {
    const char* name;
    bool asks;  // for something that takes a GPU
    const char* purpose;
  };
  const RunSettings& settings = options.settings;
  const std::array flags{
      GpuFlag{"--cudagraph", settings.graph_launches > 0, "launches CUDA graphs"},
      GpuFlag{"--local_register", settings.local_register > 0, "registers GPU memory with NCCL"},
      GpuFlag{"--cta_policy", settings.cta_policy.has_value(), "sets NCCL's CTA policy"},
      GpuFlag{"--stream_null", options.null_stream, "uses CUDA's null stream"},
      GpuFlag{"--device_implementation", settings.device_implementation > 0, "runs kernels on the GPU"},
      GpuFlag{"--device_cta_count", given.has("--device_cta_count"), "sets the CTAs of kernels on the GPU"},
      GpuFlag{"--memory", settings.report_memory, "reports GPU memory"}};
  const auto refuse = [](std::string& sentence, std::string why) {
    if (sentence.empty()) sentence = std::move(why);
  };
  const char* const host = options.backend == "mpi" ? "MPI backend" : "host backend";
  for (const GpuFlag& flag : flags) {
    if (!flag.asks) continue;
    const std::string asked = fmt::format("{} {} {}", spelling(flag.name), given.text(flag.name, ""), flag.purpose);
    refuse(options.host_error,
           fmt::format("{}, which the {} cannot do; leave it out, or measure on GPUs", asked, host));
  }
  if (const int gpus = settings.gpus_per_thread; gpus > 1)
    refuse(options.host_error,
           fmt::format("-g {0} (--ngpus): the {1} has no GPUs; allowed is 1. For {0} ranks on the host use -t {0} or "
                       "--processes {0}",
                       gpus, host));
  if (const auto device = nonempty_variable(environment, "NCCL_TESTS_DEVICE")) {
    refuse(options.host_error,
           fmt::format("NCCL_TESTS_DEVICE={} picks a GPU, which the {} does not have; unset it", printable_value(*device), host));
    const auto number = parse_integer(*device);
    if (!number || *number < 0 || *number > kMaxInt)
      throw UsageError(fmt::format("NCCL_TESTS_DEVICE={}: allowed is a GPU's number from 0 on", printable_value(*device)));
    options.first_device = static_cast<int>(*number);
  }
  options.nccl_library = given.text("--library", "");
  if (given.has("--library")) {
    if (options.nccl_library.empty()) throw given.refuse("--library", "the path of a library with NCCL's interface");
    refuse(options.host_error,
           fmt::format("--library {}: the {} uses no NCCL library; leave it out", options.nccl_library, host));
  }
}

std::string device_kernel_error(const FlagValues& given, const Options& options) {
  const int number = options.settings.device_implementation;
  if (number == 0) {
    if (!given.has("--device_cta_count")) return "";
    return fmt::format("-V {} (--device_cta_count) sets the CTAs of a kernel and needs -D; add -D, or leave -V out",
                       given.text("--device_cta_count", ""));
  }
  const std::string asked = fmt::format("-D {} (--device_implementation)", number);
  const auto kernel = find_device_kernel(options.collective, number);
  if (!kernel) {
    const std::string numbers = device_kernels_of(options.collective);
    return fmt::format("{}: {} has no such kernel; allowed is {}", asked, options.program,
                       numbers.empty() ? "0 (all_reduce_perf and alltoall_perf have kernels)" : "0, " + numbers);
  }
  if (options.settings.local_register != 2)
    return fmt::format("{}: a kernel needs buffers in symmetric windows; add -R 2", asked);
  for (const Dtype dtype : options.data.dtypes)
    for (const Redop redop : options.data.redops)
      if (!supports(*kernel, dtype, redop))
        return fmt::format("{} with -o {} and -d {}: allowed is {}", asked, name(redop), name(dtype),
                           supported_text(*kernel));
  return "";
}

}  // namespace busbw
