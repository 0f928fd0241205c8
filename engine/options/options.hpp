#pragma once
// Converts nccl-tests' flags, busbw's own flags and NCCL_TESTS_* variables to one Options. Unclear input is a
// UsageError.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "collectives/collective_settings.hpp"
#include "collectives/registry.hpp"
#include "comm_ops/comm_ops_settings.hpp"
#include "common/os/environment.hpp"
#include "interference/neighbor_load.hpp"
#include "options/fault.hpp"
#include "options/flag_values.hpp"
#include "options/sweep.hpp"
#include "replay/matched_calls.hpp"
#include "values/run_result.hpp"
#include "values/split.hpp"

namespace busbw {

/// Everything that the command line and the environment determine.
struct Options {
  std::string program;     // "all_reduce_perf"
  std::string collective;  // "all_reduce"; in programs without a collective "flows", "replay" or "comm_ops"
  std::vector<std::string> args;  // the command line from the program's name on, for the record
  FlagValues flags{{}};  // as typed, for messages
  RunSettings settings;
  DataChoice data;
  /// True if settings.timeout_s is the limit: -T is present, or the program has its own default. 0 s then mean no
  /// limit, as in nccl-tests. False: the limit is kDefaultLimitS (watch/watchdog.hpp).
  bool has_timeout = false;
  std::string json_path;                 // -J; empty if absent
  std::string records_path;              // --records; empty if absent, "-" for standard output
  int stdout_descriptor = 1;             // destination of the table, of records with "-", and of answers of flows
  int requests_descriptor = 0;           // source of the requests to flows
  std::shared_ptr<const MatchedCalls> replay = {};  // the program of `replay`; null for other programs
  std::optional<CommOpsSettings> comm_ops = {};  // of comm_ops; empty for other programs
  std::string search;                    // --search: command that sends the requests; empty: standard input
  std::string backend = "auto";          // name of a backend, or "auto"
  std::string nccl_library;              // --library; empty: search
  std::optional<int> first_device = {};  // NCCL_TESTS_DEVICE
  bool null_stream = false;              // -y
  std::optional<Fault> fault = {};       // --fault
  std::optional<NeighborLoad> neighbor = {};  // --with
  Split split;
  std::optional<double> min_busbw_bytes_per_s;  // NCCL_TESTS_MIN_BW
  CollectiveSettings collective_settings;
  std::vector<std::string> notes;  // '#' lines on how the command line was interpreted

  /// Called in rank 0's process with the exit code of the job. Returns the exit code of the process.
  std::function<int(int)> at_end = [](int code) { return code; };

  /// Ranks of each group, by color.
  std::map<int, std::vector<int>> groups() const { return split.groups(settings.processes, ranks_per_process()); }
  /// Number of ranks in the smallest group.
  int smallest_group() const;
  /// Size of a buffer for the largest size of the sweep. It exceeds this size if a rank receives more than it sends
  /// (--skew).
  std::uint64_t largest_rank_bytes() const;
  /// True for the program `flows`, which measures on request and has no sweep.
  bool serves_flows() const { return collective == kFlowsName; }
  /// Makes the measured collective, or a description of the replayed step.
  std::unique_ptr<Collective> make_collective() const;
  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  /// Number of ranks of the job.
  int ranks() const { return settings.processes * ranks_per_process(); }
};

/// Information to print instead of measuring.
enum class InfoRequest { help, version, devices, world };

/// Parses `arguments`, which exclude the program's own name. For `replay`, they name the file of a replay program,
/// which this function reads. For `comm_ops`, they name the tests. Throws UsageError. `launched_processes` returns the
/// number of processes in this process's launched job. It is called once, and only if the program will measure.
std::variant<Options, InfoRequest> parse_options(
    const std::string& program, const std::string& collective, const std::vector<std::string>& arguments,
    Environment environment, const std::function<int()>& launched_processes = [] { return 1; });

}  // namespace busbw
