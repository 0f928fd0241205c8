#include "output/record_writer.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/support/error.hpp"
#include "golden.hpp"
#include "output_values.hpp"

using namespace busbw;
using nlohmann::json;
using test::check_golden;
using test::made_up_end;
using test::made_up_row;
using test::made_up_run;
using test::read_file;
using test::TemporaryFolder;

namespace {

std::vector<json> json_lines(const std::string& path) {
  std::vector<json> lines;
  std::istringstream stream(read_file(path));
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

/// A run with every field that a record can have. tests/python/test_records.py checks it against the schema.
void write_everything(RecordWriter& sink) {
  RunInfo run = made_up_run();
  run.settings.target_ci = 0.01;
  run.settings.max_time_s = 60;
  run.settings.local_register = 2;
  run.settings.cta_policy = 1;
  run.settings.rma_contexts = 2;
  run.settings.lifecycle = {.work_iterations = 2, .resize = "factor-2"};
  run.notes = {"-f 1: steps of 1048576 bytes (-i) are used"};
  run.warnings = {"4 ranks share 2 cores; times include waiting for a core"};
  sink.begin(run);

  Row whole = made_up_row(8);
  whole.out_of_place->statistics.median_ci95_s = {15e-6, 17.5e-6};
  whole.out_of_place->stopped_by = StopReason::target_ci;
  whole.out_of_place->sample_clock = SampleClock::gated_device_events;
  whole.out_of_place->warnings = {"the times scatter by 31 %; pin the ranks to cores"};
  whole.in_place->cpu_time_s.reset();
  whole.in_place->check.wrong_elements = 5;
  whole.in_place->check.wrong_ranks = 1;
  whole.in_place->check.first_wrong = {test::made_up_wrong(2, 17), test::made_up_wrong(2, -1)};
  whole.out_of_place->skew = {
      .busiest_bytes = 6, .imbalance = 1.5, .balanced_time_s = 8e-6, .bound_s = 12e-6, .ratio_to_bound = 4.0 / 3};
  whole.out_of_place->together = {.time_s = 24e-6,
                                  .ratio_to_alone = 1.5,
                                  .device_time_s = 20e-6,
                                  .rank_samples_s = {{24e-6, 32e-6}, {16e-6, 24e-6}},
                                  .active_share = 0.998,
                                  .neighbor_operations = 3,
                                  .neighbor_time_s = 48e-6};
  whole.in_place->together = {.active_share = 0.5, .neighbor_operations = 1};  // too little for a time
  sink.rows({whole});

  Row first = made_up_row(16);
  first.requested_bytes = 20;
  first.redop = "none";
  first.root = 0;
  first.cycle = 1;
  first.out_of_place->check = {};
  first.in_place.reset();
  first.out_of_place->stopped_by = StopReason::max_time;
  Row second = first;
  second.group = 1;
  second.redop = "";
  second.lifecycle = {.test = "split", .call = "create", .function = "ncclCommSplit", .test_ranks = 4};
  second.out_of_place->check.state = CheckResult::State::not_applicable;
  second.out_of_place->statistics = {};
  second.out_of_place->rank_samples_s.clear();
  second.out_of_place->busbw_bytes_per_s = std::numeric_limits<double>::infinity();
  sink.rows({first, second});

  RunEnd end = made_up_end(3);
  end.exit_code = 1;
  end.reason = "wrong data";
  end.message = "5 wrong elements in 1 of 3 rows; see the lines above";
  end.wrong_result_count = 1;
  end.min_busbw_bytes_per_s = 1e9;
  end.memory = {{.context_bytes = {}, .library_bytes = 367001600, .buffer_bytes = 2097152, .collective_bytes = -1024}};
  sink.end(end);
}

}  // namespace

TEST_CASE("golden: a record with everything") {
  const TemporaryFolder folder;
  const auto sink = RecordWriter::open(folder.file("run.jsonl"));
  write_everything(*sink);
  check_golden("records.jsonl", read_file(sink->path()));
}

TEST_CASE("a line is one placement of one row of one group, and complete at once") {
  const TemporaryFolder folder;
  const auto sink = RecordWriter::open(folder.file("run.jsonl"));
  CHECK(read_file(sink->path()).empty());
  sink->begin(made_up_run());
  CHECK(json_lines(sink->path()).size() == 1);
  Row other_group = made_up_row(8);
  other_group.group = 1;
  sink->rows({made_up_row(8), other_group});
  const std::vector<json> lines = json_lines(sink->path());
  REQUIRE(lines.size() == 5);
  CHECK(read_file(sink->path()).ends_with("\n"));
  CHECK(lines[1].at("placement") == "out_of_place");
  CHECK(lines[2].at("placement") == "in_place");
  CHECK(lines[2].at("group") == 0);
  CHECK(lines[3].at("group") == 1);
  CHECK(lines[1].at("rank_times_us") == json({12, 20}));
  CHECK(lines[1].at("samples_us") == json({{8, 16, 24}, {12, 16, 20}}));
}

TEST_CASE("missing, not checked, not applicable and zero are distinguished") {
  const TemporaryFolder folder;
  const auto sink = RecordWriter::open(folder.file("run.jsonl"));
  write_everything(*sink);
  const std::vector<json> lines = json_lines(sink->path());
  REQUIRE(lines.size() == 7);
  CHECK(lines[1].at("kind") == "warning");
  const json zero = lines[2].at("check"), wrong = lines[3].at("check");
  const json not_checked = lines[4].at("check"), not_applicable = lines[5].at("check");
  CHECK(zero.at("wrong_elements") == 0);
  CHECK(wrong.at("wrong_elements") == 5);
  CHECK(not_checked.at("state") == "not_checked");
  CHECK(not_checked.at("wrong_elements").is_null());
  CHECK(not_applicable.at("state") == "not_applicable");
  CHECK(not_applicable.at("wrong_elements").is_null());
  CHECK(lines[3].at("cpu_time_us").is_null());
  CHECK(lines[2].at("root").is_null());
  CHECK(lines[4].at("root") == 0);
  CHECK(lines[4].at("redop").is_null());
  CHECK(lines[5].at("redop").is_null());
  CHECK(lines[5].at("stats").is_null());
  CHECK(lines[5].at("busbw_gbps").is_null());
}

TEST_CASE("an existing or impossible file is a usage error, and a discarded one is removed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.jsonl");
  const auto sink = RecordWriter::open(path);
  CHECK_THROWS_WITH_AS(RecordWriter::open(path), doctest::Contains("option --records"), UsageError);
  CHECK_THROWS_WITH_AS(RecordWriter::open(folder.file("none/run.jsonl")), doctest::Contains("none/run.jsonl"),
                       UsageError);
  sink->discard();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("1000 rows of 2 placements, 4 ranks and 20 samples are a line for each placement, and the run's") {
  const TemporaryFolder folder;
  Row row = made_up_row(1048576);
  row.out_of_place->rank_samples_s.assign(4, std::vector<double>(20, 123.456789e-6));
  row.in_place = row.out_of_place;
  const auto sink = RecordWriter::open(folder.file("run.jsonl"));
  sink->begin(made_up_run());
  for (int repeat = 0; repeat < 1000; ++repeat) sink->rows({row});
  CHECK(json_lines(sink->path()).size() == 2001);
}
