#include "options/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "options/flag_table.hpp"
#include "support_files.hpp"
#include "support_options.hpp"

using namespace busbw;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A flag with a value that is not its default, and what it sets.
struct FlagEffect {
  const char* short_name;  // "" if it has none
  const char* long_name;
  const char* value;
  std::function<bool(const Options&)> took_effect;
};

const std::vector<FlagEffect>& effects() {
  static const std::vector<FlagEffect> all{
      {"-t", "--nthreads", "4", [](const Options& o) { return o.settings.threads == 4; }},
      {"", "--processes", "3", [](const Options& o) { return o.settings.processes == 3; }},
      {"-g", "--ngpus", "3", [](const Options& o) { return o.settings.gpus_per_thread == 3 && o.ranks() == 3; }},
      {"-b", "--minbytes", "8", [](const Options& o) { return o.settings.min_bytes == 8; }},
      {"-e", "--maxbytes", "64M", [](const Options& o) { return o.settings.max_bytes == 64 * kMiB; }},
      {"-i", "--stepbytes", "2K", [](const Options& o) { return o.settings.step_bytes == 2048; }},
      {"-f", "--stepfactor", "2", [](const Options& o) { return o.settings.step_factor == 2; }},
      {"", "--sizes", "1K,3000,7M",
       [](const Options& o) { return o.settings.sizes_bytes == std::vector<std::uint64_t>{1024, 3000, 7 * kMiB}; }},
      {"-n", "--iters", "7", [](const Options& o) { return o.settings.iterations == 7; }},
      {"-w", "--warmup_iters", "3", [](const Options& o) { return o.settings.warmup_iterations == 3; }},
      {"-m", "--agg_iters", "3", [](const Options& o) { return o.settings.aggregated_iterations == 3; }},
      {"-N", "--run_cycles", "0", [](const Options& o) { return o.settings.run_cycles == 0; }},
      {"-p", "--parallel_init", "1", [](const Options& o) { return o.settings.parallel_init; }},
      {"-c", "--check", "0", [](const Options& o) { return o.settings.check_iterations == 0; }},
      {"-o", "--op", "mulsum", [](const Options& o) { return o.data.redops == std::vector{Redop::mulsum}; }},
      {"-d", "--datatype", "bfloat16", [](const Options& o) { return o.data.dtypes == std::vector{Dtype::bfloat16}; }},
      {"-r", "--root", "all", [](const Options& o) { return !o.data.root; }},
      {"-z", "--blocking", "3", [](const Options& o) { return o.settings.blocking == 3; }},
      {"-T", "--timeout", "30", [](const Options& o) { return o.settings.timeout_s == 30; }},
      {"-a", "--average", "3", [](const Options& o) { return o.settings.average == 3; }},
      {"-u", "--unalign", "3", [](const Options& o) { return o.settings.unalign_elements == 3; }},
      {"-I", "--per_iter_timing", "1", [](const Options& o) { return o.settings.per_iteration; }},
      {"-C", "--report_cputime", "1", [](const Options& o) { return o.settings.report_cputime; }},
      {"-S", "--report_timestamps", "1", [](const Options& o) { return o.settings.report_timestamps; }},
      {"-J", "--output_file", "/tmp/out.json", [](const Options& o) { return o.json_path == "/tmp/out.json"; }},
      {"", "--records", "/tmp/out.jsonl", [](const Options& o) { return o.records_path == "/tmp/out.jsonl"; }},
      {"", "--placement", "in", [](const Options& o) { return o.settings.placement == "in"; }},
      {"", "--target-ci", "1%", [](const Options& o) { return o.settings.target_ci == doctest::Approx(0.01); }},
      {"", "--with", "memory:copy", [](const Options& o) { return o.neighbor && o.neighbor->is_local; }},
      {"", "--report-times", "1", [](const Options& o) { return o.settings.report_times; }},
      {"", "--max-time", "500ms", [](const Options& o) { return o.settings.max_time_s == doctest::Approx(0.5); }},
      {"", "--fault", "overrun:rank=0", [](const Options& o) { return o.fault->kind == Fault::Kind::overrun; }},
      {"-G", "--cudagraph", "0", [](const Options& o) { return o.settings.graph_launches == 0; }},
      {"-R", "--local_register", "1", [](const Options& o) { return o.settings.local_register == 1; }},
      {"-x", "--cta_policy", "2", [](const Options& o) { return o.settings.cta_policy == 2; }},
      {"-y", "--stream_null", "1", [](const Options& o) { return o.null_stream; }},
      {"", "--report-algorithms", "1", [](const Options& o) { return o.settings.report_algorithms; }},
      {"", "--library", "/x/libnccl.so", [](const Options& o) { return o.nccl_library == "/x/libnccl.so"; }},
      {"", "--backend", "nccl", [](const Options& o) { return o.backend == "nccl"; }},
      {"-D", "--device_implementation", "2", [](const Options& o) { return o.settings.device_implementation == 2; }},
      {"-M", "--memory", "1", [](const Options& o) { return o.settings.report_memory; }},
  };
  return all;
}

