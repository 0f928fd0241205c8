#include "run/reporter.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>

#include "output_values.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// Calls that a sink received.
struct SinkLog {
  std::vector<std::string> calls;
  std::vector<RunEnd> ends;
  RunInfo run;
};

class LoggingSink final : public Sink {
 public:
  LoggingSink(SinkLog& log, std::function<void()> at_end = [] {}) : log_(log), at_end_(std::move(at_end)) {}
  void begin(const RunInfo& run) override {
    log_.calls.push_back("begin");
    log_.run = run;
  }
  void rows(const CaseRows&) override { log_.calls.push_back("rows"); }
  void end(const RunEnd& end) override {
    log_.calls.push_back("end");
    log_.ends.push_back(end);
    at_end_();
  }

 private:
  SinkLog& log_;
  std::function<void()> at_end_;
};

/// Output of `call` on stderr.
std::string stderr_of(const std::function<void()>& call) {
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  const int caught = memfd_create("stderr", 0);
  dup2(caught, STDERR_FILENO);
  call();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(static_cast<std::size_t>(lseek(caught, 0, SEEK_END)), '\0');
  CHECK(pread(caught, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  close(caught);
  return text;
}

/// Exit code, stderr text and end of a reported run.
struct Outcome {
  int exit_code = -1;
  std::string printed;
  RunEnd end;
};

Outcome outcome_of(const std::vector<CaseRows>& cases, const std::optional<Failure>& failure = {},
                   std::optional<double> min_bw = {}) {
  SinkLog log;
  Reporter reporter(test::made_up_run(), min_bw);
  reporter.add(std::make_unique<LoggingSink>(log));
  reporter.begin(test::made_up_ranks(1, 4), {});
  for (const CaseRows& rows : cases) reporter.report_rows(rows);
  Outcome outcome;
  outcome.printed = stderr_of([&] { outcome.exit_code = reporter.finish(failure); });
  REQUIRE(log.ends.size() == 1);
  outcome.end = log.ends[0];
  CHECK(outcome.end.exit_code == outcome.exit_code);
  CHECK_FALSE(outcome.end.end_time.empty());
  CHECK_FALSE(outcome.end.end_time_iso.empty());
  return outcome;
}

Row row_of(double out_gbps, double in_gbps) {
  Row row = test::made_up_row(1024);
  row.out_of_place = test::made_up_measurement(1, out_gbps, out_gbps);
  row.in_place = test::made_up_measurement(1, in_gbps, in_gbps);
  return row;
}

Row wrong_row(int wrong_ranks) {
  Row row = row_of(4, 2);
  row.in_place->check.wrong_ranks = wrong_ranks;
  row.in_place->check.wrong_elements = 100;
  return row;
}

}  // namespace

TEST_CASE("reporter: a good run") {
  const Outcome outcome = outcome_of({{row_of(4, 2)}, {row_of(8, 6)}});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.printed == "");
  CHECK(outcome.end.reason == "completed");
  CHECK(outcome.end.message == "");
  CHECK(outcome.end.rows == 2);
  CHECK(outcome.end.wrong_result_count == 0);
  CHECK(*outcome.end.average_busbw_bytes_per_s == doctest::Approx(5e9));
}

TEST_CASE("reporter: without a row there is no average") {
  const Outcome outcome = outcome_of({});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.end.rows == 0);
  CHECK_FALSE(outcome.end.average_busbw_bytes_per_s);
}

TEST_CASE("reporter: every group's rows count, and a placement that was not measured does not") {
  Row half = row_of(4, 2);
  half.in_place.reset();
  const Outcome outcome = outcome_of({{half, row_of(8, 6)}});
  CHECK(outcome.end.rows == 2);
  CHECK(*outcome.end.average_busbw_bytes_per_s == doctest::Approx(6e9));
}

TEST_CASE("reporter: wrong data is exit code 1, counted by ranks, placements and rows") {
  const Outcome outcome = outcome_of({{wrong_row(2)}, {row_of(1, 1)}, {wrong_row(3)}});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.end.reason == "wrong data");
  CHECK(outcome.end.wrong_result_count == 5);
  CHECK(outcome.end.wrong_elements == 200);
  check_names(outcome.printed, {"all_reduce_perf: ", "wrong data"});
}

TEST_CASE("reporter: an average below 0.9 of the required busbw is exit code 5") {
  CHECK(outcome_of({{row_of(9, 9)}}, {}, 10e9).exit_code == 0);
  CHECK(outcome_of({{row_of(20, 20)}}, {}, 10e9).exit_code == 0);
  const Outcome slow = outcome_of({{row_of(8.9, 8.9)}}, {}, 10e9);
  CHECK(slow.exit_code == 5);
  CHECK(slow.end.reason == "slower than demanded");
  CHECK(slow.end.min_busbw_bytes_per_s == 10e9);
  check_names(slow.printed, {"8.90 GB/s", "NCCL_TESTS_MIN_BW=10"});
  CHECK(outcome_of({}, {}, 10e9).exit_code == 5);
  CHECK(outcome_of({{row_of(0, 0)}}, {}, 0.0).exit_code == 0);
}

