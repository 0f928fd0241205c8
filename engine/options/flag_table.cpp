// Table of all flags with their help, the programs that have each flag, and the text of --help.
#include "options/flag_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "collectives/registry.hpp"
#include "comm_ops/comm_ops_settings.hpp"
#include "common/support/exit_code_meanings.hpp"
#include "replay/replay_step.hpp"

namespace busbw {
namespace {

// Sections of the help.
constexpr std::string_view kRanks = "Ranks";
constexpr std::string_view kSizes = "Sizes";
constexpr std::string_view kData = "Data";
constexpr std::string_view kMeasuring = "Measuring";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kGpu = "Only with GPUs (an error on the host backend)";
constexpr std::string_view kTests = "For tests";
constexpr std::string_view kCommOps = "Communicator operations";

// Usage texts of the kinds of programs; {} is the program's name.
constexpr const char* kSweepUsage =
    "Measures a sweep of sizes, checks the results, and prints nccl-tests' table with time, algbw and busbw.\n"
    "Example: {} -t 4 -b 8 -e 64M -f 2\n";
constexpr const char* kFlowsUsage =
    "Process 0 reads requests as JSON lines from standard input, until one asks to end. It writes one answer to each\n"
    "to standard output. -e limits the size of a flow (default 256M); the default of -T is 120.\n"
    "Example: busbw find --measure-with '{} -t 4'\n";
constexpr const char* kReplayUsage =
    "FILE holds a replay program (schema/trace.md) with the operations of one step of a job, for all ranks. "
    "The table has\n"
    "one row: size is the bytes that a rank sends or receives in a step, count its operations, "
    "time that of the last rank\n"
    "(-a 3). -c checks every kind of operation. `busbw replay` writes FILE from a trace.\n"
    "Example: {} FILE -t 4\n";
constexpr const char* kCommOpsUsage =
    "TESTS is init, split, shrink, grow, a list such as init,split, or all; "
    "each creates, uses and ends communicators.\n"
    "They have the first ranks of the job, and a checked all_reduce runs on each. "
    "Every call is timed on every rank, by\n"
    "the host clock, after a barrier. Flags are those of nccl-tests' comm_ops_perf.\n"
    "Example: {} split -t 4 -s fixed -i 10\n";
constexpr const char* kSweepEnvironment =
    "Environment: NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK (groups of processes), NCCL_TESTS_MIN_BW (required average\n"
    "busbw in GB/s), NCCL_TESTS_DEVICE (the process's first GPU), BUSBW_NCCL_LIBRARY (as --library),\n"
    "NCCL_TESTS_ALLTOALLV_{SPREAD,MATRIX_FILE,MATRIX_SCALE,PRINT_SUMMARY}.\n";
constexpr const char* kShortEnvironment =
    "Environment: NCCL_TESTS_DEVICE (the process's first GPU), BUSBW_NCCL_LIBRARY (as --library).\n";

/// Parts of the help that differ between kinds of programs.
struct ProgramHelp {
  const char* operand;  // with a leading blank; may be empty
  const char* usage;
  const char* environment;
};

ProgramHelp help_of(std::string_view program_kind) {
  if (program_kind == kFlowsName) return {"", kFlowsUsage, kShortEnvironment};
  if (program_kind == kReplayName) return {" FILE", kReplayUsage, kShortEnvironment};
  if (program_kind == kCommOpsName) return {" TESTS", kCommOpsUsage, kShortEnvironment};
  return {"", kSweepUsage, kSweepEnvironment};
}

constexpr std::array<std::string_view, 10> kFlowsFlags{"--search",  "--nthreads", "--ngpus",    "--processes",
                                                       "--backend", "--library",  "--maxbytes", "--timeout",
                                                       "--records", "--fault"};

/// Flags that `comm_ops` shares with the other programs.
constexpr std::array<std::string_view, 9> kCommOpsFlags{"--nthreads",      "--ngpus",   "--processes",
                                                        "--parallel_init", "--backend", "--library",
                                                        "--timeout",       "--records", "--fault"};

/// Flags that `replay` does not have: those of a sweep, and those that change the order or overlap of the operations.
constexpr std::array<std::string_view, 20> kNotReplayFlags{"--minbytes",
                                                           "--maxbytes",
                                                           "--stepbytes",
                                                           "--stepfactor",
                                                           "--sizes",
                                                           "--unalign",
                                                           "--datatype",
                                                           "--op",
                                                           "--root",
                                                           "--agg_iters",
                                                           "--placement",
                                                           "--ping-pong",
                                                           "--skew",
                                                           "--with",
                                                           "--search",
                                                           "--stream_null",
                                                           "--device_implementation",
                                                           "--device_cta_count",
                                                           "--report-algorithms",
                                                           "--host_rma_implementation"};

/// Returns a paragraph with every exit code, in lines of up to 120 characters.
std::string exit_codes_text() {
  constexpr std::size_t kMaxLineLength = 120;
  std::string text;
  std::string line = "Exit codes:";
  for (const auto& [code, meaning] : kExitCodeMeanings) {
    const std::string entry =
        fmt::format(" {} {}{}", static_cast<int>(code), meaning, code == kExitCodeMeanings.back().code ? "." : ",");
    if (line.size() + entry.size() > kMaxLineLength) {
      text += line + "\n";
      line.clear();
    }
    line += line.empty() ? entry.substr(1) : entry;
  }
  return text + line + "\n";
}

}  // namespace

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> flags{
      {"-t", "--nthreads", "N", "threads per process; on the host backend each is a rank (default 1)", kRanks},
      {"-g", "--ngpus", "N", "GPUs per thread (default 1)", kRanks},
      {"", "--processes", "N", "processes on this machine, each with -t threads (default 1)", kRanks},
      {"-p", "--parallel_init", "0|1", "threads initialize in parallel; always so on the host backend (default 0)",
       kRanks},
      {"", "--backend", "auto|host|nccl", "backend; auto: GPUs if present (default auto)", kRanks},
      {"", "--library", "PATH", "NCCL-compatible library to measure (default: search)", kRanks},
      {"-b", "--minbytes", "SIZE", "smallest size; K, M, G, T are binary (default 32M)", kSizes},
      {"-e", "--maxbytes", "SIZE", "largest size (default 32M)", kSizes},
      {"-i", "--stepbytes", "SIZE", "fixed step between sizes (default 1M)", kSizes},
      {"-f", "--stepfactor", "N", "factor between sizes; 1 means the fixed step (default 1)", kSizes},
      {"", "--sizes", "LIST", "list of sizes instead of a range, such as 1K,3000,7M", kSizes},
      {"-u", "--unalign", "N", "shift both buffers by N elements (default 0)", kSizes},
      {"-d", "--datatype", "TYPE",
       "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all (default float)", kData},
      {"-o", "--op", "OP", "sum prod max min avg mulsum all (default sum)", kData},
      {"-r", "--root", "RANK", "root of broadcast, reduce, gather and scatter, or all (default 0)", kData},
      {"-c", "--check", "N", "check the results N times; 0: no check (default 1)", kData},
      {"-n", "--iters", "N", "timed iterations of each row and placement (default 20)", kMeasuring},
      {"-w", "--warmup_iters", "N", "untimed iterations before the timed ones; at least one (default 1)", kMeasuring},
      {"-m", "--agg_iters", "N", "operations in one iteration (default 1)", kMeasuring},
      {"-N", "--run_cycles", "N", "repeat the whole sweep N times; 0: endless (default 1)", kMeasuring},
      {"-a", "--average", "0..3", "combine times over ranks: 0 rank 0, 1 mean, 2 min, 3 max (default 1, with -H 3)",
       kMeasuring},
      {"-z", "--blocking", "0..3",
       "1: wait and barrier after each operation, 2: wait only, 3: wait and barrier after each iteration, not timed "
       "(default 0)",
       kMeasuring},
      {"-T", "--timeout", "SECONDS",
       "stop after SECONDS without progress on any rank, including initialization; 0: no limit (default 600)",
       kMeasuring},
      {"", "--placement", "in|out|both", "placements to measure (default both)", kMeasuring},
      {"", "--target-ci", "SHARE",
       "sample in batches of -n until the median's 95 % interval is within +-SHARE of it, such as 1%", kMeasuring},
      {"", "--max-time", "TIME",
       "sample each row and placement for at most TIME, such as 60s; without --target-ci for all of it", kMeasuring},
      {"", "--ping-pong", "0|1", "sendrecv_perf: half round trips between pairs of ranks (default 0)", kMeasuring},
      {"-H", "--host_rma_implementation", "N",
       "ranks put data into each other's buffers, in N contexts (GPUs: -R 2; N above 1: NCCL 2.31); no reductions "
       "(default: none)",
       kMeasuring, "--one_sided"},
      {"", "--skew", "PATTERN", "alltoallv_perf: zipf:EXPONENT[,seed=N], hot:RANKS[,seed=N] or file:COUNTS",
       kMeasuring},
      {"", "--with", "NEIGHBOR",
       "measure alone and next to a neighbor: \"alltoall -b 1M -e 1M\", compute:matmul or memory:copy", kMeasuring},
      {"", "--search", "COMMAND", "flows: process 0 starts COMMAND, which sends the requests (default: standard input)",
       kMeasuring},
      {"-I", "--per_iter_timing", "0|1", "columns with min, max, p99 and cv over iterations (default 0)", kOutput},
      {"-K", "--per_iter_skip", "N", "skip the first N samples in these columns (default 0)", kOutput},
      {"-C", "--report_cputime", "0|1", "show the CPU time to issue an operation instead of the time (default 0)",
       kOutput},
      {"-S", "--report_timestamps", "0|1", "add a timestamp to each row (default 0)", kOutput},
      {"", "--report-times", "0|1", "add a '#' line with time, device time and launch time after each row (default 0)",
       kOutput},
      {"-J", "--output_file", "FILE", "also write FILE.json in nccl-tests' JSON format", kOutput},
      {"", "--records", "FILE",
       "write JSON lines with every sample (docs/reference/records.md); -: to standard output, between table lines",
       kOutput},
      {"-G", "--cudagraph", "N", "capture -n iterations as a CUDA graph and launch it N times (default 0)", kGpu},
      {"-R", "--local_register", "0|1|2", "register buffers: 1 locally, 2 symmetrically (default 0)", kGpu},
      {"-x", "--cta_policy", "0|1|2", "NCCL's CTA policy: default, efficiency, zero", kGpu},
      {"-y", "--stream_null", "0|1", "use the null stream (default 0)", kGpu},
      {"-D", "--device_implementation", "N",
       "all_reduce, alltoall: kernel N on NCCL's device API; needs -R 2 (default 0)", kGpu},
      {"-V", "--device_cta_count", "N", "CTAs of the -D kernel, 1 to 128 (default 16)", kGpu},
      {"-M", "--memory", "0|1", "report GPU memory (default 0)", kGpu},
      {"", "--report-algorithms", "0|1",
       "add columns for NCCL's algorithm, protocol and channels; since 2.23 (default 0)", kGpu},
      {"-b", "--sweep-begin", "RANKS", "first number of ranks; 0: all (default 0)", kCommOps},
      {"-e", "--sweep-end", "RANKS", "last number of ranks; the sweep falls or rises (default 1)", kCommOps},
      {"-s", "--sweep-comms", "RULE", "factor-N, step-N or fixed: next number of ranks (default factor-2)", kCommOps},
      {"-r", "--resize", "RULE", "factor-N or step-N: ranks that split, shrink and grow divide off (default factor-2)",
       kCommOps},
      {"-i", "--iterations", "N", "timed communicators of each test and number of ranks (default 2)", kCommOps},
      {"-w", "--warmup", "N", "untimed communicators before them (default 1)", kCommOps},
      {"-W", "--work-iterations", "N", "all_reduce operations on each communicator (default 2)", kCommOps},
      {"-R", "--root-every", "N", "a root (unique id) for every N ranks; 0: one root (default 0)", kCommOps},
      {"-S", "--share", "", "share resources between parent and new communicator", kCommOps},
      {"-a", "--abort", "", "abort communicators instead of finalize and destroy", kCommOps},
      {"-A", "--all-timers", "", "summarize the rendezvous and waits for the GPU too", kCommOps},
      {"-v", "--verbose", "", "print a line for each call, and for each rank", kCommOps},
      {"-F", "--flush-interval", "N", "calls between two barriers; only 1 (default 1)", kCommOps},
      {"", "--fault", "FAULT", "inject a fault, such as flip:rank=1,index=7,bit=3", kTests},
  };
  return flags;
}

