#pragma once
// nccl-tests' flags, and ours, become one immutable Options. Every doubt is a UsageError.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "collectives/collective_settings.hpp"
#include "common/os/environment.hpp"
#include "options/sweep.hpp"
#include "values/run_result.hpp"
#include "values/split.hpp"

namespace busbw {

struct Options {
  std::string program;     // "all_reduce_perf"
  std::string collective;  // "all_reduce"
  std::vector<std::string> args;
  RunSettings settings;
  DataChoice data;
  bool out_of_place = true;
  bool in_place = true;
  bool has_timeout = false;  // -T was given; 0 is then no limit, as in nccl-tests
  std::string json_path;     // -J; empty without
  std::string records_path;  // --records; empty without, "-" for standard output
  int stdout_descriptor = 1;  // where the table goes, and with it such records
  std::string backend = "auto";  // "host", "nccl", "mpi", "auto"
  std::string nccl_library;      // --library; empty: looked for
  std::optional<int> first_device = {};  // NCCL_TESTS_DEVICE
  bool null_stream = false;      // -y
  std::string host_error;       // why the host backend, or MPI, cannot run this command line; empty where it can
  std::string nccl_error;       // why the NCCL backend cannot
  std::vector<std::string> faults;
  Split split;
  std::optional<double> min_busbw_bytes_per_s;  // NCCL_TESTS_MIN_BW
  CollectiveSettings collective_settings;
  std::vector<std::string> notes;  // '#' lines about how the command line was understood

  /// The ranks of each group, by colour.
  std::map<int, std::vector<int>> groups() const {
    return split.groups(settings.processes, settings.threads * settings.gpus_per_thread);
  }
  /// The ranks in the smallest of them.
  int smallest_group() const;
  int ranks() const { return settings.processes * settings.threads * settings.gpus_per_thread; }
};

/// What to print instead of measuring.
enum class InfoRequest { help, version, devices };

/// `arguments` without the program's own name. Throws UsageError.
/// `launched_processes` is called with --backend, once, where something is to be measured: how many processes a
/// launcher has started, of which this is one.
std::variant<Options, InfoRequest> parse_options(
    const std::string& program, const std::string& collective, const std::vector<std::string>& arguments,
    Environment environment,
    const std::function<int(const std::string& backend)>& launched_processes = [](const std::string&) { return 1; });

}  // namespace busbw
