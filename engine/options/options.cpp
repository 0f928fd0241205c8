#include "options/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "options/flag_table.hpp"
#include "options/flag_values.hpp"
#include "options/gpu_flags.hpp"

namespace busbw {
namespace {

FlagValues read_command_line(const std::string& program, const std::vector<std::string>& arguments,
                        std::optional<InfoRequest>& request) {
  CLI::App app{fmt::format("{}: measures one collective operation over a sweep of sizes", program), program};
  app.set_help_flag();
  app.allow_extras();
  const auto asks_for = [&](const char* names, InfoRequest what) {
    app.add_flag_callback(names, [&request, what] { request = request.value_or(what); });
  };
  asks_for("-h,--help", InfoRequest::help);
  asks_for("--version", InfoRequest::version);
  asks_for("--list-devices", InfoRequest::devices);
  std::map<std::string, std::string> values;
  for (const Flag& flag : flag_table())
    app.add_option_function<std::string>(
           flag.short_name.empty() ? std::string(flag.long_name)
                                   : fmt::format("{},{}", flag.short_name, flag.long_name),
           [&values, &flag](const std::string& text) { values[std::string(flag.long_name)] = text; })
        ->type_name(std::string(flag.placeholder))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->trigger_on_parse();
  // CLI11 takes the arguments from the back.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--minbytes: ..."
    throw UsageError(
        fmt::format("{}: a value is missing; see {} --help", spelling(what.substr(0, what.find(':'))), program));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), program));
  }
  const auto extras = app.remaining();
  if (!extras.empty())
    throw UsageError(fmt::format("{} \"{}\"; allowed are the options that {} --help lists",
                                 extras.front().starts_with('-') ? "unknown option" : "unexpected argument",
                                 extras.front(), program));
  return FlagValues(std::move(values));
}

std::vector<std::uint64_t> parse_sizes(const FlagValues& given) {
  std::vector<std::uint64_t> sizes;
  const std::string list = given.text("--sizes", "");
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const auto size = parse_size_bytes(std::string_view(list).substr(start, end - start));
    if (!size || *size == 0) throw given.refuse("--sizes", "a list of sizes of at least 1 byte, such as 1K,3000,7M");
    sizes.push_back(*size);
    start = end + 1;
  }
  return sizes;
}

