#pragma once
// Results that leave the engine: the run, its rows, warnings and end, as plain values. Times are in seconds and sizes
// in bytes; sinks convert them and put the unit into the name. An empty std::optional means "missing"; zero is a value.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/values/types.hpp"
#include "values/algorithm_choice.hpp"
#include "values/backend_traits.hpp"
#include "values/library_info.hpp"
#include "values/memory_use.hpp"

namespace busbw {

/// One rank with its device, as the header lists it.
struct RankInfo {
  int rank = 0;  // in the job
  int group = 0;  // color under NCCL_TESTS_SPLIT, otherwise 0
  int process = 0;  // index of the rank's process in the job
  long pid = 0;
  std::string host;
  int device = 0;                           // GPU index; on the host backend the rank's index on its machine
  std::string bus_id;                       // "0000:0f:00"; "cpu" on the host backend
  std::string device_name;                  // "NVIDIA H200"; the processor's name on the host backend
  std::optional<LibraryInfo> library = {};  // library that this rank measures; none on the host backend
  std::optional<double> max_clock_hz = {};  // maximum clock of the device; none if unknown

  static auto members(auto& self) {
    return std::tie(self.rank, self.group, self.process, self.pid, self.host, self.device, self.bus_id,
                    self.device_name, self.library, self.max_clock_hz);
  }
};

/// Settings of comm_ops in the record.
struct LifecycleSettings {
  bool share = false;          // -S
  bool abort = false;          // -a
  int root_every = 0;          // -R: a root for every N ranks; 0: one root
  int work_iterations = 0;     // -W
  std::string resize;          // -r: "factor-2"
};

/// Settings of a run in the header and the record.
struct RunSettings {
  int threads = 1;           // -t
  int gpus_per_thread = 1;   // -g
  int processes = 1;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t step_bytes = 0;            // -i
  std::uint64_t step_factor = 1;           // -f; 1 means steps of step_bytes
  std::vector<std::uint64_t> sizes_bytes;  // --sizes; empty if absent
  int warmup_iterations = 1;  // -w, at least 1 except in comm_ops
  int iterations = 20;  // -n
  int aggregated_iterations = 1;  // -m: operations per iteration
  int run_cycles = 1;  // -N; 0: endless
  int check_iterations = 1;  // -c
  int graph_launches = 0;  // -G
  int unalign_elements = 0;  // -u
  int blocking = 0;  // -z: waits of the host; 0: none
  int average = 1;  // -a: time over ranks; 0: of rank 0, 1: mean, 2: minimum, 3: maximum
  bool per_iteration = false;  // -I
  int per_iteration_skip = 0;  // -K
  bool parallel_init = false;  // -p
  bool report_cputime = false;  // -C
  bool report_timestamps = false;  // -S
  bool report_times = false;  // --report-times
  bool report_algorithms = false;  // --report-algorithms
  std::string placement = "both";  // --placement: "in", "out" or "both"
  std::optional<double> target_ci;      // half-width of the 95 % interval of the median, as a fraction of the median
  std::optional<double> max_time_s;     // time budget of one placement of one row
  int timeout_s = 0;                    // -T; 0: no limit with "-T 0", the default limit without -T
  int local_register = 0;               // -R: registration of the buffers; 0: none, 1: local, 2: symmetric
  std::optional<int> cta_policy;        // -x
  int device_implementation = 0;        // -D; 0: the library's own operation
  std::optional<int> device_cta_count;  // CTAs of -D's kernel; none without a kernel
  bool report_memory = false;           // -M
  int rma_contexts = 0;                 // -H: number of contexts for puts; 0: the library's own operation
  std::string skew;                     // --skew; empty if absent
  std::string neighbor;                 // --with; empty if absent
  std::optional<LifecycleSettings> lifecycle;  // only of comm_ops
};

/// Information that is known before the first row.
struct RunInfo {
  std::string program;                          // "all_reduce_perf"
  std::string collective;                       // "all_reduce"
  std::string busbw_version;                    // "0.1.0"
  std::optional<std::string> busbw_build = {};  // program_build_id()
  std::optional<std::string> busbw_path = {};   // program_path()
  BackendTraits backend;
  std::string backend_version;                  // of the measured library; the program's own on the host backend
  std::string headers_version = {};             // of the library headers used at build time; empty: none
  std::string run_id;                           // unique per run
  std::string start_time;                       // "2026-11-21 08:16:39", local, as nccl-tests prints it
  std::string start_time_iso;                   // "2026-11-21T08:16:39.123+00:00"
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // the allow-listed variables only
  std::vector<std::pair<std::string, std::string>> machine;  // "cpu_model", "cpus", "kernel", "memory", ...
  RunSettings settings;
  std::vector<RankInfo> ranks;
  std::vector<std::string> notes;  // '#' lines of the header, after the settings
  std::vector<std::string> warnings;  // about the whole run, each with a remedy; shown after the notes
  std::optional<std::uint64_t> requested_max_bytes = {};  // -e, if memory reduced settings.max_bytes
  std::optional<std::uint64_t> rows_planned = {};         // of each group; none with -N 0
  std::optional<double> bytes_planned = {};               // sum of the sizes of these rows
};

/// Order statistics of a series of times, in seconds.
struct Statistics {
  std::size_t samples = 0;
  double mean_s = 0, median_s = 0, p95_s = 0, p99_s = 0, min_s = 0, max_s = 0;
  double stdev_s = 0;  // of the population, as nccl-tests computes it
  double cv = 0;  // stdev / mean
  std::optional<std::pair<double, double>> median_ci95_s;  // none below 6 samples
};

/// One element that differs from its expected value.
struct WrongElement {
  int rank = 0;
  std::string place;  // "receive buffer", "guard after the send buffer", ...
  std::int64_t index = 0;  // element counted from the start of the rank's result; negative before the start
  std::string expected;  // value and bits: "3 (0x40400000)"
  std::string got;

