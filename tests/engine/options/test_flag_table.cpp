#include "options/flag_table.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace busbw;

TEST_CASE("flag_table: every flag of nccl-tests 2.19.7, short and long") {
  const std::set<std::pair<std::string_view, std::string_view>> theirs{{"-t", "--nthreads"},
                                                                       {"-g", "--ngpus"},
                                                                       {"-b", "--minbytes"},
                                                                       {"-e", "--maxbytes"},
                                                                       {"-i", "--stepbytes"},
                                                                       {"-f", "--stepfactor"},
                                                                       {"-n", "--iters"},
                                                                       {"-m", "--agg_iters"},
                                                                       {"-w", "--warmup_iters"},
                                                                       {"-N", "--run_cycles"},
                                                                       {"-p", "--parallel_init"},
                                                                       {"-c", "--check"},
                                                                       {"-o", "--op"},
                                                                       {"-d", "--datatype"},
                                                                       {"-r", "--root"},
                                                                       {"-z", "--blocking"},
                                                                       {"-y", "--stream_null"},
                                                                       {"-T", "--timeout"},
                                                                       {"-G", "--cudagraph"},
                                                                       {"-C", "--report_cputime"},
                                                                       {"-S", "--report_timestamps"},
                                                                       {"-J", "--output_file"},
                                                                       {"-a", "--average"},
                                                                       {"-R", "--local_register"},
                                                                       {"-x", "--cta_policy"},
                                                                       {"-D", "--device_implementation"},
                                                                       {"-V", "--device_cta_count"},
                                                                       {"-M", "--memory"},
                                                                       {"-u", "--unalign"},
                                                                       {"-I", "--per_iter_timing"},
                                                                       {"-K", "--per_iter_skip"},
                                                                       {"-H", "--host_rma_implementation"}};
  std::set<std::pair<std::string_view, std::string_view>> ours;
  for (const Flag& flag : flag_table())
    if (!flag.short_name.empty() && applies_to(flag, "all_reduce")) ours.emplace(flag.short_name, flag.long_name);
  CHECK(ours == theirs);
}

TEST_CASE("flag_table: the flags of nccl-tests' comm_ops_perf, and those that start ranks") {
  const std::set<std::pair<std::string_view, std::string_view>> expected{
      {"-a", "--abort"},         {"-A", "--all-timers"}, {"-b", "--sweep-begin"}, {"-e", "--sweep-end"},
      {"-i", "--iterations"},    {"-S", "--share"},      {"-r", "--resize"},      {"-R", "--root-every"},
      {"-s", "--sweep-comms"},   {"-v", "--verbose"},    {"-w", "--warmup"},      {"-W", "--work-iterations"},
      {"-t", "--nthreads"},      {"-g", "--ngpus"},      {"-T", "--timeout"},     {"-p", "--parallel_init"},
      {"-F", "--flush-interval"}};
  std::set<std::pair<std::string_view, std::string_view>> ours;
  for (const Flag& flag : flag_table())
    if (!flag.short_name.empty() && applies_to(flag, "comm_ops")) ours.emplace(flag.short_name, flag.long_name);
  CHECK(ours == expected);
}

TEST_CASE("flag_table: names are unique and well-formed, and every flag has help") {
  std::set<std::string_view> names;
  for (const Flag& flag : flag_table()) {
    CAPTURE(flag.long_name);
    CHECK(names.insert(flag.long_name).second);
    CHECK(flag.long_name.starts_with("--"));
    if (!flag.short_name.empty()) {
      CHECK((names.insert(flag.short_name).second || applies_to(flag, "comm_ops")));  // other programs lack that flag
      CHECK(flag.short_name.size() == 2);
      CHECK(flag.short_name[0] == '-');
    }
    if (!flag.other_name.empty()) CHECK(names.insert(flag.other_name).second);
    CHECK((!flag.placeholder.empty() || applies_to(flag, "comm_ops")));
    CHECK_FALSE(flag.help.empty());
    CHECK_FALSE(flag.section.empty());
  }
}

TEST_CASE("spelling: both names of a flag") {
  CHECK(spelling("--minbytes") == "-b (--minbytes)");
  CHECK(spelling("--sizes") == "--sizes");
}

TEST_CASE("help_text: names the program, every flag, the environment and the exit codes; sections are contiguous") {
  const std::string text = help_text("gather_perf", "Measures gather.");
  CHECK(text.starts_with("Usage: gather_perf "));
  for (const Flag& flag : flag_table()) {
    if (!applies_to(flag, "gather")) continue;
    CHECK(text.find(flag.long_name) != std::string::npos);
    CHECK(text.find(flag.help) != std::string::npos);
    const std::string heading = "\n" + std::string(flag.section) + ":\n";
    CHECK(text.find(heading) != std::string::npos);
    CHECK(text.find(heading) == text.rfind(heading));
  }
  for (const char* word :
       {"--help", "--version", "NCCL_TESTS_SPLIT", "NCCL_TESTS_MIN_BW", "Measures gather.",
        "Exit codes: 0 good, 1 wrong data,", "5 slower than demanded", "143 terminated or hung up.\n"})
    CHECK(text.find(word) != std::string::npos);
}
