// Reads the unequal amounts of an alltoallv: NCCL_TESTS_ALLTOALLV_* variables, or --skew.
#include "options/option_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collectives/receiver_shares.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "options/flag_table.hpp"

namespace busbw {
namespace {

/// Reads a variable as a number from 0 to `maximum`; parse_number refuses negative numbers. `allowed` completes
/// "allowed: ..." in the error.
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

}  // namespace

void read_alltoallv(Environment environment, Options& options) {
  AlltoallvSettings& settings = options.collective_settings.alltoallv;
  constexpr double kNoLimit = std::numeric_limits<double>::max();
  constexpr double kDefaultSpread = 1;
  constexpr double kMaxSpread = 1;
  settings.pattern = DistanceSpread{
      read_number(environment, "NCCL_TESTS_ALLTOALLV_SPREAD", kDefaultSpread, kMaxSpread, "a number from 0 to 1")};
  constexpr double kDefaultScale = 1;
  const double scale =
      read_number(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", kDefaultScale, kNoLimit, "a number of at least 0");
  settings.print_summary = read_switch(environment, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
  const auto file = nonempty_variable(environment, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (!file) return;
  settings.pattern = ByteMatrix{.bytes = read_traffic_matrix(*file, scale),  // already multiplied by `scale`
                                .scale = scale,
                                .buffer_bytes = options.settings.max_bytes};
  if (options.settings.min_bytes != options.settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} and -e {} with NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix determines the sizes; use "
                    "the same value for both, such as -b 32M -e 32M",
                    options.settings.min_bytes, options.settings.max_bytes));
}

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
  if (!flags.has("--average")) settings.average = kMaxOverRanks;  // the operation ends with its busiest rank
  if (!flags.has("--placement")) settings.placement = "out";  // the result in place is undefined
  const bool is_from_file = std::holds_alternative<CountMatrix>(pattern);
  if (!is_from_file) return;
  for (const auto* size_flag : {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor", "--sizes"})
    if (flags.has(size_flag))
      throw UsageError(fmt::format("{} and {} {} exclude each other: the file determines the size; drop {}", flag,
                                   spelling(size_flag), flags.text(size_flag, ""), spelling(size_flag)));
  // The file determines all counts, so there is one size: that of the busiest rank, but at least the default of -e.
  settings.min_bytes = settings.max_bytes = std::max<std::uint64_t>(1, options.largest_rank_bytes());
}

}  // namespace busbw