/// Flags with tests of their own: -K needs -I, --ping-pong needs sendrecv, -V needs -D, --search needs flows, -H needs
/// a collective that moves data, --skew needs alltoallv.
bool tested_elsewhere(std::string_view long_name) {
  for (const char* other :
       {"--per_iter_skip", "--ping-pong", "--device_cta_count", "--search", "--host_rma_implementation", "--skew"})
    if (long_name == other) return true;
  return false;
}

/// Options as text for comparison, without the fields that differ from call to call.
std::string facts_of(const Options& options) {
  std::ostringstream text;
  const RunSettings& s = options.settings;
  text << s.threads << ' ' << s.processes << ' ' << s.min_bytes << ' ' << s.max_bytes << ' ' << s.step_bytes << ' '
       << s.step_factor << ' ' << s.iterations << ' ' << s.aggregated_iterations << ' ' << s.check_iterations << ' '
       << s.average << ' ' << options.data.dtypes.size();
  return text.str();
}

}  // namespace

TEST_CASE("options: defaults are nccl-tests 2.19.6's") {
  const Options options = options_of("");
  const RunSettings& settings = options.settings;
  CHECK(settings.threads == 1);
  CHECK(settings.gpus_per_thread == 1);
  CHECK(settings.processes == 1);
  CHECK(settings.min_bytes == 32 * kMiB);
  CHECK(settings.max_bytes == 32 * kMiB);
  CHECK(settings.step_bytes == kMiB);
  CHECK(settings.step_factor == 1);
  CHECK(settings.sizes_bytes.empty());
  CHECK(settings.warmup_iterations == 1);
  CHECK(settings.iterations == 20);
  CHECK(settings.aggregated_iterations == 1);
  CHECK(settings.run_cycles == 1);
  CHECK(settings.check_iterations == 1);
  CHECK(settings.graph_launches == 0);
  CHECK(settings.unalign_elements == 0);
  CHECK(settings.blocking == 0);
  CHECK(settings.average == 1);
  CHECK_FALSE(settings.per_iteration);
  CHECK(settings.per_iteration_skip == 0);
  CHECK_FALSE(settings.parallel_init);
  CHECK_FALSE(settings.report_cputime);
  CHECK_FALSE(settings.report_timestamps);
  CHECK(settings.timeout_s == 0);
  CHECK(settings.local_register == 0);
  CHECK_FALSE(settings.cta_policy);
  CHECK(settings.device_implementation == 0);
  CHECK_FALSE(settings.device_cta_count);
  CHECK_FALSE(settings.report_memory);
  CHECK(settings.placement == "both");
  CHECK_FALSE(settings.target_ci);
  CHECK_FALSE(settings.max_time_s);
  CHECK(options.data.dtypes == std::vector{Dtype::float32});
  CHECK(options.data.redops == std::vector{Redop::sum});
  CHECK(options.data.root == 0);
  CHECK(options.json_path.empty());
  CHECK(options.records_path.empty());
  CHECK(options.notes.empty());
  CHECK(options.split.op == Split::Op::none);
  CHECK_FALSE(options.min_busbw_bytes_per_s);
  CHECK_FALSE(options.collective_settings.ping_pong);
  CHECK(std::get<DistanceSpread>(options.collective_settings.alltoallv.pattern).spread == 1);
}

TEST_CASE("options: -w 0 is one untimed iteration, because its length decides how the others are timed") {
  CHECK(options_of("-w 0").settings.warmup_iterations == 1);
}

