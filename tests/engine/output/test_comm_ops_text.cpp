#include "output/comm_ops_text.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "golden.hpp"
#include "output_values.hpp"

using namespace busbw;

namespace {

Row made_up_call(const std::string& call, const std::string& function, std::vector<std::vector<double>> samples_s) {
  Row row;
  TimerCalls timer{.timer = function.empty() ? "split " + call : "NCCL " + function, .is_optional = function.empty()};
  for (std::size_t i = 0; i < samples_s.front().size(); ++i) {
    auto& call_s = timer.calls_s.emplace_back();
    for (const auto& rank_s : samples_s) call_s.push_back(rank_s[i]);
  }
  row.collective = "split/" + call;
  row.group_ranks = static_cast<int>(samples_s.size());
  row.dtype.reset();
  row.lifecycle = {"split", call, function, 4};
  row.lifecycle->median_s = samples_s[0][0];
  for (const auto& rank_s : samples_s) row.lifecycle->rank_medians_s.push_back((rank_s[0] + rank_s[1]) / 2);
  row.lifecycle->timers = {timer};
  Measurement& measurement = row.out_of_place.emplace();
  for (const auto& rank_s : samples_s) measurement.rank_times_s.push_back((rank_s[0] + rank_s[1]) / 2);
  measurement.time_s = 1.5 * samples_s[0][0];
  measurement.operation_s = samples_s.back();
  measurement.statistics.median_s = samples_s.back()[0];
  measurement.check.state = CheckResult::State::not_applicable;
  measurement.rank_samples_s = std::move(samples_s);
  return row;
}

std::string table(const CommOpsTextOptions& options) {
  const int descriptor = ::memfd_create("captured", 0);
  CommOpsText sink(descriptor, {}, options);
  RunInfo run = test::made_up_run();
  run.program = "comm_ops_perf";
  run.notes = {"finalize is not measured: the host backend has no finalize"};
  sink.begin(run);
  Row reduce = made_up_call("first_all_reduce", "ncclAllReduce", {{2e-5, 4e-5}, {3e-5, 5e-5}});
  reduce.out_of_place->check.state = CheckResult::State::checked;
  reduce.out_of_place->check.wrong_elements = 1;
  reduce.out_of_place->check.first_wrong = {
      {1, "members of the communicator", 2, "rank 0 of the communicator", "no member"}};
  Row create = made_up_call("create", "ncclCommSplit", {{0.25, 0.5}, {1.25, 1.5}});
  create.out_of_place->warnings = {"rank 1 on vm takes 1000 ms longer than the median of its equals"};
  sink.rows({made_up_call("rendezvous", "", {{1e-3, 3e-3}, {2e-3, 2e-3}}), create, reduce,
             made_up_call("next_all_reduce", "ncclAllReduce", {{1e-5, 1e-5}, {1e-5, 1e-5}})});
  if (options.root_every > 0) {  // a second test has lines of its own
    Row init = made_up_call("create", "ncclAllReduce", {{1, 1}, {2, 2}});
    init.lifecycle->test = "init";
    sink.rows({init});
  }
  RunEnd end;
  end.rows = 3;
  end.wrong_result_count = 1;
  end.wrong_elements = 1;
  end.exit_code = 1;
  sink.end(end);
  std::string text(static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END)), '\0');
  CHECK(::pread(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  ::close(descriptor);
  return text;
}

}  // namespace

TEST_CASE("comm_ops text: table, wrong data, warnings and summaries") {
  test::check_golden("comm_ops_table.txt", table({}));
  test::check_golden("comm_ops_table_verbose.txt",
                     table({.shows_details = true, .shows_all_timers = true, .root_every = 2}));
}

TEST_CASE("comm_ops text: a time has the largest unit in which it is at least 1") {
  CHECK(duration_text(2.5) == "2.50 s");
  CHECK(duration_text(123.4) == "123 s");
  CHECK(duration_text(0.9994) == "999 ms");
  CHECK(duration_text(0.01234) == "12.3 ms");
  CHECK(duration_text(1e-6) == "1.00 us");
  CHECK(duration_text(1e-7) == "0.10 us");
  CHECK(duration_text(0) == "0.00 us");
}
