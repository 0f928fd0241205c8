#include "output/nccl_tests_text.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include "backends/nccl/nccl_backend.hpp"
#include "captured_text.hpp"
#include "common/support/error.hpp"
#include "golden.hpp"
#include "output_values.hpp"

using namespace busbw;
using test::CapturedText;
using test::check_golden;
using test::made_up_end;
using test::made_up_measurement;
using test::made_up_row;
using test::made_up_run;
using test::made_up_wrong;

namespace {

/// Fits a number into a column as nccl-tests does, with printf.
std::string fitted_by_printf(double value, int width) {
  char text[400];
  for (const char* format : {"%*.2f", "%*.1f", "%*.0f"}) {
    if (std::snprintf(text, sizeof text, format, width, value) <= width) return text;
  }
  std::snprintf(text, sizeof text, width >= 7 ? "%*.1e" : "%*.0e", width, value);
  return text;
}

std::string whole_table(const RunInfo& run, const std::vector<CaseRows>& cases, const RunEnd& end) {
  CapturedText captured;
  captured.sink().begin(run);
  for (const CaseRows& rows : cases) captured.sink().rows(rows);
  captured.sink().end(end);
  return captured.text();
}

Row row_of_magnitude(double value) {
  Row row = made_up_row(8);
  row.out_of_place = made_up_measurement(value, value, value);
  row.in_place = made_up_measurement(value * 10, value * 10, value * 10);
  return row;
}

}  // namespace

TEST_CASE("numbers fit their columns as printf fits them, at every magnitude") {
  CHECK(column_number_text(0, 7) == "   0.00");
  CHECK(column_number_text(0.005, 7) == "   0.01");
  CHECK(column_number_text(0.005, 6) == "  0.01");
  CHECK(column_number_text(9.999, 6) == " 10.00");
  CHECK(column_number_text(9999.994, 7) == "9999.99");
  CHECK(column_number_text(9999.996, 7) == "10000.0");
  CHECK(column_number_text(99999.99, 7) == " 100000");
  CHECK(column_number_text(99999.99, 6) == "100000");
  CHECK(column_number_text(999999.9, 7) == "1000000");
  CHECK(column_number_text(999999.9, 6) == " 1e+06");
  CHECK(column_number_text(1e7, 7) == "1.0e+07");
  CHECK(column_number_text(1e13, 7) == "1.0e+13");
  CHECK(column_number_text(1e13, 6) == " 1e+13");

  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-4, 15);
  for (int sample = 0; sample < 200000; ++sample) {
    double value = std::pow(10, exponent(random));
    if (sample % 2 == 0) value = std::round(value * 1000) / 1000;  // ties between two decimals
    for (const int width : {6, 7}) REQUIRE(column_number_text(value, width) == fitted_by_printf(value, width));
  }
  for (const double odd : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(column_number_text(odd, 7) == fitted_by_printf(odd, 7));
  }
}

TEST_CASE("wrong counts and the average are printed as %g prints them") {
  RunInfo run = made_up_run();
  for (const std::uint64_t wrong : {0ull, 1ull, 999999ull, 1000000ull, 1048576000ull, 123456789012ull}) {
    Row row = made_up_row(8);
    row.in_place->check.wrong_elements = wrong;
    char expected[32];
    std::snprintf(expected, sizeof expected, "  %6g\n", static_cast<double>(wrong));
    CapturedText captured;
    captured.sink().rows({row});
    const std::string text = captured.text();
    CHECK(text.substr(0, text.find('\n') + 1).ends_with(expected));
  }
  for (const double average : {0.0, 0.5, 12.3267461, 745.53, 123456.7, 1234567.8, 1e-7}) {
    RunEnd end = made_up_end(1);
    end.average_busbw_bytes_per_s = average * 1e9;
    char expected[64];
    std::snprintf(expected, sizeof expected, "# Avg bus bandwidth    : %g \n", average);
    CHECK(whole_table(run, {}, end).find(expected) != std::string::npos);
  }
}