TEST_CASE("reporter: wrong data takes precedence over slow, a failure over both") {
  CHECK(outcome_of({{wrong_row(1)}}, {}, 1e12).exit_code == 1);
  const Outcome lost =
      outcome_of({{wrong_row(1)}}, Failure{ExitCode::rank_lost, "rank 3 is gone", {"last issued: none"}}, 1e12);
  CHECK(lost.exit_code == 4);
  CHECK(lost.end.details == std::vector<std::string>{"last issued: none"});
  CHECK(lost.end.wrong_result_count == 1);
  CHECK_FALSE(lost.end.timed_out);
  CHECK(outcome_of({}, Failure{.exit = ExitCode::rank_lost, .message = "slow", .timed_out = true}).end.timed_out);
}

TEST_CASE("reporter: a failure gives exit code, reason and message, and is printed elsewhere") {
  struct Expected {
    ExitCode exit;
    int code;
    const char* reason;
  };
  for (const Expected& expected : {Expected{ExitCode::usage, 2, "usage"},
                                   {ExitCode::environment, 3, "environment"},
                                   {ExitCode::rank_lost, 4, "rank lost or timed out"},
                                   {ExitCode::interrupted, 130, "interrupted"},
                                   {ExitCode::terminated, 143, "terminated"},
                                   {ExitCode::output_closed, 141, "the reader of the output went away"}}) {
    const Outcome outcome = outcome_of({{row_of(4, 2)}}, Failure{expected.exit, "a sentence"});
    CHECK(outcome.exit_code == expected.code);
    CHECK(outcome.end.reason == expected.reason);
    CHECK(outcome.end.message == "a sentence");
    CHECK(outcome.printed == "");
    CHECK(outcome.end.rows == 1);
  }
}

TEST_CASE("reporter: sinks receive the ranks, every case and the end, in order") {
  SinkLog first;
  SinkLog second;
  Reporter reporter(test::made_up_run(), {});
  reporter.add(std::make_unique<LoggingSink>(first));
  reporter.add(std::make_unique<LoggingSink>(second));
  reporter.begin(test::made_up_ranks(2, 3), {{"transport", "tcp sockets"}});
  reporter.report_rows({row_of(1, 1)});
  reporter.report_rows({row_of(1, 1)});
  reporter.finish({});
  for (const SinkLog* log : {&first, &second}) {
    CHECK(log->calls == std::vector<std::string>{"begin", "rows", "rows", "end"});
    CHECK(log->run.ranks.size() == 6);
    CHECK(log->run.machine.back() == std::pair<std::string, std::string>("transport", "tcp sockets"));
    CHECK(log->run.program == "all_reduce_perf");
  }
}

TEST_CASE("reporter: a sink that throws at the end does not stop the others, and its error is printed") {
  struct Expected {
    std::function<void()> at_end;
    int code;
    const char* printed;
  };
  for (const Expected& expected :
       {Expected{[] { throw EnvironmentError("the disk is full"); }, 3, "all_reduce_perf: the disk is full\n"},
        {[] { throw std::runtime_error("odd"); }, 3, "all_reduce_perf: odd\n"},
        {[] { throw Error(ExitCode::output_closed, "closed"); }, 141, ""}}) {
    SinkLog first;
    SinkLog last;
    Reporter reporter(test::made_up_run(), {});
    reporter.add(std::make_unique<LoggingSink>(first, expected.at_end));
    reporter.add(std::make_unique<LoggingSink>(last));
    int exit_code = 0;
    CHECK(stderr_of([&] { exit_code = reporter.finish({}); }) == expected.printed);
    CHECK(exit_code == expected.code);
    CHECK(last.calls == std::vector<std::string>{"end"});
    // The run has all its rows.
    CHECK(last.ends[0].exit_code == 0);
    CHECK(last.ends[0].reason == "completed");
    CHECK(last.ends[0].output_failed);
  }
}

TEST_CASE("reporter: an error at the end does not hide the failure, and is printed once") {
  SinkLog log;
  Reporter reporter(test::made_up_run(), {});
  reporter.add(std::make_unique<LoggingSink>(log, [] { throw EnvironmentError("the disk is full"); }));
  int exit_code = 0;
  CHECK(stderr_of([&] { exit_code = reporter.finish(Failure{ExitCode::environment, "the disk is full"}); }) == "");
  CHECK(exit_code == 3);
  CHECK(stderr_of([&] { exit_code = reporter.finish(Failure{ExitCode::rank_lost, "rank 3 is gone"}); }) ==
        "all_reduce_perf: the disk is full\n");
  CHECK(exit_code == 4);
}

TEST_CASE("reporter: a run that never began still ends its sinks") {
  SinkLog log;
  Reporter reporter(test::made_up_run(), {});
  reporter.add(std::make_unique<LoggingSink>(log));
  CHECK(reporter.finish(Failure{ExitCode::environment, "no memory"}) == 3);
  CHECK(log.calls == std::vector<std::string>{"end"});
}
