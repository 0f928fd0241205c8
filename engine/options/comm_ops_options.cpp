// Reads the flags of comm_ops, and checks that each test can run with them.
#include "options/option_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "comm_ops/comm_ops_runner.hpp"
#include "common/support/comma_list.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

/// Parses the tests of comm_ops: "init,split", or "all".
std::vector<CreationKind> parse_tests(const std::string& program, std::string_view text) {
  constexpr std::string_view kAllTests = "init,split,shrink,grow";
  if (text == "all") text = kAllTests;
  std::vector<CreationKind> tests;
  for (const std::string_view name : split_at_commas(text)) {
    const auto test = creation_kind_of(name);
    if (!test)
      throw UsageError(
          fmt::format("{} {}: unknown test; name one of init, split, shrink, grow, several with commas, "
                      "or all",
                      program, text.empty() ? "(nothing)" : printable_value(text)));
    tests.push_back(*test);
  }
  return tests;
}

RankStep parse_step_flag(const FlagValues& flags, const std::string& flag, bool allows_fixed) {
  const auto step = parse_rank_step(flags.text(flag, "factor-2"));
  if (step && (allows_fixed || step->kind != RankStep::Kind::fixed)) return *step;
  throw flags.invalid_value(
      flag, allows_fixed ? "factor-N, fixed or step-N with N above 0" : "factor-N or step-N with N above 0");
}

/// Parses -b or -e. As in nccl-tests, 0 stands for the default.
int parse_rank_count(const FlagValues& flags, const std::string& flag, int fallback, int ranks) {
  const auto count = static_cast<int>(flags.integer(flag, 0, 0, ranks));
  return count == 0 ? fallback : count;
}

}  // namespace

void configure_comm_ops(const FlagValues& flags, const std::string& tests, Options& options) {
  if (options.groups().size() > 1) throw UsageError("NCCL_TESTS_SPLIT: comm_ops makes its own groups; unset it");
  if (options.min_busbw_bytes_per_s) throw UsageError("NCCL_TESTS_MIN_BW: comm_ops has no busbw; unset it");
  if (options.fault && options.fault->kind == Fault::Kind::overrun)
    throw flags.invalid_value("--fault", "all faults but overrun, because comm_ops has no guards");
  CommOpsSettings& comm_ops = options.comm_ops.emplace();
  comm_ops.tests = parse_tests(options.program, tests);
  comm_ops.begin_ranks = parse_rank_count(flags, "--sweep-begin", options.ranks(), options.ranks());
  comm_ops.end_ranks = parse_rank_count(flags, "--sweep-end", 1, options.ranks());
  comm_ops.sweep = parse_step_flag(flags, "--sweep-comms", /*allows_fixed=*/true);
  comm_ops.resize = parse_step_flag(flags, "--resize", /*allows_fixed=*/false);
  comm_ops.root_every = static_cast<int>(flags.integer("--root-every", 0, 0));
  comm_ops.work_iterations = static_cast<int>(flags.integer("--work-iterations", 2, 0));
  comm_ops.shares_resources = flags.has("--share");
  comm_ops.aborts = flags.has("--abort");
  comm_ops.all_timers = flags.has("--all-timers");
  comm_ops.verbose = flags.has("--verbose");
  if (flags.text("--flush-interval", "1") != "1")
    throw flags.invalid_value("--flush-interval", "1, because a barrier precedes each call");
  for (const CreationKind test : comm_ops.tests) {
    if (test == CreationKind::split && comm_ops.shares_resources && comm_ops.aborts)
      throw UsageError("-S and -a exclude each other in split, as in nccl-tests; drop one");
    const std::vector<int> counts = rank_counts(comm_ops);
    if (std::ranges::none_of(counts, [&](int ranks) { return can_run(test, comm_ops.resize, ranks); }))
      throw UsageError(
          fmt::format("{} with -r {} on {} rank{}: -r must divide the ranks into two parts of at least one rank; "
                      "change -r, or start more ranks",
                      name(test), flags.text("--resize", "factor-2"), counts.front(), counts.front() == 1 ? "" : "s"));
  }
  RunSettings& settings = options.settings;
  settings.iterations = static_cast<int>(flags.integer("--iterations", 2, 1));
  settings.warmup_iterations = static_cast<int>(flags.integer("--warmup", 1, 0));
  settings.lifecycle = {.share = comm_ops.shares_resources,
                        .abort = comm_ops.aborts,
                        .root_every = comm_ops.root_every,
                        .work_iterations = comm_ops.work_iterations,
                        .resize = flags.text("--resize", "factor-2")};
  // These describe the all-reduce that runs on each communicator.
  settings.placement = "out";
  options.data.dtypes = {Dtype::int32};
  settings.min_bytes = settings.max_bytes = all_reduce_elements(options.ranks()) * sizeof(std::int32_t);
}

}  // namespace busbw
