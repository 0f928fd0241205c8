// Options of the program `flows`, which measures on request: its defaults, and errors for what it does not support.
#include "options/option_groups.hpp"

#include "common/support/error.hpp"

namespace busbw {
namespace {

/// Less than the time that `busbw find` waits for an answer (--answer-timeout), so that the job names the lost rank.
constexpr int kDefaultFlowTimeoutS = 120;

}  // namespace

void configure_flows(Options& options) {
  // Launchers add --records - to every command.
  if (options.flags.text("--records", "-") != "-")
    throw options.flags.invalid_value("--records", "-, because flows writes no records");
  // Command that process 0 starts to send the requests. `busbw find` sets it if it launches the job.
  options.search = options.flags.text("--search", "");
  if (!options.search.empty() && options.flags.has("--processes"))
    throw UsageError("--search excludes --processes; start the processes with busbw find local");
  if (options.groups().size() > 1) throw UsageError("NCCL_TESTS_SPLIT: flows needs all ranks in one group; unset it");
  const auto is_supported = [](Fault::Kind kind) { return kind == Fault::Kind::die || kind == Fault::Kind::hang; };
  if (options.fault && !is_supported(options.fault->kind))
    throw options.flags.invalid_value("--fault", "die and hang, because flows runs no other fault");
  options.data.dtypes = {Dtype::uint8};
  if (!options.has_timeout) {
    options.settings.timeout_s = kDefaultFlowTimeoutS;
    options.has_timeout = true;
  }
}

}  // namespace busbw
