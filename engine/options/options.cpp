// Turns a command line and the environment into Options. parse_options, at the end of the file, reads the groups of
// flags in order; this file reads the groups that all programs have.
#include "options/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "options/command_line.hpp"
#include "options/flag_table.hpp"
#include "options/option_groups.hpp"
#include "replay/replay_step.hpp"
#include "values/device_kernels.hpp"

namespace busbw {
namespace {

/// Maximum number of ranks of a job without a launcher. In every job, also the maximum of each of -t, -g and
/// --processes.
constexpr int kMaxHostRanks = 1024;
/// Maximum number of ranks of a job with a launcher. Up to this number the data has exactly one right result
/// (docs/explanation/correctness.md).
constexpr int kMaxRanks = 65536;

void read_environment(Environment environment, Options& options) {
  options.split = parse_split(nonempty_variable(environment, "NCCL_TESTS_SPLIT_MASK"),
                              nonempty_variable(environment, "NCCL_TESTS_SPLIT"));
  if (const auto text = nonempty_variable(environment, "NCCL_TESTS_MIN_BW")) {
    const auto gbps = parse_number(*text);
    if (!gbps)
      throw UsageError(
          fmt::format("NCCL_TESTS_MIN_BW={}: allowed: a busbw in GB/s of at least 0", printable_value(*text)));
    options.min_busbw_bytes_per_s = *gbps * 1e9;
  }
  if (options.collective == "alltoallv") read_alltoallv(environment, options);
}

void read_ranks(const FlagValues& flags, int launched_processes, Options& options) {
  RunSettings& settings = options.settings;
  settings.threads = flags.integer("--nthreads", 1, 1, kMaxHostRanks);
  settings.processes = flags.integer("--processes", 1, 1, kMaxHostRanks);
  const bool is_launched = launched_processes > 1;
  if (is_launched && flags.has("--processes"))
    throw UsageError(
        fmt::format("--processes {}: this process is one of {} that a launcher started; drop the flag, or set "
                    "BUSBW_LAUNCHER=none to run this process alone",
                    settings.processes, launched_processes));
  if (is_launched) settings.processes = launched_processes;
  const std::int64_t ranks = std::int64_t{settings.processes} * settings.threads * settings.gpus_per_thread;
  if (is_launched && ranks > kMaxRanks)
    throw UsageError(fmt::format("{} processes times -t {} times -g {} are {} ranks; allowed: up to {}",
                                 settings.processes, settings.threads, settings.gpus_per_thread, ranks, kMaxRanks));
  if (!is_launched && ranks > kMaxHostRanks)
    throw UsageError(
        fmt::format("--processes {} times -t {} times -g {} are {} ranks; allowed: up to {} on one machine",
                    settings.processes, settings.threads, settings.gpus_per_thread, ranks, kMaxHostRanks));
  if (options.data.root && *options.data.root >= options.smallest_group())
    throw UsageError(fmt::format("-r {} (--root): allowed: a rank from 0 to {}, or all", *options.data.root,
                                 options.smallest_group() - 1));
  if (options.fault && options.fault->rank >= ranks)
    throw UsageError(
        fmt::format("--fault with rank={}: no such rank; use a rank from 0 to {}", options.fault->rank, ranks - 1));
}

/// Reads the flags and the variable that only GPUs support.
void read_gpu_settings(const FlagValues& flags, Environment environment, Options& options) {
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
  if (const auto device = nonempty_variable(environment, "NCCL_TESTS_DEVICE")) {
    const auto number = parse_integer(*device);
    if (!number || *number < 0 || *number > kMaxInt)
      throw UsageError(
          fmt::format("NCCL_TESTS_DEVICE={}: allowed: a GPU index of at least 0", printable_value(*device)));
    options.first_device = static_cast<int>(*number);
  }
  options.nccl_library = flags.text("--library", "");
  if (flags.has("--library") && options.nccl_library.empty())
    throw flags.invalid_value("--library", "the path of a library with NCCL's interface");
}

/// True if the path ends in .json, in any case.
bool ends_in_json(std::string path) {
  std::ranges::transform(path, path.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return path.ends_with(".json");
}

void read_outputs_and_backend(const FlagValues& flags, Options& options) {
  options.json_path = flags.text("--output_file", "");
  options.records_path = flags.text("--records", "");
  if (flags.has("--output_file") && !ends_in_json(options.json_path))
    throw flags.invalid_value("--output_file", "a path that ends in .json");
  if (flags.has("--records") && options.records_path.empty()) throw flags.invalid_value("--records", "a path");
  if (!options.json_path.empty() && options.json_path == options.records_path)
    throw UsageError(
        fmt::format("-J {0} and --records {0} name the same file; name two files", printable_value(options.json_path)));
  if (flags.has("--fault")) options.fault = parse_fault(flags.text("--fault", ""));
  options.backend = flags.text("--backend", "auto");
}

/// Throws UsageError if a flag does not apply to the program.
void require_flags_of(const std::string& program_kind, const FlagValues& flags) {
  for (const Flag& flag : flag_table()) {
    const std::string name(flag.long_name);
    if (flags.has(name) && !applies_to(flag, program_kind))
      throw UsageError(fmt::format("{} {}: {} has no such flag; drop it", spelling(name),
                                   printable_value(flags.text(name, "")), program_kind));
  }
}

}  // namespace

std::unique_ptr<Collective> Options::make_collective() const {
  if (replay) return std::make_unique<ReplayDescription>(replay->program());
  if (comm_ops) return busbw::make_collective("all_reduce", collective_settings);  // the operation that it checks
  return busbw::make_collective(collective, collective_settings);
}

std::uint64_t Options::largest_rank_bytes() const {
  const auto measured = make_collective();
  std::uint64_t largest = settings.max_bytes;
  if (settings.skew.empty()) return largest;
  // The pattern of --skew is for the ranks of the smallest group. Groups of another size are refused.
  for (const Dtype dtype : data.dtypes) {
    const std::size_t element_bytes = size_bytes(dtype);
    const Shape shape = measured->shape(settings.max_bytes / element_bytes, element_bytes, smallest_group());
    largest = std::max<std::uint64_t>(largest, std::max(shape.send_count, shape.recv_count) * element_bytes);
  }
  return largest;
}

int Options::smallest_group() const {
  int smallest = ranks();
  for (const auto& [color, members] : groups()) smallest = std::min(smallest, static_cast<int>(members.size()));
  return smallest;
}

std::variant<Options, InfoRequest> parse_options(const std::string& program, const std::string& collective,
                                                 const std::vector<std::string>& arguments, Environment environment,
                                                 const std::function<int()>& launched_processes) {
  const CommandLine line = read_command_line(program, collective, arguments);
  if (line.request) return *line.request;
  const FlagValues& flags = line.flags;

  Options options;
  options.flags = flags;
  options.program = program;
  options.collective = collective;
  options.args = {program};
  options.args.insert(options.args.end(), arguments.begin(), arguments.end());
  require_flags_of(collective, flags);
  if (!options.serves_flows() && flags.has("--search"))
    throw UsageError("--search: only busbw-engine flows has this flag; drop it");
  if (collective == kReplayName) options.replay = read_matched_calls(program, line.operand);
  // A function can use the results of the functions before it: read_ranks needs the root, the fault, the groups and the
  // GPUs per thread. option_groups.hpp states the needs of the other functions.
  read_outputs_and_backend(flags, options);
  read_gpu_settings(flags, environment, options);
  read_sizes(flags, options);
  read_data(flags, options);
  read_measurement(flags, options);
  read_ping_pong(flags, options);
  read_one_sided(flags, options);
  read_environment(environment, options);
  read_ranks(flags, launched_processes(), options);
  read_skew(flags, environment, options);
  read_neighbor(flags, options);
  if (options.serves_flows()) configure_flows(options);
  if (options.replay) configure_replay(options);
  if (collective == kCommOpsName) configure_comm_ops(flags, line.operand, options);
  return options;
}

}  // namespace busbw