bool applies_to(const Flag& flag, std::string_view program_kind) {
  const auto is_in = [&](const auto& names) { return std::ranges::find(names, flag.long_name) != names.end(); };
  if (is_only_in_comm_ops(flag)) return program_kind == kCommOpsName;
  if (program_kind == kCommOpsName) return is_in(kCommOpsFlags);
  if (program_kind == kFlowsName) return is_in(kFlowsFlags);
  if (program_kind == kReplayName) return !is_in(kNotReplayFlags);
  return true;
}

bool is_only_in_comm_ops(const Flag& flag) { return flag.section == kCommOps; }

std::string spelling(std::string_view long_name) {
  const auto& flags = flag_table();
  const auto flag = std::ranges::find(flags, long_name, &Flag::long_name);
  if (flag == flags.end() || flag->short_name.empty()) return std::string(long_name);
  return fmt::format("{} ({})", flag->short_name, long_name);
}

std::string help_text(std::string_view program, std::string_view purpose, std::string_view program_kind) {
  const ProgramHelp help = help_of(program_kind);
  std::string text = fmt::format("Usage: {}{} [options]\n{}\n", program, help.operand, purpose);
  text += fmt::format(fmt::runtime(help.usage), program);
  std::string_view section;
  for (const Flag& flag : flag_table()) {
    if (!applies_to(flag, program_kind)) continue;
    if (flag.section != section) text += fmt::format("\n{}:\n", flag.section);
    section = flag.section;
    const std::string names = flag.short_name.empty() ? fmt::format("    {}", flag.long_name)
                                                      : fmt::format("{}, {}", flag.short_name, flag.long_name);
    text += fmt::format("  {:<38}{}\n", fmt::format("{} {}", names, flag.placeholder), flag.help);
  }
  text +=
      "\n  -h, --help                            print this text\n"
      "      --list-devices                    list the GPUs that --backend auto uses; none: host backend\n"
      "      --world                           print number of this process, of all processes, and the launcher\n"
      "      --version                         print the versions of program, backend and record schema\n"
      "\n";
  text += help.environment;
  text +=
      "Processes form one job if srun, mpirun, torchrun or a Kubernetes Job starts them, or with BUSBW_RANK,\n"
      "BUSBW_SIZE and BUSBW_RENDEZVOUS (docs/reference/environment.md).\n";
  return text + exit_codes_text();
}

}  // namespace busbw