TEST_CASE("options: the whole command line is kept") {
  CHECK(options_of("-t 4 -b8").args == std::vector<std::string>{"all_reduce_perf", "-t", "4", "-b8"});
}

TEST_CASE("options: every flag takes effect, short and long, with a separate value, an attached one and after '='") {
  for (const FlagEffect& flag : effects()) {
    CAPTURE(flag.long_name);
    const std::string name(flag.long_name);
    const std::string value(flag.value);
    CHECK(flag.took_effect(options_of(name + " " + value)));
    CHECK(flag.took_effect(options_of(name + "=" + value)));
    if (*flag.short_name == '\0') continue;
    CHECK(flag.took_effect(options_of(flag.short_name + (" " + value))));
    CHECK(flag.took_effect(options_of(flag.short_name + value)));
  }
}

TEST_CASE("options: every flag of the table has a test of its effect") {
  for (const Flag& flag : flag_table()) {
    if (tested_elsewhere(flag.long_name) || !applies_to(flag, "all_reduce")) continue;
    CAPTURE(flag.long_name);
    const bool tested = std::ranges::any_of(effects(), [&](const FlagEffect& effect) {
      return flag.long_name == effect.long_name && flag.short_name == effect.short_name;
    });
    CHECK(tested);
  }
}

TEST_CASE("options: every flag of comm_ops has its effect, and its operand may stand anywhere") {
  const auto comm_ops = [](const std::string& line) { return options_of(line, {}, "comm_ops"); };
  const Options plain = comm_ops("grow -t 8");
  CHECK(plain.comm_ops->tests == std::vector{CreationKind::grow});
  CHECK(rank_counts(*plain.comm_ops) == std::vector{8, 4, 2, 1});
  CHECK(plain.settings.iterations == 2);
  CHECK(plain.settings.warmup_iterations == 1);
  CHECK(plain.settings.max_bytes == 4096);
  CHECK_FALSE(plain.comm_ops->shares_resources);
  for (const char* line : {"init,shrink -t 8 -b 2 -e 6 -s step-2 -r factor-3 -i 7 -w 0 -W 5 -R 3 -S -a -A -v",
                           "--sweep-begin=2 --sweep-end 6 --sweep-comms step-2 --resize factor-3 --iterations 7 "
                           "--warmup 0 --work-iterations 5 --root-every 3 --share --abort --all-timers --verbose -t 8 "
                           "init,shrink"}) {
    CAPTURE(line);
    const Options options = comm_ops(line);
    const CommOpsSettings& settings = *options.comm_ops;
    CHECK(settings.tests == std::vector{CreationKind::init, CreationKind::shrink});
    CHECK(rank_counts(settings) == std::vector{2, 4, 6});
    CHECK(kept_ranks(settings.resize, 6) == 2);
    CHECK(options.settings.iterations == 7);
    CHECK(options.settings.warmup_iterations == 0);
    CHECK(settings.work_iterations == 5);
    CHECK(settings.root_every == 3);
    CHECK((settings.shares_resources && settings.aborts && settings.all_timers && settings.verbose));
  }
  CHECK(comm_ops("all -t 2").comm_ops->tests.size() == 4);
  CHECK(comm_ops("all -t 2").comm_ops->begin_ranks == 2);
  CHECK(comm_ops("init -t 512 --processes 2").settings.max_bytes == 4096);
  const Options defaults = comm_ops("init -t 8 -b 0 -e 0 -F 1");
  CHECK(rank_counts(*defaults.comm_ops) == std::vector{8, 4, 2, 1});
  REQUIRE(defaults.settings.lifecycle);
  CHECK(defaults.settings.lifecycle->work_iterations == 2);
  CHECK(defaults.settings.lifecycle->resize == "factor-2");
}

TEST_CASE("options: the last one wins, however it is spelled") {
  for (const FlagEffect& flag : effects()) {
    CAPTURE(flag.long_name);
    const std::string name = *flag.short_name ? flag.short_name : flag.long_name;
    CHECK(flag.took_effect(options_of(name + " 1 " + flag.long_name + "=" + flag.value)));
  }
  CHECK(options_of("-b 8 -b16 --minbytes=32").settings.min_bytes == 32);
  CHECK(options_of("--minbytes=32 -b16 -b 8").settings.min_bytes == 8);
}

