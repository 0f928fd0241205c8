// Reads how each case is measured: iterations, stopping rule, placement, ping-pong and one-sided transfers.
#include "options/option_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "collectives/one_sided.hpp"
#include "common/support/error.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

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

/// Reads the flags that decide how many batches of -n iterations are sampled.
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

void refuse_settings_with_graphs(const Options& options) {
  const RunSettings& settings = options.settings;
  if (settings.graph_launches == 0) return;
  if (settings.blocking > 0)
    throw UsageError(fmt::format(
        "-z {} (--blocking) and -G {} (--cudagraph) exclude each other: the host cannot wait within a graph; drop one",
        settings.blocking, settings.graph_launches));
  if (options.null_stream)
    throw UsageError(
        fmt::format("-y 1 (--stream_null) and -G {} (--cudagraph) exclude each other: CUDA cannot capture the null "
                    "stream; drop one",
                    settings.graph_launches));
}

}  // namespace

void read_measurement(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  settings.iterations = flags.integer("--iters", 20, 1);
  // The length of an untimed iteration decides how the timed ones are measured, so -w 0 means 1.
  settings.warmup_iterations = static_cast<int>(std::max<std::int64_t>(1, flags.integer("--warmup_iters", 1, 0)));
  settings.aggregated_iterations = flags.integer("--agg_iters", 1, 1);
  settings.run_cycles = flags.integer("--run_cycles", 1, 0);
  settings.check_iterations = flags.integer("--check", 1, 0);
  settings.average = flags.integer("--average", 1, 0, 3);
  settings.blocking = flags.integer("--blocking", 0, 0, 3);
  settings.timeout_s = flags.integer("--timeout", 0, 0);
  options.has_timeout = flags.has("--timeout");
  constexpr int kMaxUnalignElements = 1 << 20;
  settings.unalign_elements = flags.integer("--unalign", 0, 0, kMaxUnalignElements);
  settings.parallel_init = flags.is_on("--parallel_init");
  settings.report_cputime = flags.is_on("--report_cputime");
  settings.report_timestamps = flags.is_on("--report_timestamps");
  settings.report_times = flags.is_on("--report-times");
  settings.report_algorithms = flags.is_on("--report-algorithms");
  read_per_iteration(flags, settings);
  refuse_settings_with_graphs(options);
  read_stopping_rule(flags, settings);
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

void read_one_sided(const FlagValues& flags, Options& options) {
  if (parse_integer(flags.text("--host_rma_implementation", "")) == 0)
    throw flags.invalid_value("--host_rma_implementation", "a whole number from 1; for no puts, leave -H out");
  const auto contexts = static_cast<int>(flags.integer("--host_rma_implementation", 0, 1));
  options.settings.rma_contexts = contexts;
  options.collective_settings.rma_contexts = contexts;
  if (contexts == 0) return;
  const std::string request = fmt::format("-H {} (--host_rma_implementation)", contexts);
  if (!can_run_one_sided(options.collective))
    throw UsageError(fmt::format("{}: {} has no one-sided form; allowed: {}", request, options.program,
                                 one_sided_collectives_text()));
  const RunSettings& settings = options.settings;
  if (settings.device_implementation > 0)
    throw UsageError(fmt::format("{} and -D {} (--device_implementation) both replace NCCL's operation; drop one",
                                 request, settings.device_implementation));
  if (options.collective_settings.ping_pong)
    throw UsageError(fmt::format("{} and --ping-pong 1 exclude each other; drop one", request));
  // A rank that only sends ends before its data has arrived. So the slowest rank determines the time.
  if (!flags.has("--average")) options.settings.average = kMaxOverRanks;
}

}  // namespace busbw