  static auto members(auto& self) { return std::tie(self.rank, self.place, self.index, self.expected, self.got); }
};

/// Result of checking one placement of one row.
struct CheckResult {
  enum class State { not_checked, not_applicable, checked };
  State state = State::not_checked;
  std::uint64_t wrong_elements = 0;  // over all ranks of the group
  int wrong_ranks = 0;  // ranks of the group that saw at least one wrong element
  std::string exactness = {};  // "exact", or the errors that the data cannot show
  std::vector<WrongElement> first_wrong = {};
};

/// Reason that ended the sampling of a placement.
enum class StopReason { iterations, target_ci, max_time, sample_limit };

/// Clock that timed the samples.
enum class SampleClock {
  host,                 // calls return only when their operation is done
  device_events,        // operations start when they are issued, so the samples include waits for launches
  gated_device_events,  // all ranks have issued before any operation starts, so the samples exclude launches
};

/// Clock of a rank's device before and after a measurement. Values that the device does not report are missing.
struct DeviceClock {
  std::optional<double> before_hz;            // after the warm-up
  std::optional<double> after_hz;             // during the last operations, or just after them
  std::optional<double> max_hz;               // maximum clock
  std::vector<std::string> throttle_reasons;  // at the time of after_hz; empty: not throttled
};

/// A rank that the others waited for, by more than the noise of the measurement.
struct LateRank {
  enum class Kind {
    late_start,   // at each iteration, between the end of the previous one and its start
    slow_launch,  // at each operation, because its launch takes longer than the operation
    late_first,   // at the first iteration after a barrier
    slow_call,    // in a call of comm_ops that ranks with the same role finish sooner
  };
  Kind kind;
  int rank = 0;  // in the job
  std::string host;
  double late_s = 0;    // after all other ranks; for a slow launch or call, longer than the median rank
  std::string message;  // sentence about the rank, with a remedy
};

/// Comparison of an uneven operation (--skew) with the balanced operation, which moves the same total evenly.
struct SkewComparison {
  std::uint64_t busiest_bytes = 0;  // that the busiest rank sends to the others, or receives from them
  std::optional<double> imbalance = {};  // busiest_bytes relative to an even share; none for one rank
  std::optional<double> balanced_time_s = {};  // measured in alternation, ranks combined as for time_s
  std::optional<double> bound_s = {};  // time of busiest_bytes at the higher rate: this or the balanced operation's
  std::optional<double> ratio_to_bound = {};  // of the measurement's time_s
};

/// The measured operation while a neighbor (--with) runs. The operation's times and samples are missing if the neighbor
/// was not active enough.
struct TogetherResult {
  std::optional<double> time_s = {};         // ranks combined as for time_s of the measurement
  std::optional<double> ratio_to_alone = {};  // time_s relative to that of the measurement
  std::optional<double> device_time_s = {};  // also missing without a device clock
  std::vector<std::vector<double>> rank_samples_s = {};  // [rank in group][iteration]
  double active_share = 0;  // part of the measured time with an unfinished operation of the neighbor, on the worst rank
  std::uint64_t neighbor_operations = 0;  // of each rank
  std::optional<double> neighbor_time_s = {};  // of one neighbor operation, on the slowest rank; none if none has ended
};

/// One placement of one row. Three times, per operation and combined over ranks by -a:
/// - `time_s`: nccl-tests' time, by the host clock.
/// - `device_time_s`: duration on the device if all ranks begin together.
/// - `launch_time_s`: host time to issue the operation.
/// The last two exist only if a call returns before its operation is done.
struct Measurement {
  double time_s = 0;
  std::optional<double> device_time_s;
  std::optional<double> launch_time_s;
  std::optional<double> cpu_time_s;  // with -C
  std::optional<double> algbw_bytes_per_s;  // none for a step of a job (replay)
  std::optional<double> busbw_bytes_per_s;
  std::vector<double> rank_times_s;  // [rank in group], per operation; `time_s` combines them
  std::vector<double> rank_device_times_s;  // [rank in group]; empty without device time
  std::vector<double> rank_launch_times_s;  // [rank in group]; empty if a call returns only after its operation
  /// [rank in group]: start, in seconds after the start of the first rank. With the host clock, the median over
  /// iterations. With a device clock, the value of the first iteration, known only if all ranks wait for each other.
  /// Empty if unknown.
  std::vector<double> rank_arrivals_s;
  std::vector<std::pair<double, double>> rank_arrival_bounds_s;  // [rank in group]: 95 % interval; empty if unknown
  std::vector<LateRank> late_ranks;  // usually empty
  std::vector<DeviceClock> rank_clocks;  // [rank in group]; empty if no device reports a clock
  SampleClock sample_clock = SampleClock::host;
  std::vector<std::vector<double>> rank_samples_s;  // [rank in group][iteration], per operation
  std::vector<double> operation_s;  // time per operation of each iteration until its last rank ended
  std::vector<std::vector<double>> process_max_s;  // [process][iteration]; filled with -I and several processes
  Statistics statistics;  // over operation_s, after -K
  StopReason stopped_by = StopReason::iterations;
  CheckResult check;
  std::vector<AlgorithmChoice> algorithms;  // distinct ones of all ranks, usually one; empty if unknown
  std::optional<SkewComparison> skew = {};  // with --skew
  std::optional<TogetherResult> together = {};  // with --with
  std::vector<std::string> warnings;
};

/// Calls that one timer of nccl-tests' comm_ops_perf counts. A timer differs from a row: it ends an all-reduce when the
/// function returns, and it also counts calls on the parent communicator.
struct TimerCalls {
  std::string timer;  // "NCCL ncclCommSplit"; without a library the test and the call
  bool is_optional = false;  // shown only with -A
  std::vector<std::vector<double>> calls_s = {};  // [call][rank that makes it]
};

/// Call of a communicator's life that a row of comm_ops measures. The row's ranks are those that make the call.
struct LifecycleRow {
  std::string test;  // "split"
  std::string call;  // "first_all_reduce"
  std::string function;  // "ncclAllReduce"; empty if the backend has no library
  int test_ranks = 0;  // number of ranks in the test; some may not make the call
  double median_s = 0;  // over all ranks and iterations
  std::vector<double> rank_medians_s = {};  // [rank that makes the call]
  std::vector<TimerCalls> timers = {};
};

/// One row of the table: one size of one configuration of one group.
struct Row {
  int group = 0;  // color, as in RankInfo
  int group_ranks = 0;
  int cycle = 0;  // of -N, from 0
  std::string collective;
  std::uint64_t requested_bytes = 0;  // size in the sweep
  std::uint64_t size_bytes = 0;  // the size column: max of bytes sent and received by a rank; 0 if a call moves none
  std::uint64_t count = 0;  // the count column, in elements; of a replay in operations
  std::optional<Dtype> dtype = Dtype::float32;  // none for a step of a job, which has several types
  std::string redop;  // "sum", "none", or "" (hypercube)
  int root = -1;  // -1: no root
  std::optional<Measurement> out_of_place;
  std::optional<Measurement> in_place;
  std::string timestamp;  // local time at the row's end, "2026-11-21 08:16:39"
  std::optional<LifecycleRow> lifecycle = {};  // only in rows of comm_ops
  std::vector<std::string> comments;  // '#' lines that follow the row (alltoallv's per-rank summary)