TEST_CASE("golden: rows of every magnitude") {
  std::vector<CaseRows> cases;
  for (const double value : {0.0, 0.005, 9.999, 99999.99, 999999.9, 1e7, 1e13}) {
    cases.push_back({row_of_magnitude(value)});
  }
  check_golden("text_magnitudes.txt", whole_table(made_up_run(), cases, made_up_end(7)));
}

TEST_CASE("golden: -I, -S and -C and all their combinations, also with one placement missing") {
  std::string all;
  for (int bits = 0; bits < 8; ++bits) {
    RunInfo run = made_up_run();
    run.settings.per_iteration = (bits & 1) != 0;
    run.settings.report_timestamps = (bits & 2) != 0;
    run.settings.report_cputime = (bits & 4) != 0;
    Row no_out_of_place = made_up_row(16);
    no_out_of_place.out_of_place.reset();
    Row no_in_place = made_up_row(32);
    no_in_place.in_place.reset();
    all += whole_table(run, {{made_up_row(8)}, {no_out_of_place}, {no_in_place}}, made_up_end(3));
  }
  check_golden("text_options.txt", all);
}

TEST_CASE("golden: every line that a header can have") {
  std::string all;
  for (int blocking = 1; blocking <= 3; ++blocking) {
    RunInfo run = made_up_run();
    run.settings.blocking = blocking;
    run.settings.per_iteration = true;
    run.settings.per_iteration_skip = blocking - 1;
    run.settings.parallel_init = true;
    run.settings.step_factor = 1;
    if (blocking == 2) run.settings.sizes_bytes = {1024, 3000, 7340032};
    if (blocking == 3) run.notes = {"-f 1: steps of 1048576 bytes (-i) are used", "Reducing maxBytes to 1048576"};
    if (blocking == 3) run.backend = kNcclTraits, run.backend_version = "22809";
    CapturedText captured;
    captured.sink().comment("Writing JSON output to out.json");
    captured.sink().begin(run);
    all += captured.text();
  }
  check_golden("text_headers.txt", all);
}

TEST_CASE("golden: more ranks than fit into a process's list") {
  RunInfo run = made_up_run();
  run.ranks = test::made_up_ranks(1, 200);
  const std::string one_process = whole_table(run, {}, made_up_end(0));
  run.ranks = test::made_up_ranks(3, 100);
  check_golden("text_many_ranks.txt", one_process + whole_table(run, {}, made_up_end(0)));
}

TEST_CASE("the list of a process is cut from 2048 bytes on") {
  RunInfo run = made_up_run();
  run.ranks = test::made_up_ranks(1, 1);
  const auto list_of = [&](std::size_t name_bytes) {
    run.ranks[0].device_name = std::string(name_bytes, 'x');
    const std::string text = whole_table(run, {}, made_up_end(0));
    const std::size_t start = text.find("#  Rank");
    return text.substr(start, text.find("#\n#", start) - start);
  };
  const std::size_t fixed_bytes = list_of(0).size();
  CHECK(list_of(2047 - fixed_bytes).ends_with("xxxx\n"));
  CHECK(list_of(2047 - fixed_bytes).size() == 2047);
  CHECK(list_of(2048 - fixed_bytes).ends_with("x...\n"));
  CHECK(list_of(2048 - fixed_bytes).size() == 2047);
}

TEST_CASE("golden: unchecked, not applicable, no operator, a root, comments and warnings") {
  Row unchecked = made_up_row(8);
  unchecked.out_of_place->check = {};
  unchecked.in_place->check.state = CheckResult::State::not_applicable;
  unchecked.redop = "none";
  unchecked.root = 3;
  Row blank = made_up_row(17179869184);
  blank.redop = "";
  blank.dtype = Dtype::bfloat16;
  blank.comments = {"# rank 0 sends 8 bytes", "rank 1 sends 16 bytes"};
  blank.in_place->warnings = {"the times scatter by 40 %; pin the ranks to cores"};
  CapturedText captured;
  RunInfo run = made_up_run();
  run.warnings = {"4 ranks share 2 cores; times include waiting for a core"};
  captured.sink().begin(run);
  captured.sink().rows({unchecked});
  captured.sink().rows({blank});
  captured.sink().end(made_up_end(2));
  check_golden("text_remarks.txt", captured.text());
}