TEST_CASE("options: the order of flags does not matter") {
  const std::string facts = facts_of(options_of("-b 8 -e 64M -f 2 -t 4 -n 7 -d half"));
  CHECK(facts_of(options_of("-d half -n 7 -t 4 -f 2 -e 64M -b 8")) == facts);
}

TEST_CASE("options: help and version are requests, regardless of other arguments") {
  for (const char* line : {"-h", "--help", "-b 1Q -h", "-t 4 --help"}) {
    const auto parsed = parse(words(line));
    REQUIRE(std::holds_alternative<InfoRequest>(parsed));
    CHECK(std::get<InfoRequest>(parsed) == InfoRequest::help);
  }
  CHECK(std::get<InfoRequest>(parse({"--version"})) == InfoRequest::version);
  CHECK(std::get<InfoRequest>(parse({"--world"})) == InfoRequest::world);
}

TEST_CASE("options: numbers may be hexadecimal, as in nccl-tests") {
  CHECK(options_of("-n 0x10").settings.iterations == 16);
  CHECK(options_of("-t 0X4").settings.threads == 4);
}

TEST_CASE("options: sizes are binary, with fractions and exponents") {
  CHECK(options_of("-b 0.5M -e 1e6").settings.min_bytes == 512 * 1024);
  CHECK(options_of("-b 0.5M -e 1e6").settings.max_bytes == 1'000'000);
  CHECK(options_of("-b 1k -e 1G").settings.max_bytes == 1024 * kMiB);
}

TEST_CASE("options: every type, operator and root, and all of them") {
  for (const Dtype dtype : kDtypes)
    CHECK(options_of("-d " + std::string(name(dtype))).data.dtypes == std::vector{dtype});
  for (const Redop redop : kRedops)
    CHECK(options_of("-o " + std::string(name(redop))).data.redops == std::vector{redop});
  CHECK(options_of("-d all").data.dtypes == std::vector<Dtype>(kDtypes.begin(), kDtypes.end()));
  CHECK(options_of("-o all").data.redops == std::vector<Redop>(kRedops.begin(), kRedops.end()));
  CHECK(options_of("-t 4 -r 3").data.root == 3);
  CHECK_FALSE(options_of("-r all").data.root);
  CHECK_FALSE(options_of("-r -1").data.root);  // nccl-tests' spelling of "all"
}

TEST_CASE("options: -f 1 falls back to the fixed step, with a note") {
  const Options options = options_of("-b 8 -e 64M -f 1");
  CHECK(options.settings.step_factor == 1);
  CHECK(options.settings.step_bytes == kMiB);
  REQUIRE(options.notes.size() == 1);
  check_names(options.notes[0], {"-f 1", "1048576", "-i"});
  CHECK(options_of("-b 8 -e 64M -f 2").notes.empty());
  CHECK(options_of("-b 8M -e 64M -i 8M -f 1").settings.step_bytes == 8 * kMiB);
}

TEST_CASE("options: -i with a factor is not used, with a note") {
  const Options options = options_of("-b 8 -e 64M -i 1M -f 2");
  CHECK(options.settings.step_factor == 2);
  CHECK(options.notes == std::vector<std::string>{"-i 1M is not used: -f 2"});
  CHECK(options_of("-b 8 -e 64M -i 0 -f 2").notes == std::vector<std::string>{"-i 0 is not used: -f 2"});
  CHECK(options_of("-b 8 -e 64M -i 1M").notes.empty());
  check_names(refusal_of("-b 8 -e 64M -i x -f 2"), {"-i", "x", "a size"});
  // A step that would give too many sizes is an error.
  CHECK(options_of("-b 8 -e 64G -i 1 -f 2").notes.size() == 1);
}

TEST_CASE("options: a list of sizes sets the range, and excludes the flags of a range") {
  const Options options = options_of("--sizes 3000,1K,7M");
  CHECK(options.settings.min_bytes == 1024);
  CHECK(options.settings.max_bytes == 7 * kMiB);
  for (const char* other : {"-b 8", "-e 1G", "-i 8", "-f 2"})
    check_names(refusal_of(std::string("--sizes 1K,2K ") + other),
                {"--sizes", "1K,2K", std::string(other).substr(0, 2)});
  for (const char* list :
       {"--sizes=,", "--sizes=1K,", "--sizes=,1K", "--sizes=1K,,2K", "--sizes=1Q", "--sizes=0", "--sizes=1K;2K"})
    check_names(refusal_of(std::vector<std::string>{list}), {"--sizes", "allowed"});
}

