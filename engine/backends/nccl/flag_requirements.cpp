// Table of the NCCL functions and versions that flags and shared GPUs require, and the check against a library.
// Versions are NCCL_VERSION_CODE: 22809 is 2.28.9.
#include "backends/nccl/flag_requirements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/nccl/gpus/rank_gpus.hpp"

namespace busbw {
namespace {

/// NCCL_CTA_POLICY_ZERO. NCCL has it later than the other policies.
constexpr int kZeroCtaPolicy = 2;

/// "2.28.9", or "2.27" if the last number is 0.
std::string short_version_text(int version) {
  const std::string text = fmt::format("{}.{}", version / 10000, version / 100 % 100);
  return version % 100 ? fmt::format("{}.{}", text, version % 100) : text;
}

FlagRequirement make_kernel_requirement(const DeviceKernelInfo& kernel, int headers_version) {
  FlagRequirement requirement{.flag = fmt::format("-D {} (--device_implementation)", kernel.number),
                              .remedy = "leave -D out",
                              .functions = {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclTeamLsa"},
                              .since = headers_version};
  // NCCL 2.29 changed the layout of a device communicator. Kernels that were built with older headers have the old
  // layout, and do not work with later libraries.
  if (headers_version < 22900) requirement.before = 22900;
  return requirement;
}

}  // namespace

std::vector<FlagRequirement> flag_requirements(const NcclOptions& flags, int headers_version) {
  std::vector<FlagRequirement> requirements;
  if (flags.registration == RegistrationMode::local)
    requirements.push_back({.flag = "-R 1 (--local_register)",
                            .remedy = "leave -R out",
                            .functions = {"ncclMemAlloc", "ncclMemFree", "ncclCommRegister", "ncclCommDeregister"},
                            .since = 21900});
  if (flags.registration == RegistrationMode::symmetric)
    requirements.push_back(
        {.flag = "-R 2 (--local_register)",
         .remedy = "leave -R out",
         .functions = {"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"},
         .since = 22700});
  if (flags.cta_policy)
    requirements.push_back({.flag = fmt::format("-x {} (--cta_policy)", *flags.cta_policy),
                            .remedy = "leave -x out",
                            .functions = {"ncclCommInitRankConfig"},
                            .since = *flags.cta_policy == kZeroCtaPolicy ? 22800 : 22700});
  if (flags.rma_contexts > 0) {
    const bool has_contexts = flags.rma_contexts > 1;
    requirements.push_back({.flag = fmt::format("-H {} (--host_rma_implementation)", flags.rma_contexts),
                            .remedy = has_contexts ? "use -H 1" : "leave -H out",
                            .functions = {"ncclPutSignal", "ncclWaitSignal"},
                            .since = has_contexts ? 23100 : 22900});
    // Before 2.30, NCCL captures no puts.
    if (flags.captures)
      requirements.push_back({.flag = fmt::format("-H {} (--host_rma_implementation) with -G", flags.rma_contexts),
                              .remedy = "leave -G out",
                              .functions = {},
                              .since = 23000});
  }
  // Only comm_ops_perf has the flags --root-every and --share. Its -R is --root-every.
  if (flags.root_every > 0)
    requirements.push_back({.flag = fmt::format("-R {} (--root-every)", flags.root_every),
                            .remedy = "leave -R out",
                            .functions = {"ncclCommInitRankScalable"},
                            .since = 22300});
  if (flags.shares_resources)
    requirements.push_back(
        {.flag = "-S (--share)", .remedy = "leave -S out", .functions = {"ncclCommInitRankConfig"}, .since = 22700});
  if (flags.shares_gpus)
    requirements.push_back({.flag = fmt::format("{}=1 (several ranks on one GPU)", kSharedGpusVariable),
                            .remedy = "use at most as many ranks as GPUs",
                            .functions = {},
                            .since = 23000});
  if (flags.kernel) requirements.push_back(make_kernel_requirement(*flags.kernel, headers_version));
  return requirements;
}

std::string unmet_requirement(const std::vector<FlagRequirement>& requirements, int version, const std::string& path,
                              const std::function<bool(const char*)>& has_function) {
  // For the remedy: a version that meets a single requirement could be refused because of the next one.
  int since_all = 0;
  for (const FlagRequirement& requirement : requirements) since_all = std::max(since_all, requirement.since);
  for (const FlagRequirement& requirement : requirements) {
    const std::string allowed_versions =
        requirement.before ? fmt::format("{} up to, not including, {}", short_version_text(requirement.since),
                                         short_version_text(requirement.before))
                           : fmt::format("{} or later", short_version_text(since_all));
    const std::string remedy =
        fmt::format("use {} (--library, BUSBW_NCCL_LIBRARY), or {}", allowed_versions, requirement.remedy);
    std::vector<const char*> missing_functions;
    for (const char* function : requirement.functions)
      if (!has_function(function)) missing_functions.push_back(function);
    if (!missing_functions.empty())
      return fmt::format("{} needs {}, which NCCL {} ({}) lacks; {}", requirement.flag,
                         fmt::join(missing_functions, ", "), short_version_text(version), path, remedy);
    if (version < requirement.since || (requirement.before && version >= requirement.before))
      return fmt::format("{} does not work with NCCL {} ({}); {}", requirement.flag, short_version_text(version), path,
                         remedy);
  }
  return "";
}

std::string disabled_by_environment(const NcclOptions& flags, Environment environment) {
  if (!flags.kernel || !flags.kernel->needs_multimem || environment("NCCL_NVLS_ENABLE") != "0") return "";
  return fmt::format(
      "-D {} (--device_implementation) needs NVLink multicast, which NCCL_NVLS_ENABLE=0 disables; unset it if "
      "the machine has multicast, or use -D 1 or 2",
      flags.kernel->number);
}

}  // namespace busbw