TEST_CASE("the three times follow a row only on request") {
  RunInfo run = made_up_run();
  Row row = made_up_row(8);
  row.in_place->device_time_s.reset();
  row.in_place->launch_time_s.reset();
  const std::string without = whole_table(run, {{row}}, made_up_end(1));
  run.settings.report_times = true;
  const std::string with = whole_table(run, {{row}}, made_up_end(1));
  const std::string lines =
      "# Times: out of place: time 16.00 us, device time 8.00 us, launch time 2.00 us\n"
      "# Times: in place: time 32.00 us, device time N/A, launch time N/A\n";
  const std::size_t at = with.find(lines);
  REQUIRE(at != std::string::npos);
  CHECK(with.substr(0, at) + with.substr(at + lines.size()) == without);
}

TEST_CASE("golden: columns of the algorithm precede the timestamp, and show what is unknown") {
  RunInfo run = made_up_run();
  run.settings.report_algorithms = true;
  run.settings.report_timestamps = true;
  Row row = made_up_row(8);
  row.out_of_place->algorithms = {{"ring", "ll128", 4}};
  row.in_place->algorithms = {{"copy_engine", "", 0}};
  Row ranks_differ = made_up_row(16);
  ranks_differ.out_of_place->algorithms = {{"ring", "ll", 2}, {"tree", "ll", 2}};
  ranks_differ.in_place.reset();
  check_golden("text_algorithms.txt", whole_table(run, {{row}, {ranks_differ}}, made_up_end(2)));
}

TEST_CASE("golden: groups, their sums, and the required bandwidth") {
  RunInfo run = made_up_run();
  for (RankInfo& rank : run.ranks) rank.group = rank.rank % 2;
  Row first = made_up_row(1024);
  Row second = made_up_row(1024);
  first.group_ranks = second.group_ranks = 2;
  second.group = 1;
  RunEnd end = made_up_end(2);
  end.min_busbw_bytes_per_s = 13e9;
  std::string all = whole_table(run, {{first, second}}, end);
  first.in_place.reset();
  second.in_place.reset();
  end.min_busbw_bytes_per_s = 14e9;
  all += whole_table(run, {{first, second}}, end);
  check_golden("text_groups.txt", all);
}

TEST_CASE("golden: wrong data and inexact checks are named") {
  Row row = made_up_row(1048576);
  row.out_of_place->check.wrong_elements = 4096;
  row.out_of_place->check.wrong_ranks = 2;
  row.out_of_place->check.first_wrong = {made_up_wrong(2, 17), made_up_wrong(3, -1)};
  row.in_place->check.wrong_elements = 1;
  row.in_place->check.first_wrong = {made_up_wrong(0, 262143)};
  Row moved = row;
  moved.collective = "all_gather";
  moved.redop = "none";
  Row bounded = made_up_row(8);
  bounded.dtype = Dtype::float16;
  bounded.redop = "avg";
  bounded.out_of_place->check.exactness = bounded.in_place->check.exactness = "within 2 units in the last place";
  RunEnd end = made_up_end(4);
  end.exit_code = 1;
  end.reason = "wrong data";
  end.message = "wrong data in 4 places";
  end.wrong_result_count = 4;
  end.wrong_elements = 8194;
  check_golden("text_wrong_data.txt", whole_table(made_up_run(), {{row}, {moved}, {bounded}, {bounded}}, end));
}

TEST_CASE("without a table only the rank details and the failure are printed") {
  CapturedText captured;
  RunEnd end = made_up_end(0);
  end.exit_code = 4;
  end.reason = "rank lost";
  end.message = "rank 3 did not come";
  end.details = {"NCCL's RAS service: DEAD"};
  captured.sink().end(end);
  CHECK(captured.text() == "# NCCL's RAS service: DEAD\n# Test failure: rank lost\n");
}