  /// Text of the type column.
  std::string_view dtype_name() const { return dtype ? name(*dtype) : "none"; }
};

/// Rows of all groups for one case (a size of a configuration), in group order; one row without NCCL_TESTS_SPLIT.
using CaseRows = std::vector<Row>;

/// How a run ended.
struct RunEnd {
  int exit_code = 0;
  std::string reason;  // "completed", "interrupted", "wrong data", "rank lost or timed out", ...
  std::string message;  // the message on stderr; empty after success
  std::vector<std::string> details = {};  // state of each rank, if the job stalled
  std::string end_time, end_time_iso;
  std::uint64_t rows = 0;
  /// Results with wrong data. Each rank has one result for each placement of a row. nccl-tests prints this number as
  /// "Out of bounds values".
  std::uint64_t wrong_result_count = 0;
  std::uint64_t wrong_elements = 0;  // over all rows
  bool timed_out = false;  // -T ended the run
  bool output_failed = false;  // an output could not be completed, so the exit code is not 0
  std::optional<double> average_busbw_bytes_per_s;  // none without rows with a busbw
  std::optional<double> min_busbw_bytes_per_s;  // NCCL_TESTS_MIN_BW
  std::vector<MemoryUse> memory;  // [rank], with -M
};

}  // namespace busbw
