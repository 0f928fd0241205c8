// Turns a command line and the environment into Options. Each read_... function handles one group of flags or variables
// and throws UsageError. parse_options, at the end of the file, calls them in order.
#include "options/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <sstream>

#include "collectives/one_sided.hpp"
#include "collectives/receiver_shares.hpp"
#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "options/comm_ops_options.hpp"
#include "options/command_line.hpp"
#include "options/flag_table.hpp"
#include "replay/buffer_slices.hpp"
#include "replay/replay_step.hpp"
#include "values/device_kernels.hpp"

namespace busbw {
namespace {

/// Largest flow that `busbw find` requests: NVLINK_BYTES in src/busbw/find/rounds.py.
constexpr std::uint64_t kDefaultFlowBytes = std::uint64_t{256} << 20;
/// Less than the time that `busbw find` waits for an answer (--answer-timeout), so that the job names the lost rank.
constexpr int kDefaultFlowTimeoutS = 120;

std::vector<std::uint64_t> parse_sizes(const FlagValues& flags) {
  std::vector<std::uint64_t> sizes;
  const std::string list = flags.text("--sizes", "");
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const auto size = parse_size_bytes(std::string_view(list).substr(start, end - start));
    if (!size || *size == 0)
      throw flags.invalid_value("--sizes", "a list of sizes of at least 1 byte, such as 1K,3000,7M");
    sizes.push_back(*size);
    start = end + 1;
  }
  return sizes;
}

void read_sizes(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  if (flags.has("--sizes")) {
    for (const auto* range_flag : {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor"})
      if (flags.has(range_flag))
        throw UsageError(fmt::format("--sizes {} and {} {} exclude each other; drop one",
                                     printable_value(flags.text("--sizes", "")), spelling(range_flag),
                                     flags.text(range_flag, "")));
    settings.sizes_bytes = parse_sizes(flags);
    settings.min_bytes = *std::ranges::min_element(settings.sizes_bytes);
    settings.max_bytes = *std::ranges::max_element(settings.sizes_bytes);
    return;
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  settings.min_bytes = flags.size("--minbytes", options.serves_flows() ? 1 : 32 * kMiB);
  settings.max_bytes = flags.size("--maxbytes", options.serves_flows() ? kDefaultFlowBytes : 32 * kMiB);
  settings.step_factor = static_cast<std::uint64_t>(flags.integer("--stepfactor", 1, 1));
  // -i 0 is accepted with -f, because the step is then unused.
  const bool is_unused_zero = settings.step_factor > 1 && flags.text("--stepbytes", "") == "0";
  settings.step_bytes = is_unused_zero ? kMiB : flags.size("--stepbytes", kMiB);
  if (settings.min_bytes > settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} (--minbytes) is larger than -e {} (--maxbytes, default 32M); lower -b or raise -e",
                    flags.text("--minbytes", "32M"), flags.text("--maxbytes", "32M")));
  constexpr std::uint64_t kMaxSizes = 10'000'000;
  if (settings.step_factor == 1 && (settings.max_bytes - settings.min_bytes) / settings.step_bytes >= kMaxSizes)
    throw UsageError(fmt::format("-i {} (--stepbytes) from {} to {} bytes gives more than {} sizes; raise -i",
                                 flags.text("--stepbytes", "1M"), settings.min_bytes, settings.max_bytes, kMaxSizes));
  if (flags.has("--stepfactor") && settings.step_factor == 1)
    options.notes.push_back(fmt::format("-f 1: sizes grow by the fixed step of {} bytes (-i)", settings.step_bytes));
  if (flags.has("--stepbytes") && settings.step_factor > 1)
    options.notes.push_back(
        fmt::format("-i {} is not used: -f {}", flags.text("--stepbytes", ""), settings.step_factor));
}

/// Parses the value of `flag`: the name of one value, which `find_by_name` looks up, or "all" for `all_values`.
template <class Value, class All>
std::vector<Value> parse_one_or_all(const FlagValues& flags, const std::string& flag, const std::string& fallback,
                                    const All& all_values, std::optional<Value> (*find_by_name)(std::string_view)) {
  const std::string text = flags.text(flag, fallback);
  if (text == "all") return {all_values.begin(), all_values.end()};
  if (const auto value = find_by_name(text)) return {*value};
  std::vector<std::string_view> names;
  for (const Value value : all_values) names.push_back(name(value));
  names.push_back("all");
  throw flags.invalid_value(flag, fmt::format("{}{}", fmt::join(names, " "), suggestion(text, names)));
}

void read_data(const FlagValues& flags, Options& options) {
  options.data.dtypes = parse_one_or_all<Dtype>(flags, "--datatype", "float", kDtypes, dtype_of);
  options.data.redops = parse_one_or_all<Redop>(flags, "--op", "sum", kRedops, redop_of);
  const std::string root = flags.text("--root", "0");
  if (root == "all" || root == "-1") return;
  const auto value = parse_integer(root);
  if (!value || *value < 0 || *value > kMaxInt) throw flags.invalid_value("--root", "a rank of at least 0, or all");
  options.data.root = static_cast<int>(*value);
}

/// Reads -I and -K. The number of iterations must be known.
void read_per_iteration(const FlagValues& flags, RunSettings& settings) {
  settings.per_iteration = flags.is_on("--per_iter_timing");
  settings.per_iteration_skip = flags.integer("--per_iter_skip", 0, 0);
  if (flags.has("--per_iter_skip") && !settings.per_iteration && settings.per_iteration_skip > 0)
    throw UsageError(
        fmt::format("-K {} (--per_iter_skip) skips samples of -I's summary; add -I 1", settings.per_iteration_skip));
  if (settings.per_iteration_skip >= settings.iterations)
    throw flags.invalid_value("--per_iter_skip",
                              fmt::format("0 to {} (below -n {})", settings.iterations - 1, settings.iterations));
}

/// Reads the flags that end sampling before -n iterations.
void read_stopping_rule(const FlagValues& flags, RunSettings& settings) {
  if (flags.has("--target-ci")) {
    settings.target_ci = parse_fraction(flags.text("--target-ci", ""));
    if (!settings.target_ci || *settings.target_ci <= 0 || *settings.target_ci >= 1)
      throw flags.invalid_value("--target-ci", "a fraction of the median between 0 and 100%, such as 1% or 0.01");
  }
  if (flags.has("--max-time")) {
    settings.max_time_s = parse_duration_s(flags.text("--max-time", ""));
    if (!settings.max_time_s || *settings.max_time_s <= 0)
      throw flags.invalid_value("--max-time", "a time above 0, such as 500ms, 60s or 2m");
  }
}

/// Reads the flags of the timing loop and of its report. The GPU flags must be known.
void read_measurement(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  settings.iterations = flags.integer("--iters", 20, 1);
  settings.warmup_iterations = flags.integer("--warmup_iters", 1, 0);
  settings.aggregated_iterations = flags.integer("--agg_iters", 1, 1);
  settings.run_cycles = flags.integer("--run_cycles", 1, 0);
  settings.check_iterations = flags.integer("--check", 1, 0);
  settings.average = flags.integer("--average", 1, 0, 3);
  settings.blocking = flags.integer("--blocking", 0, 0, 3);
  settings.timeout_s = flags.integer("--timeout", 0, 0);
  options.has_timeout = flags.has("--timeout");
  settings.unalign_elements = flags.integer("--unalign", 0, 0, 1 << 20);
  settings.parallel_init = flags.is_on("--parallel_init");
  settings.report_cputime = flags.is_on("--report_cputime");
  settings.report_timestamps = flags.is_on("--report_timestamps");
  settings.report_times = flags.is_on("--report-times");
  settings.report_algorithms = flags.is_on("--report-algorithms");
  read_per_iteration(flags, settings);
  if (settings.blocking > 0 && settings.graph_launches > 0)
    throw UsageError(fmt::format(
        "-z {} (--blocking) and -G {} (--cudagraph) exclude each other: the host cannot wait within a graph; drop one",
        settings.blocking, settings.graph_launches));
  read_stopping_rule(flags, settings);
  if (options.null_stream && settings.graph_launches > 0)
    throw UsageError(
        fmt::format("-y 1 (--stream_null) and -G {} (--cudagraph) exclude each other: CUDA cannot capture the null "
                    "stream; drop one",
                    settings.graph_launches));
  settings.placement = flags.text("--placement", "both");
  if (settings.placement != "both" && settings.placement != "in" && settings.placement != "out")
    throw flags.invalid_value("--placement", "in, out or both");
}

void read_ping_pong(const FlagValues& flags, Options& options) {
  options.collective_settings.ping_pong = flags.is_on("--ping-pong");
  if (!options.collective_settings.ping_pong) return;
  if (options.collective != "sendrecv")
    throw UsageError(fmt::format("--ping-pong 1: {} has no ping-pong; use sendrecv_perf", options.program));
  if (options.settings.aggregated_iterations > 1)
    throw UsageError(
        fmt::format("--ping-pong 1 and -m {} exclude each other: aggregated round trips would not run in sequence; "
                    "drop one",
                    options.settings.aggregated_iterations));
}

/// Reads -H. Options that read_gpu_flags and read_ping_pong read must be known.
void read_one_sided(const FlagValues& flags, Options& options) {
  options.settings.one_sided = flags.is_on("--one_sided");
  options.collective_settings.one_sided = options.settings.one_sided;
  if (!options.settings.one_sided) return;
  const std::string request = "-H 1 (--one_sided)";
  if (!can_run_one_sided(options.collective))
    throw UsageError(fmt::format("{}: {} has no one-sided form; allowed: {}", request, options.program,
                                 one_sided_collectives_text()));
  const RunSettings& settings = options.settings;
  if (settings.graph_launches > 0)
    throw UsageError(
        fmt::format("{} and -G {} (--cudagraph) exclude each other: NCCL before 2.30 captures no puts, and later "
                    "versions wait for the receiver in a graph; drop one",
                    request, settings.graph_launches));
  if (settings.device_implementation > 0)
    throw UsageError(fmt::format("{} and -D {} (--device_implementation) both replace NCCL's operation; drop one",
                                 request, settings.device_implementation));
  if (options.collective_settings.ping_pong)
    throw UsageError(fmt::format("{} and --ping-pong 1 exclude each other; drop one", request));
  // Senders end early, so that only the slowest rank shows when all data has arrived.
  if (!flags.has("--average")) options.settings.average = 3;
}

/// Reads a variable as a number from 0 to `maximum`. `allowed` completes "allowed: ..." in the error.
double read_number(Environment environment, const char* variable, double fallback, double maximum,
                   const char* allowed) {
  const auto text = nonempty_variable(environment, variable);
  if (!text) return fallback;
  const auto value = parse_number(*text);
  if (!value || *value > maximum)
    throw UsageError(fmt::format("{}={}: allowed: {}", variable, printable_value(*text), allowed));
  return *value;
}

/// Reads a variable that is 0 or 1. False if it is unset.
bool read_switch(Environment environment, const char* variable) {
  const auto text = nonempty_variable(environment, variable);
  if (!text) return false;
  const auto value = parse_integer(*text);
  if (!value || *value < 0 || *value > 1)
    throw UsageError(fmt::format("{}={}: allowed: 0 or 1", variable, printable_value(*text)));
  return *value == 1;
}

void read_alltoallv(Environment environment, Options& options) {
  AlltoallvSettings& settings = options.collective_settings.alltoallv;
  constexpr double kNoLimit = std::numeric_limits<double>::max();
  settings.pattern =
      DistanceSpread{read_number(environment, "NCCL_TESTS_ALLTOALLV_SPREAD", 1, 1, "a number from 0 to 1")};
  const double scale =
      read_number(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1, kNoLimit, "a number of at least 0");
  settings.print_summary = read_switch(environment, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
  const auto file = nonempty_variable(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (!file) return;
  settings.pattern = ByteMatrix{read_traffic_matrix(*file, scale), scale, options.settings.max_bytes};
  if (options.settings.min_bytes != options.settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} and -e {} with NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix determines the sizes; use "
                    "the same value for both, such as -b 32M -e 32M",
                    options.settings.min_bytes, options.settings.max_bytes));
}

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
  const int max_ranks = is_launched ? kMaxRanks : kMaxHostRanks;
  const std::int64_t ranks = std::int64_t{settings.processes} * settings.threads * settings.gpus_per_thread;
  if (ranks > max_ranks)
    throw UsageError(
        fmt::format("{} times -t {} times -g {} are {} ranks; allowed: up to {}",
                    is_launched ? fmt::format("{} processes", settings.processes)
                                : fmt::format("--processes {}", settings.processes),
                    settings.threads, settings.gpus_per_thread, ranks,
                    is_launched ? fmt::format("{}", max_ranks) : fmt::format("{} on one machine", max_ranks)));
  if (options.data.root && *options.data.root >= options.smallest_group())
    throw UsageError(fmt::format("-r {} (--root): allowed: a rank from 0 to {}, or all", *options.data.root,
                                 options.smallest_group() - 1));
  if (options.fault && options.fault->rank >= ranks)
    throw UsageError(
        fmt::format("--fault with rank={}: no such rank; use a rank from 0 to {}", options.fault->rank, ranks - 1));
}

/// Reads --skew, after the ranks.
void read_skew(const FlagValues& flags, Environment environment, Options& options) {
  RunSettings& settings = options.settings;
  settings.skew = flags.text("--skew", "");
  if (!flags.has("--skew")) return;
  const std::string flag = fmt::format("--skew {}", printable_value(settings.skew));
  if (options.collective != "alltoallv")
    throw UsageError(fmt::format("{}: {} moves equal amounts; use alltoallv_perf", flag, options.program));
  for (const auto* variable : {"NCCL_TESTS_ALLTOALLV_SPREAD", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"})
    if (nonempty_variable(environment, variable))
      throw UsageError(fmt::format("{} and {} exclude each other; unset the variable", flag, variable));
  TrafficPattern& pattern = options.collective_settings.alltoallv.pattern;
  pattern = parse_skew(settings.skew, options.smallest_group());
  if (!flags.has("--average")) settings.average = 3;  // the operation ends with its busiest rank
  if (!flags.has("--placement")) settings.placement = "out";  // the result in place is undefined
  const auto* const counts = std::get_if<CountMatrix>(&pattern);
  if (!counts) return;
  for (const auto* size_flag : {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor", "--sizes"})
    if (flags.has(size_flag))
      throw UsageError(fmt::format("{} and {} {} exclude each other: the file determines the size; drop {}", flag,
                                   spelling(size_flag), flags.text(size_flag, ""), spelling(size_flag)));
  settings.min_bytes = settings.max_bytes = std::max<std::uint64_t>(1, options.largest_rank_bytes());
}

/// Throws UsageError if the flags of a neighbor's collective contain others than size, type, operator and root.
void require_neighbor_flags(const FlagValues& flags) {
  constexpr std::array<std::string_view, 5> kAllowed{"--minbytes", "--maxbytes", "--datatype", "--op", "--root"};
  for (const Flag& flag : flag_table()) {
    const bool is_allowed = std::ranges::find(kAllowed, flag.long_name) != kAllowed.end();
    if (!is_allowed && flags.has(std::string(flag.long_name)))
      throw UsageError(fmt::format("{}: a neighbor has -b, -e, -d, -o and -r only; drop it", flag.long_name));
  }
}

/// Parses a neighbor that is a collective: `arguments` are the flags of its program, `ranks` the ranks that run it.
NeighborLoad parse_collective_load(const std::string& collective, const std::vector<std::string>& arguments,
                                   int ranks) {
  const CommandLine line = read_command_line(collective, collective, arguments);
  Options options;
  options.flags = line.flags;
  require_neighbor_flags(line.flags);
  read_sizes(line.flags, options);
  read_data(line.flags, options);
  const bool is_single = options.settings.min_bytes == options.settings.max_bytes && options.data.dtypes.size() == 1 &&
                         options.data.redops.size() == 1 && options.data.root;
  if (!is_single || line.request)
    throw UsageError("a neighbor has one size, type, operator and root; use the same size for -b and -e");
  if (*options.data.root >= ranks)
    throw UsageError(fmt::format("-r {}: allowed: a rank from 0 to {}", *options.data.root, ranks - 1));
  NeighborLoad load{.collective = busbw::make_collective(collective, {}),
                    .dtype = options.data.dtypes.front(),
                    .redop = options.data.redops.front(),
                    .root = *options.data.root,
                    .bytes = options.settings.max_bytes};
  if (const std::string error = load.collective->rank_count_error(ranks); !error.empty()) throw UsageError(error);
  return load;
}

/// Parses the value of --with: a local load ("memory:copy"), or a collective with flags ("alltoall -b 1M -e 1M").
NeighborLoad parse_neighbor(const std::string& text, int ranks) {
  const std::string flag = fmt::format("--with {}", printable_value(text));
  if (const NeighborLoad local = make_local_load(text); local.collective) return local;
  std::istringstream stream(text);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(stream), {}};
  const std::string name = arguments.empty() ? "" : arguments.front();
  std::vector<std::string_view> names(std::begin(kLocalLoads), std::end(kLocalLoads));
  for (const CollectiveEntry& entry : all_collectives()) names.push_back(entry.name);
  if (std::ranges::find(names, name) == names.end())
    throw UsageError(
        fmt::format("{}: allowed: compute:matmul, memory:copy, or a collective with its size, such as "
                    "\"alltoall -b 1M -e 1M\"{}",
                    flag, suggestion(name, names)));
  arguments.erase(arguments.begin());
  try {
    return parse_collective_load(name, arguments, ranks);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", flag, error.what()));
  }
}

/// Reads --with, after the ranks.
void read_neighbor(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  settings.neighbor = flags.text("--with", "");
  if (!flags.has("--with")) return;
  const std::array excluded{std::pair{"--cudagraph", settings.graph_launches > 0},
                            std::pair{"--stream_null", options.null_stream},
                            std::pair{"--device_implementation", settings.device_implementation > 0},
                            std::pair{"--one_sided", settings.one_sided}, std::pair{"--skew", !settings.skew.empty()}};
  for (const auto& [flag, is_set] : excluded)
    if (is_set)
      throw UsageError(fmt::format("--with {} and {} {} exclude each other; drop one",
                                   printable_value(settings.neighbor), spelling(flag),
                                   printable_value(flags.text(flag, ""))));
  options.neighbor = parse_neighbor(settings.neighbor, options.smallest_group());
}

/// Reads the flags that only GPUs support.
void read_gpu_flags(const FlagValues& flags, Environment environment, Options& options) {
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
void require_flags_of(const std::string& collective, const FlagValues& flags) {
  for (const Flag& flag : flag_table()) {
    const std::string name(flag.long_name);
    if (flags.has(name) && !applies_to(flag, collective))
      throw UsageError(fmt::format("{} {}: {} has no such flag; drop it", spelling(name),
                                   printable_value(flags.text(name, "")), collective));
  }
}

/// Reads the program of `replay` from `file`, which is empty if it is missing.
std::shared_ptr<const MatchedCalls> read_program(const std::string& program, const std::string& file) {
  if (file.empty())
    throw UsageError(fmt::format("{}: the file is missing; name the file of a replay program first", program));
  return std::make_shared<const MatchedCalls>(read_replay_program(file));
}

/// Replaces the settings of a sweep by those of a replay.
void configure_replay(Options& options) {
  const ReplayProgram& program = options.replay->program();
  if (program.ranks() != options.ranks())
    throw UsageError(
        fmt::format("{}: the program has {} ranks, the job has {}; start {} ranks (-t, -g, --processes, or "
                    "a launcher)",
                    printable_value(program.file), program.ranks(), options.ranks(), program.ranks()));
  if (options.groups().size() > 1) throw UsageError("NCCL_TESTS_SPLIT: a replay has its own groups; unset it");
  if (options.min_busbw_bytes_per_s) throw UsageError("NCCL_TESTS_MIN_BW: a replay has no busbw; unset it");
  RunSettings& settings = options.settings;
  options.data.dtypes = {Dtype::uint8};
  options.data.root = 0;
  settings.placement = "out";
  if (!options.flags.has("--average")) settings.average = 3;  // the step ends with its last rank
  const SliceBytes bytes = slice_bytes(*options.replay);
  settings.min_bytes = std::max<std::uint64_t>(1, bytes.min_bytes);
  settings.max_bytes = std::max(settings.min_bytes, bytes.max_bytes);
}

/// Replaces the defaults of a sweep by those of flows.
void configure_flows(Options& options) {
  // Launchers add --records - to every command.
  if (options.flags.text("--records", "-") != "-")
    throw options.flags.invalid_value("--records", "-, because flows writes no records");
  options.search = options.flags.text("--search", "");
  if (!options.search.empty() && options.flags.has("--processes"))
    throw UsageError("--search excludes --processes; start the processes with busbw find local");
  if (options.groups().size() > 1) throw UsageError("NCCL_TESTS_SPLIT: flows needs all ranks in one group; unset it");
  if (options.fault && options.fault->kind != Fault::Kind::die && options.fault->kind != Fault::Kind::hang)
    throw options.flags.invalid_value("--fault", "die and hang, because flows runs no other fault");
  RunSettings& settings = options.settings;
  options.data.dtypes = {Dtype::uint8};
  if (!options.has_timeout) settings.timeout_s = kDefaultFlowTimeoutS;
  options.has_timeout = true;
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
  if (collective == kReplayName) options.replay = read_program(program, line.operand);
  read_outputs_and_backend(flags, options);
  read_gpu_flags(flags, environment, options);
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
