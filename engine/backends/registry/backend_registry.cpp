// The list of backends, with the conversion from options to the settings of each backend.
#include "backends/registry/backend_registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "backends/host/sockets/socket_backend.hpp"
#include "backends/nccl/flow_paths.hpp"
#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/version.hpp"
#include "options/backend_checks.hpp"
#include "recording/recorder.hpp"
#include "rendezvous/world/gpu_request.hpp"
#include "replay/replay_communicators.hpp"

namespace busbw {
namespace {

/// Number of ranks of this process and its forks. A World counts processes.
int local_ranks(const Options& options, const World& world) { return options.ranks() / world.size; }

/// Layers of communicators in addition to the first, see Backend::connect_further.
int further_layers(const Options& options) {
  if (options.comm_ops) return 1;  // communicators that are created from a parent
  if (options.neighbor) return 1;  // communicators of the neighbor
  return options.replay ? layer_count(options.replay->program()) : 0;
}

std::unique_ptr<HostBackend> make_unrecorded_host(const Options& options, const World& world) {
  const int ranks = local_ranks(options, world);
  if (world.size > 1) {
    std::optional<int> first_on_host;
    if (options.serves_flows()) first_on_host = world.local_rank * ranks;  // each rank then uses only one interface
    return std::make_unique<SocketBackend>(world.rank * ranks, ranks, std::string(version()), first_on_host);
  }
  const int concurrent_layers = options.neighbor ? 2 : 1;  // the neighbor runs at the same time as the first layer
  return std::make_unique<SharedMemoryBackend>(options.settings.processes, options.settings.threads,
                                               std::string(version()), further_layers(options), concurrent_layers);
}

std::unique_ptr<Backend> make_host(const Options& options, const World& world, const GpuSurvey&) {
  auto backend = make_unrecorded_host(options, world);
  const auto trace = trace::trace_settings(process_environment);
  if (!trace) return backend;
  if (options.neighbor)
    throw UsageError(
        fmt::format("--with {}: a neighbor cannot be recorded; run without busbw record", options.settings.neighbor));
  backend->wrap_communicators(make_recorder(*trace, options.settings.threads));
  return backend;
}

std::unique_ptr<Backend> make_nccl(const Options& options, const World& world, const GpuSurvey& survey) {
  const RunSettings& settings = options.settings;
  const int ranks = local_ranks(options, world);
  // As in nccl-tests, NCCL_TESTS_DEVICE gives the first GPU for each process. Without this variable, each process of a
  // node takes the GPUs after those of the previous process. After the last visible GPU comes GPU 0 again. This happens
  // if processes share GPUs, or if the launcher shows each process only its own GPUs.
  const int visible = std::max(1, static_cast<int>(survey.gpus.size()));  // not 0, because of the % below
  const int own_first = world.local_rank * ranks % visible;
  NcclBackendConfig config{.ranks = {.count = ranks,
                                     .per_process = settings.threads * settings.gpus_per_thread,
                                     .first_device = options.first_device.value_or(own_first)},
                           .first_rank = world.rank * ranks,
                           .library = options.nccl_library,
                           .null_stream = options.null_stream,
                           .forks = world.size == 1 && settings.processes > 1,
                           // Ranks of a replay issue different operations, so that no thread can issue for others.
                           .gpus_per_thread = options.replay ? 1 : settings.gpus_per_thread};
  NcclOptions& flags = config.flags;
  if (settings.local_register == 1) flags.registration = RegistrationMode::local;
  if (settings.local_register == 2) flags.registration = RegistrationMode::symmetric;
  flags.cta_policy = settings.cta_policy;
  flags.kernel = find_device_kernel(options.collective, settings.device_implementation);
  flags.kernel_ctas = settings.device_cta_count.value_or(kDefaultDeviceCtas);
  flags.rma_contexts = settings.rma_contexts;
  flags.captures = settings.graph_launches > 0;
  flags.reports_memory = settings.report_memory;
  flags.reports_algorithms = settings.report_algorithms;
  if (options.comm_ops) {
    flags.root_every = options.comm_ops->root_every;
    flags.shares_resources = options.comm_ops->shares_resources;
  }
  flags.max_peers = options.make_collective()->max_peers();
  flags.survives_losses = options.serves_flows();
  if (options.serves_flows()) set_flow_environment();
  return make_nccl_backend(config, survey);
}

constexpr BackendEntry kBackends[]{{kNcclTraits, "opening NCCL and its GPUs", survey_gpus, make_nccl},
                                   {kHostTraits, "opening the host backend", nullptr, make_host}};

[[noreturn]] void throw_unknown_backend(const Options& options) {
  std::vector<std::string_view> names;
  for (const BackendEntry& entry : kBackends) names.push_back(entry.traits.name);
  std::ranges::sort(names);
  const std::string allowed = fmt::format("{} or auto", fmt::join(names, ", "));
  names.push_back("auto");
  throw options.flags.invalid_value("--backend", allowed + suggestion(options.backend, names));
}

/// Stores in `choice` why `auto` skips a backend that needs GPUs.
void note_missing_gpus(const GpuSurvey& survey, Environment environment, BackendChoice& choice) {
  if (const auto request = gpu_request(environment))
    choice.request_error = fmt::format("GPUs are requested ({}), but {}", *request, survey.no_gpu_reason);
  if (survey.build_has_gpu_support)
    choice.no_gpu_reason = survey.no_gpu_reason;
  else if (survey.unusable_gpus > 0)
    choice.unused_gpus_warning =
        fmt::format("measured on the host, but this machine has {} GPU{}: {}", survey.unusable_gpus,
                    survey.unusable_gpus == 1 ? "" : "s", survey.no_gpu_reason);
}

}  // namespace

std::span<const BackendEntry> all_backends() { return kBackends; }

BackendChoice choose_backend(const Options& options, bool forks_follow, Environment environment) {
  const bool is_auto = options.backend == "auto";
  BackendChoice choice;
  for (const BackendEntry& entry : all_backends()) {
    if (!is_auto && options.backend != entry.traits.name) continue;
    GpuSurvey survey = entry.survey ? entry.survey(forks_follow) : GpuSurvey{};
    const bool lacks_gpus = entry.survey && survey.gpus.empty();
    if (is_auto && lacks_gpus) {
      note_missing_gpus(survey, environment, choice);
      continue;
    }
    choice.entry = &entry;
    choice.survey = std::move(survey);
    return choice;
  }
  throw_unknown_backend(options);
}

std::unique_ptr<Backend> make_backend(const BackendChoice& choice, const Options& options, const World& world) {
  if (!choice.request_error.empty()) throw EnvironmentError(choice.request_error);
  if (const std::string error = backend_error(options, choice.entry->traits); !error.empty()) {
    if (choice.no_gpu_reason.empty()) throw UsageError(error);
    throw EnvironmentError(fmt::format("no GPU found: {}; {}", choice.no_gpu_reason, error));
  }
  return choice.entry->make(options, world, choice.survey);
}

}  // namespace busbw