TEST_CASE("golden: an interrupted run and a lost rank have no footer, because it marks a completed run") {
  RunEnd end = made_up_end(1);
  end.exit_code = 130;
  end.reason = "interrupted";
  std::string all = whole_table(made_up_run(), {{made_up_row(8)}}, end);
  end.exit_code = 4;
  end.reason = "rank lost";
  end.message = "rank 3 (pid 1463 on vm) died in phase timing";
  end.details = {"last issued: operation 41 (all_reduce, 1024 bytes) by rank 0", "NCCL's last error: none"};
  end.rows = 0;  // without measurements the result is neither correct nor wrong
  end.average_busbw_bytes_per_s.reset();
  end.min_busbw_bytes_per_s = 1e9;
  all += whole_table(made_up_run(), {}, end);
  check_golden("text_ended_early.txt", all);
}

TEST_CASE("the last line gives the reason for a failure in words that scripts search for") {
  const auto last_line = [](const RunEnd& end) {
    std::string text = whole_table(made_up_run(), {{made_up_row(8)}}, end);
    text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  };
  RunEnd end = made_up_end(1);
  CHECK(last_line(end) == "");
  end.output_failed = true;
  CHECK(last_line(end) == "# Test failure: an output could not be written");
  end.exit_code = 1;
  end.wrong_elements = 1;
  CHECK(last_line(end) == "# Test failure: wrong data in 1 element");
  end.exit_code = 5;
  end.reason = "slower than demanded";
  end.message = "the average busbw is 1.00 GB/s";
  CHECK(last_line(end) == "# Test failure: slower than demanded: the average busbw is 1.00 GB/s");
  end.exit_code = 4;
  end.reason = "rank lost or timed out";
  CHECK(last_line(end) == "# Test failure: rank lost or timed out");
  end.timed_out = true;
  CHECK(last_line(end) == "# Test failure: Test timeout");
  end.message = "ended from outside";
  for (const int ended_by_somebody : {130, 141, 143}) {
    end.exit_code = ended_by_somebody;
    CHECK(last_line(end) == "# error: ended from outside");
  }
}

TEST_CASE("comments avoid the words by which parsers find the table's heading and footer") {
  RunInfo run = made_up_run();
  run.settings.report_times = true;
  Row row = made_up_row(8);
  row.out_of_place->warnings = {"the times scatter"};
  row.out_of_place->check.wrong_elements = 1;
  row.out_of_place->check.first_wrong = {made_up_wrong(0, 1)};
  const std::string text = whole_table(run, {{row, row}}, made_up_end(2));
  CHECK(text.find("out-of-place") == text.rfind("out-of-place"));
  CHECK(text.find("in-place") == text.rfind("in-place"));
}

TEST_CASE("the settings show the requested size if memory reduced it") {
  RunInfo run = made_up_run();
  run.requested_max_bytes = 1ull << 40;
  CHECK(whole_table(run, {}, made_up_end(0)).find(" maxBytes 1099511627776 step:") != std::string::npos);
}

TEST_CASE("an end without a begin prints nothing") {
  CapturedText captured;
  captured.sink().end(made_up_end(0));
  CHECK(captured.text().empty());
}

TEST_CASE("a closed reader ends the run once, without a signal") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  NcclTestsText sink(ends[1]);
  try {
    sink.begin(made_up_run());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.exit() == ExitCode::output_closed);
  }
  CHECK_NOTHROW(sink.end(made_up_end(0)));
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

TEST_CASE("output that cannot be written for another reason is an environment error") {
  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  NcclTestsText sink(full);
  CHECK_THROWS_AS(sink.comment("hello"), EnvironmentError);
  ::close(full);
}

TEST_CASE("-M: the GPU memory line stands where nccl-tests has it, and only with -M") {
  RunEnd end = made_up_end(0);
  CHECK(whole_table(made_up_run(), {}, end).find("GPU memory") == std::string::npos);
  end.memory = {{.context_bytes = {}, .library_bytes = 1024, .buffer_bytes = 2048, .collective_bytes = 0}};
  CHECK(whole_table(made_up_run(), {}, end)
            .ends_with("# Collective test concluded: all_reduce_perf\n"
                       "# GPU memory usage     : Initialization 1.00 KB | User-Allocated 2.00 KB | Collective 0.00 B | "
                       "Total  3.00 KB\n#\n\n"));
}