TEST_CASE("options: placements") {
  CHECK(options_of("--placement out").settings.placement == "out");
  check_names(refusal_of("--placement inside"), {"--placement", "inside", "in, out or both"});
}

TEST_CASE("options: -H is for collectives that move data, and excludes other ways to issue them") {
  for (const char* collective : {"all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"}) {
    CAPTURE(collective);
    CHECK(options_of("-H 1", {}, collective).settings.rma_contexts == 1);
    for (const char* name : {"--host_rma_implementation", "--one_sided"}) {
      const Options options = options_of(std::string(name) + " 4", {}, collective);
      CHECK(options.settings.rma_contexts == 4);
      CHECK(options.make_collective()->name() == collective);
    }
  }
  CHECK(options_of("").settings.rma_contexts == 0);
  CHECK(options_of("-H 1 -G 4", {}, "alltoall").settings.graph_launches == 4);  // as in nccl-tests
  CHECK(options_of("-H 1", {}, "gather").settings.average == 3);
  CHECK(options_of("-H 1 -a 1", {}, "gather").settings.average == 1);
  for (const char* collective : {"all_reduce", "reduce", "reduce_scatter", "hypercube", "alltoallv"}) {
    CAPTURE(collective);
    check_names(refusal_of("-H 1", {}, collective),
                {"-H 1 (--host_rma_implementation)", collective, "allowed: all_gather, alltoall"});
  }
  for (const char* contexts : {"0", "-1", "x", "2x"})
    check_names(refusal_of(std::vector<std::string>{"-H", contexts}, {}, "alltoall"),
                {"-H (--host_rma_implementation)", contexts, "a whole number from 1"});
  check_names(refusal_of("-H 0", {}, "alltoall"), {"leave -H out"});
  check_names(refusal_of("-H 1 -R 2 -D 1", {}, "alltoall"), {"-H 1", "-D 1", "drop one"});
  check_names(refusal_of("-H 1 --ping-pong 1", {}, "sendrecv"), {"-H 1", "--ping-pong 1", "drop one"});
}

TEST_CASE("options: ping-pong is sendrecv's") {
  CHECK(options_of("--ping-pong 1", {}, "sendrecv").collective_settings.ping_pong);
  CHECK_FALSE(options_of("--ping-pong 0").collective_settings.ping_pong);
  check_names(refusal_of("--ping-pong 1"), {"--ping-pong 1", "sendrecv"});
  check_names(refusal_of("--ping-pong 1 -m 10", {}, "sendrecv"), {"--ping-pong 1", "-m 10", "exclude each other"});
}

TEST_CASE("options: the search is a command of flows, which has one process per launched one") {
  CHECK(options_of("--search=find", {}, "flows").search == "find");
  CHECK(options_of("-t 2", {}, "flows").search.empty());
  check_names(refusal_of("--search find"), {"--search", "only busbw-engine flows has this flag"});
  check_names(refusal_of("--search find --processes 2", {}, "flows"), {"--search excludes --processes"});
}

TEST_CASE("options: -K counts below -n, with -I") {
  CHECK(options_of("-I 1 -K 19").settings.per_iteration_skip == 19);
  CHECK(options_of("-I 1 -n 5 -K 4").settings.per_iteration_skip == 4);
  CHECK(options_of("-K 0").settings.per_iteration_skip == 0);
}

TEST_CASE("options: graphs with per-iteration times") {
  const Options options = options_of("-G 50 -I 1 -m 4");
  CHECK(options.settings.graph_launches == 50);
  CHECK(options.settings.per_iteration);
}

TEST_CASE("options: the three times are named on request") {
  CHECK_FALSE(options_of("").settings.report_times);
  CHECK(options_of("--report-times 1").settings.report_times);
  check_names(refusal_of("--report-times 2"), {"--report-times", "2"});
}