void read_sizes(const FlagValues& given, Options& options) {
  RunSettings& settings = options.settings;
  if (given.has("--sizes")) {
    for (const auto* other : {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor"})
      if (given.has(other))
        throw UsageError(fmt::format("--sizes {} and {} {}: give one or the other", given.text("--sizes", ""),
                                     spelling(other), given.text(other, "")));
    settings.sizes_bytes = parse_sizes(given);
    settings.min_bytes = *std::ranges::min_element(settings.sizes_bytes);
    settings.max_bytes = *std::ranges::max_element(settings.sizes_bytes);
    return;
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  settings.min_bytes = given.size("--minbytes", 32 * kMiB);
  settings.max_bytes = given.size("--maxbytes", 32 * kMiB);
  settings.step_factor = static_cast<std::uint64_t>(given.integer("--stepfactor", 1, 1));
  const bool is_nothing = settings.step_factor > 1 && given.text("--stepbytes", "") == "0";
  settings.step_bytes = is_nothing ? kMiB : given.size("--stepbytes", kMiB);
  if (settings.min_bytes > settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} (--minbytes) is more than -e {} (--maxbytes, 32M if not given); allowed is at most as much",
                    given.text("--minbytes", "32M"), given.text("--maxbytes", "32M")));
  constexpr std::uint64_t kMaxSizes = 10'000'000;
  if (settings.step_factor == 1 && (settings.max_bytes - settings.min_bytes) / settings.step_bytes >= kMaxSizes)
    throw UsageError(
        fmt::format("-i {} (--stepbytes) from {} to {} bytes makes more than {} sizes; allowed is a larger step",
                    given.text("--stepbytes", "1M"), settings.min_bytes, settings.max_bytes, kMaxSizes));
  if (given.has("--stepfactor") && settings.step_factor == 1)
    options.notes.push_back(
        fmt::format("-f 1 is no factor: sizes grow by the fixed step of {} bytes (-i)", settings.step_bytes));
  if (given.has("--stepbytes") && settings.step_factor > 1)
    options.notes.push_back(
        fmt::format("-i {} is not used: -f {}", given.text("--stepbytes", ""), settings.step_factor));
}

template <class Value, class All>
std::vector<Value> one_or_all(const FlagValues& given, const std::string& flag, const std::string& fallback, const All& all,
                              std::optional<Value> (*find)(std::string_view)) {
  const std::string text = given.text(flag, fallback);
  if (text == "all") return {all.begin(), all.end()};
  if (const auto value = find(text)) return {*value};
  std::string names;
  for (const Value value : all) names += std::string(name(value)) + " ";
  throw given.refuse(flag, names + "all");
}

void read_data(const FlagValues& given, Options& options) {
  options.data.dtypes = one_or_all<Dtype>(given, "--datatype", "float", kDtypes, dtype_of);
  options.data.redops = one_or_all<Redop>(given, "--op", "sum", kRedops, redop_of);
  const std::string root = given.text("--root", "0");
  if (root == "all" || root == "-1") return;
  const auto value = parse_integer(root);
  if (!value || *value < 0 || *value > kMaxInt) throw given.refuse("--root", "a rank from 0 on, or all");
  options.data.root = static_cast<int>(*value);
}

void read_measurement(const FlagValues& given, Options& options) {
  RunSettings& settings = options.settings;
  settings.iterations = given.integer("--iters", 20, 1);
  settings.warmup_iterations = given.integer("--warmup_iters", 1, 0);
  settings.aggregated_iterations = given.integer("--agg_iters", 1, 1);
  settings.run_cycles = given.integer("--run_cycles", 1, 0);
  settings.check_iterations = given.integer("--check", 1, 0);
  settings.average = given.integer("--average", 1, 0, 3);
  settings.blocking = given.integer("--blocking", 0, 0, 3);
  settings.timeout_s = given.integer("--timeout", 0, 0);
  options.has_timeout = given.has("--timeout");
  settings.unalign_elements = given.integer("--unalign", 0, 0, 1 << 20);
  settings.parallel_init = given.on("--parallel_init");
  settings.report_cputime = given.on("--report_cputime");
  settings.report_timestamps = given.on("--report_timestamps");
  settings.report_times = given.on("--report-times");
  settings.per_iteration = given.on("--per_iter_timing");
  settings.per_iteration_skip = given.integer("--per_iter_skip", 0, 0);
  if (given.has("--per_iter_skip") && !settings.per_iteration && settings.per_iteration_skip > 0)
    throw UsageError(fmt::format("-K {} (--per_iter_skip) leaves samples out of -I's summary; allowed only with -I 1",
                                 settings.per_iteration_skip));
  if (settings.per_iteration_skip >= settings.iterations)
    throw given.refuse("--per_iter_skip",
                       fmt::format("0 to {} (below -n {})", settings.iterations - 1, settings.iterations));
  if (settings.blocking > 0 && settings.graph_launches > 0)
    throw UsageError(fmt::format(
        "-z {} (--blocking) and -G {} (--cudagraph) exclude each other: within a graph the host cannot wait",
        settings.blocking, settings.graph_launches));
  if (given.has("--target-ci")) {
    settings.target_ci = parse_fraction(given.text("--target-ci", ""));
    if (!settings.target_ci || *settings.target_ci <= 0 || *settings.target_ci >= 1)
      throw given.refuse("--target-ci", "a share of the median between 0 and 100%, such as 1% or 0.01");
  }
  if (given.has("--max-time")) {
    settings.max_time_s = parse_duration_s(given.text("--max-time", ""));
    if (!settings.max_time_s || *settings.max_time_s <= 0)
      throw given.refuse("--max-time", "a time above 0, such as 500ms, 60s or 2m");
  }
  if (options.null_stream && settings.graph_launches > 0)
    throw UsageError(fmt::format(
        "-y 1 (--stream_null) and -G {} (--cudagraph) exclude each other: CUDA cannot record the null stream",
        settings.graph_launches));
  settings.placement = given.text("--placement", "both");
  if (settings.placement != "both" && settings.placement != "in" && settings.placement != "out")
    throw given.refuse("--placement", "in, out or both");
  options.out_of_place = settings.placement != "in";
  options.in_place = settings.placement != "out";
}

/// What the MPI backend cannot do is known before MPI is started, which takes its time.
void require_mpi_can(const FlagValues& given, const Options& options) {
  if (options.backend != "mpi") return;
  if (!options.host_error.empty()) throw UsageError(options.host_error);
  for (const char* flag : {"--nthreads", "--processes"})
    if (given.integer(flag, 1, 1) != 1)
      throw UsageError(
          fmt::format("{} {}: with --backend mpi a process is a rank, and mpirun starts the processes; allowed "
                      "is 1",
                      spelling(flag), given.text(flag, "")));
}

double number_of(Environment environment, const char* variable, double fallback, double most, const char* allowed) {
  const auto text = nonempty_variable(environment, variable);
  if (!text) return fallback;
  const auto value = parse_number(*text);
  if (!value || *value > most) throw UsageError(fmt::format("{}={}: allowed is {}", variable, printable_value(*text), allowed));
  return *value;
}

bool is_on(Environment environment, const char* variable) {
  const auto text = nonempty_variable(environment, variable);
  if (!text) return false;
  const auto value = parse_integer(*text);
  if (!value || *value < 0 || *value > 1)
    throw UsageError(fmt::format("{}={}: allowed is 0 or 1", variable, printable_value(*text)));
  return *value == 1;
}

void read_alltoallv(Environment environment, Options& options) {
  AlltoallvSettings& settings = options.collective_settings.alltoallv;
  constexpr double kNoLimit = std::numeric_limits<double>::max();
  settings.spread = number_of(environment, "NCCL_TESTS_ALLTOALLV_SPREAD", 1, 1, "a number from 0 to 1");
  settings.matrix_scale =
      number_of(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1, kNoLimit, "a number from 0 on");
  settings.print_summary = is_on(environment, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
  const auto file = nonempty_variable(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (!file) return;
  settings.matrix = read_traffic_matrix(*file, settings.matrix_scale);
  settings.max_bytes = options.settings.max_bytes;
  if (options.settings.min_bytes != options.settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} and -e {} with NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix gives the sizes; allowed is "
                    "the same value for both, such as -b 32M -e 32M",
                    options.settings.min_bytes, options.settings.max_bytes));
}

void read_environment(Environment environment, Options& options) {
  options.split = parse_split(nonempty_variable(environment, "NCCL_TESTS_SPLIT_MASK"), nonempty_variable(environment, "NCCL_TESTS_SPLIT"));
  if (const auto text = nonempty_variable(environment, "NCCL_TESTS_MIN_BW")) {
    const auto gbps = parse_number(*text);
    if (!gbps)
      throw UsageError(fmt::format("NCCL_TESTS_MIN_BW={}: allowed is a busbw in GB/s from 0 on", printable_value(*text)));
    options.min_busbw_bytes_per_s = *gbps * 1e9;
  }
  if (options.collective == "alltoallv") read_alltoallv(environment, options);
}

void read_ranks(const FlagValues& given, int launched_processes, Options& options) {
  RunSettings& settings = options.settings;
  settings.threads = given.integer("--nthreads", 1, 1, kMaxHostRanks);
  settings.processes = given.integer("--processes", 1, 1, kMaxHostRanks);
  if (launched_processes > 1 && given.has("--processes"))
    throw UsageError(
        fmt::format("--processes {}: a launcher has started {} processes, of which this is one; leave it "
                    "out, or set BUSBW_LAUNCHER=none to run this process alone",
                    settings.processes, launched_processes));
  if (launched_processes > 1) settings.processes = launched_processes;
  const bool is_launched = launched_processes > 1;
  const int most = is_launched ? kMaxRanks : kMaxHostRanks;
  const std::int64_t ranks = std::int64_t{settings.processes} * settings.threads * settings.gpus_per_thread;
  if (ranks > most)
    throw UsageError(fmt::format("{} times -t {} times -g {} are {} ranks; allowed are up to {}",
                                 is_launched ? fmt::format("{} processes", settings.processes)
                                             : fmt::format("--processes {}", settings.processes),
                                 settings.threads, settings.gpus_per_thread, ranks,
                                 is_launched ? fmt::format("{}", most) : fmt::format("{} on one machine", most)));
  if (options.data.root && *options.data.root >= options.smallest_group())
    throw UsageError(fmt::format("-r {} (--root): allowed is a rank from 0 to {}, or all", *options.data.root,
                                 options.smallest_group() - 1));
}

/// In capitals, too.
bool ends_in_json(std::string path) {
  std::ranges::transform(path, path.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return path.ends_with(".json");
}

void read_outputs(const FlagValues& given, Options& options) {
  options.json_path = given.text("--output_file", "");
  options.records_path = given.text("--records", "");
  if (given.has("--output_file") && !ends_in_json(options.json_path))
    throw given.refuse("--output_file", "a path that ends in .json");
  if (given.has("--records") && options.records_path.empty()) throw given.refuse("--records", "a path");
  if (!options.json_path.empty() && options.json_path == options.records_path)
    throw UsageError(fmt::format("-J {0} and --records {0}: give each a file of its own", options.json_path));
  if (given.has("--fault")) options.faults = {given.text("--fault", "")};
  options.backend = given.text("--backend", "auto");
  if (options.backend != "host" && options.backend != "nccl" && options.backend != "mpi" && options.backend != "auto")
    throw given.refuse("--backend", "host, nccl, mpi or auto");
}

}  // namespace

int Options::smallest_group() const {
  int smallest = ranks();
  for (const auto& [colour, members] : groups()) smallest = std::min(smallest, static_cast<int>(members.size()));
  return smallest;
}

std::variant<Options, InfoRequest> parse_options(const std::string& program, const std::string& collective,
                                             const std::vector<std::string>& arguments, Environment environment,
                                             const std::function<int(const std::string&)>& launched_processes) {
  std::optional<InfoRequest> request;
  const FlagValues given = read_command_line(program, arguments, request);
  if (request) return *request;

  Options options;
  options.program = program;
  options.collective = collective;
  options.args = {program};
  options.args.insert(options.args.end(), arguments.begin(), arguments.end());
  read_outputs(given, options);
  read_gpu_flags(given, environment, options);
  read_sizes(given, options);
  read_data(given, options);
  if (options.nccl_error.empty()) options.nccl_error = device_kernel_error(given, options);
  read_measurement(given, options);
  options.collective_settings.ping_pong = given.on("--ping-pong");
  if (options.collective_settings.ping_pong && collective != "sendrecv")
    throw UsageError(fmt::format("--ping-pong 1: {} has no ping-pong; allowed with sendrecv_perf", program));
  if (options.collective_settings.ping_pong && options.settings.aggregated_iterations > 1)
    throw UsageError(
        fmt::format("--ping-pong 1 and -m {}: round trips that are started as one are no longer one behind the other; "
                    "leave out one of them",
                    options.settings.aggregated_iterations));
  read_environment(environment, options);
  require_mpi_can(given, options);
  read_ranks(given, launched_processes(options.backend), options);
  return options;
}

}  // namespace busbw
