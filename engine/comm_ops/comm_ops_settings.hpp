#pragma once
// Settings of comm_ops, and the communicator sizes that follow from them. Flags and rules are those of nccl-tests'
// comm_ops_perf.
#include <optional>
#include <string_view>
#include <vector>

#include "backends/communicator_lifecycle.hpp"

namespace busbw {

/// Name of the program. The program is not in collectives.toml, because it measures calls of the library.
inline constexpr std::string_view kCommOpsName = "comm_ops";

/// Rule from one number of ranks to another: "factor-2", "step-4" or "fixed". It has no direction: the sweep (-s) rises
/// if -e is above -b, else it falls, and -r only reduces the number.
struct RankStep {
  enum class Kind { factor, step, fixed };
  Kind kind = Kind::factor;
  double number = 2;  // a factor is at least 1, a step above 0; 0 if fixed
};

/// Parses "factor-N", "step-N" or "fixed". Nothing for another text.
std::optional<RankStep> parse_rank_step(std::string_view text);

/// Values of the command line.
struct CommOpsSettings {
  std::vector<CreationKind> tests;
  int begin_ranks = 0;      // -b
  int end_ranks = 1;        // -e
  RankStep sweep;           // -s: from -b up or down to -e
  RankStep resize;          // -r: from the ranks of a case down to the kept ones; never fixed
  int root_every = 0;       // -R: number of ranks for each root (unique id); 0: one root for all ranks
  int work_iterations = 2;  // -W: all_reduce operations on each new communicator
  bool shares_resources = false;  // -S: split and shrunk communicators share those of their parent
  bool aborts = false;      // -a: abort instead of finalize and destroy
  bool all_timers = false;  // -A: also show the timers of the rendezvous and of waits for the GPU
  bool verbose = false;     // -v: a line for each iteration
};

/// "init", "split", "shrink" or "grow".
std::string_view name(CreationKind kind);
/// "create", "first_all_reduce", ...
std::string_view name(LifecycleCall call);
/// Returns nothing if no test has this name.
std::optional<CreationKind> creation_kind_of(std::string_view name);

/// Numbers of ranks of the sweep, in its order.
std::vector<int> rank_counts(const CommOpsSettings& settings);
/// Number of kept ranks (Creation::kept_ranks) of `ranks` by the rule -r, from 0 to `ranks`. In a grow, these form the
/// parent.
int kept_ranks(const RankStep& resize, int ranks);
/// True if the test can run on `ranks` ranks: a split, shrink or grow needs a kept rank and another one.
bool can_run(CreationKind test, const RankStep& resize, int ranks);
/// Number of roots of a communicator of `ranks` ranks by -R.
int root_count(int root_every, int ranks);

}  // namespace busbw