TEST_CASE("options: groups from the environment, and roots within the smallest of them") {
  CHECK(options_of("--processes 4", {{"NCCL_TESTS_SPLIT", "MOD 2"}}).split.op == Split::Op::modulo);
  CHECK(options_of("--processes 4", {{"NCCL_TESTS_SPLIT_MASK", "0x1"}}).split.op == Split::Op::bit_and);
  check_names(refusal_of("", {{"NCCL_TESTS_SPLIT", "MOD"}}), {"NCCL_TESTS_SPLIT=MOD"});
  // Processes 0, 2, 4 and 1, 3: the smaller group has 2 processes of 2 threads.
  const Variables halves{{"NCCL_TESTS_SPLIT", "MOD 2"}};
  CHECK(options_of("--processes 5 -t 2 -r 3", halves).data.root == 3);
  check_names(refusal_of("--processes 5 -t 2 -r 4", halves), {"-r", "4", "0 to 3"});
}

TEST_CASE("options: an empty variable counts as unset") {
  for (const char* variable : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_DEVICE",
                               "NCCL_TESTS_ALLTOALLV_SPREAD", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
                               "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"}) {
    CAPTURE(variable);
    const Options options = options_of("--processes 2", {{variable, ""}}, "alltoallv");
    CHECK(options.split.op == Split::Op::none);
    CHECK_FALSE(options.min_busbw_bytes_per_s);
    CHECK_FALSE(options.first_device);
    CHECK(std::get<DistanceSpread>(options.collective_settings.alltoallv.pattern).spread == 1);
    CHECK_FALSE(options.collective_settings.alltoallv.print_summary);
  }
  const Variables empty_mask{{"NCCL_TESTS_SPLIT_MASK", ""}, {"NCCL_TESTS_SPLIT", "MOD 2"}};
  CHECK(options_of("--processes 2", empty_mask).split.op == Split::Op::modulo);
}

TEST_CASE("options: NCCL_TESTS_MIN_BW is in GB/s") {
  CHECK(options_of("", {{"NCCL_TESTS_MIN_BW", "1.5"}}).min_busbw_bytes_per_s == 1.5e9);
  CHECK(options_of("", {{"NCCL_TESTS_MIN_BW", "0"}}).min_busbw_bytes_per_s == 0);
  for (const char* value : {" ", "fast", "-1", "1GB", "nan"})
    check_names(refusal_of("", {{"NCCL_TESTS_MIN_BW", value}}), {std::string("NCCL_TESTS_MIN_BW=") + value, "GB/s"});
}

TEST_CASE("options: alltoallv's variables are read only for alltoallv") {
  const TemporaryFile matrix("100 200\n300 400\n");
  const Variables all{{"NCCL_TESTS_ALLTOALLV_SPREAD", "0.5"},
                      {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", matrix.path()},
                      {"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "2"},
                      {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1"}};
  const AlltoallvSettings settings = options_of("-t 2", all, "alltoallv").collective_settings.alltoallv;
  const auto& bytes = std::get<ByteMatrix>(settings.pattern);
  CHECK(bytes.bytes.ranks == 2);
  CHECK(bytes.bytes.cells == std::vector<std::uint64_t>{192, 400, 592, 800});
  CHECK(bytes.scale == 2);
  CHECK(settings.print_summary);
  CHECK(bytes.buffer_bytes == 32 * kMiB);
  const AlltoallvSettings others = options_of("", {{"NCCL_TESTS_ALLTOALLV_SPREAD", "9"}}).collective_settings.alltoallv;
  CHECK(std::get<DistanceSpread>(others.pattern).spread == 1);

  const auto refused = [](const char* variable, const char* value) {
    check_names(refusal_of("", {{variable, value}}, "alltoallv"), {std::string(variable) + "=" + value, "allowed"});
  };
  for (const char* value : {"1.1", "-0.1", "x", "50%"}) refused("NCCL_TESTS_ALLTOALLV_SPREAD", value);
  for (const char* value : {"-1", "x"}) refused("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", value);
  for (const char* value : {"yes", "0.5", "2", "-1"}) refused("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", value);
  const Variables no_summary{{"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "0"}};
  CHECK_FALSE(options_of("", no_summary, "alltoallv").collective_settings.alltoallv.print_summary);
  check_names(refusal_of("", {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/nowhere"}}, "alltoallv"), {"/nowhere"});
  check_names(refusal_of("-b 8 -e 1M", all, "alltoallv"), {"-b", "-e", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"});
}
