// Reads the program of a replay, and replaces the settings of a sweep.
#include "options/option_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "replay/buffer_slices.hpp"

namespace busbw {

std::shared_ptr<const MatchedCalls> read_matched_calls(const std::string& executable, const std::string& file) {
  if (file.empty())
    throw UsageError(
        fmt::format("{}: the command line names no replay program; name its file before the flags", executable));
  return std::make_shared<const MatchedCalls>(read_replay_program(file));
}

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
  // A replay has one row, which counts bytes. The calls of the program have their own types, roots and buffers.
  options.data.dtypes = {Dtype::uint8};
  options.data.root = 0;
  settings.placement = "out";
  if (!options.flags.has("--average")) settings.average = kMaxOverRanks;  // the step ends with its last rank
  // Sizes of a buffer: plan_run_memory() takes max_bytes, or the largest size that fits and is at least min_bytes.
  const SliceBytes bytes = slice_bytes(*options.replay);
  settings.min_bytes = std::max<std::uint64_t>(1, bytes.min_bytes);
  settings.max_bytes = std::max(settings.min_bytes, bytes.max_bytes);
}

}  // namespace busbw
