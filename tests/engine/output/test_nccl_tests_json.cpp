#include "output/nccl_tests_json.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/nccl/nccl_backend.hpp"
#include "common/support/error.hpp"
#include "golden.hpp"
#include "output_values.hpp"
#include "size_limit.hpp"

using namespace busbw;
using nlohmann::json;
using test::check_golden;
using test::made_up_end;
using test::made_up_row;
using test::made_up_run;
using test::read_file;
using test::TemporaryFolder;

TEST_CASE("golden: a document in nccl-tests' shape, with CPU times and every iteration") {
  const TemporaryFolder folder;
  RunInfo run = made_up_run();
  run.settings.report_cputime = true;
  run.settings.per_iteration = true;
  run.settings.per_iteration_skip = 1;
  run.settings.blocking = 2;
  run.settings.processes = 2;
  run.ranks = test::made_up_ranks(2, 2);
  Row row = made_up_row(8);
  row.out_of_place->process_max_s = {{12e-6, 16e-6, 24e-6}, {8e-6, 16e-6, 20e-6}};
  Row one_side = made_up_row(1024);
  one_side.in_place.reset();
  one_side.out_of_place->check.state = CheckResult::State::not_applicable;
  for (auto* measurement : {&row.out_of_place, &row.in_place, &one_side.out_of_place})
    (*measurement)->statistics.samples = (*measurement)->operation_s.size() - 1;  // -K 1 skips one
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  run.warnings = {"4 ranks share 2 cores"};
  sink->begin(run);
  sink->rows({row});
  sink->rows({one_side});
  RunEnd end = made_up_end(2);
  end.min_busbw_bytes_per_s = 12e9;
  sink->end(end);
  check_golden("nccl_tests.json", read_file(sink->path()));
}

TEST_CASE("the skipped iterations are those of the listed times, also if graphs have no time of the first iteration") {
  const TemporaryFolder folder;
  RunInfo run = made_up_run();
  run.settings.per_iteration = true;
  run.settings.per_iteration_skip = 2;
  Row row = made_up_row(8);
  row.in_place.reset();
  row.out_of_place->statistics.samples = row.out_of_place->operation_s.size() - 1;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->begin(run);
  sink->rows({row});
  CHECK(read_file(sink->path()).find(R"("skipped_iterations":1,)") != std::string::npos);
}

TEST_CASE("golden: groups, sizes and an interrupt") {
  const TemporaryFolder folder;
  RunInfo run = made_up_run();
  run.settings.sizes_bytes = {8, 3000};
  Row first = made_up_row(8);
  Row second = made_up_row(8);
  second.group = 1;
  second.root = 2;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->begin(run);
  sink->rows({first, second});
  RunEnd end = made_up_end(2);
  end.exit_code = 130;
  end.reason = "interrupted";
  end.message = "interrupted by SIGINT";
  end.wrong_result_count = 3;
  sink->end(end);
  check_golden("nccl_tests_groups.json", read_file(sink->path()));
}

TEST_CASE("the file is a complete document after every call") {
  const TemporaryFolder folder;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  const auto document = [&] { return json::parse(read_file(sink->path())); };
  CHECK(document().at("version") == 3);
  sink->begin(made_up_run());
  CHECK(document().at("results").empty());
  for (std::uint64_t row = 1; row <= 50; ++row) {
    sink->rows({made_up_row(row * 8)});
    const json now = document();
    CHECK(now.at("results").size() == row);
    CHECK(now.at("results").back().at("size") == row * 8);
    CHECK(now.at("busbw").at("end_reason").is_null());
    CHECK_FALSE(now.contains("end_time"));
  }
  sink->end(made_up_end(50));
  CHECK(document().at("end_time") == "2026-11-21 08:16:41");
  CHECK(document().at("busbw").at("end_reason") == "completed");
}

TEST_CASE("only complete runs have totals") {
  const auto document_of = [](int exit_code) {
    const TemporaryFolder folder;
    RunInfo run = made_up_run();
    run.requested_max_bytes = 1ull << 40;
    const auto sink = NcclTestsJson::open(folder.file("out.json"));
    sink->begin(run);
    sink->rows({made_up_row(8)});
    RunEnd end = made_up_end(1);
    end.exit_code = exit_code;
    sink->end(end);
    return json::parse(read_file(sink->path()));
  };
  for (const int exit_code : {0, 1, 5, 3, 4, 130, 143}) {
    CAPTURE(exit_code);
    const json document = document_of(exit_code);
    const bool is_whole = exit_code == 0 || exit_code == 1 || exit_code == 5;
    CHECK(document.contains("out_of_bounds") == is_whole);
    CHECK(document.contains("average_bus_bandwidth") == is_whole);
    for (const char* key : {"errors", "end_time", "results"}) CHECK(document.contains(key));
    CHECK(document.at("config").at("maximum_bytes") == 1ull << 40);
  }
}

TEST_CASE("NaN and infinity become null, odd strings stay valid") {
  const TemporaryFolder folder;
  RunInfo run = made_up_run();
  run.args = {"all_reduce_perf", "caf\xe9", "tab\there"};
  Row row = made_up_row(8);
  row.out_of_place->busbw_bytes_per_s = std::numeric_limits<double>::quiet_NaN();
  row.in_place->algbw_bytes_per_s = std::numeric_limits<double>::infinity();
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->begin(run);
  sink->rows({row});
  RunEnd end = made_up_end(1);
  end.average_busbw_bytes_per_s.reset();
  sink->end(end);
  const json document = json::parse(read_file(sink->path()));
  CHECK(document.at("args").at(1) == "caf\xef\xbf\xbd");
  CHECK(document.at("results").at(0).at("out_of_place").at("bus_bw").is_null());
  CHECK(document.at("results").at(0).at("in_place").at("alg_bw").is_null());
  CHECK(document.at("average_bus_bandwidth").at("bandwidth").is_null());
}

TEST_CASE("nccl_version is NCCL's number if a library is measured, and null on others") {
  const auto version_of = [](const BackendTraits& backend, const std::string& version) {
    const TemporaryFolder folder;
    RunInfo run = made_up_run();
    run.backend = backend;
    run.backend_version = version;
    const auto sink = NcclTestsJson::open(folder.file("out.json"));
    sink->begin(run);
    return json::parse(read_file(sink->path())).at("nccl_version");
  };
  CHECK(version_of(kHostTraits, "0.1.0").is_null());
  CHECK(version_of(kNcclTraits, "2.28.9") == 22809);
  CHECK(version_of(kNcclTraits, "22809") == 22809);
  CHECK(version_of(kNcclTraits, "unknown").is_null());
}

TEST_CASE("an existing file is not changed: path.0, path.1, ... are written") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.json");
  CHECK(NcclTestsJson::open(path)->path() == path);
  CHECK(NcclTestsJson::open(path)->path() == path + ".0");
  CHECK(NcclTestsJson::open(path)->path() == path + ".1");
  CHECK_THROWS_WITH_AS(NcclTestsJson::open(folder.file("none/out.json")), doctest::Contains("option -J"), UsageError);
}

TEST_CASE("a discarded document leaves no file") {
  const TemporaryFolder folder;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->discard();
  CHECK_FALSE(std::filesystem::exists(sink->path()));
  CHECK_NOTHROW(sink->end(made_up_end(0)));
}

TEST_CASE("a file that cannot grow still holds a complete document with the rows so far") {
  const TemporaryFolder folder;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->begin(made_up_run());
  sink->rows({made_up_row(8)});
  {
    Row too_long = made_up_row(16);
    too_long.redop = std::string(10000, 'x');
    const test::SizeLimit limit(10000);
    CHECK_THROWS_WITH_AS(sink->rows({too_long}), doctest::Contains(sink->path().c_str()), EnvironmentError);
  }
  CHECK(json::parse(read_file(sink->path())).at("results").size() == 1);
}

TEST_CASE("a large document is replaced after every 64th of its size, and is complete at the end") {
  const TemporaryFolder folder;
  const auto sink = NcclTestsJson::open(folder.file("out.json"));
  sink->begin(made_up_run());
  const auto rows_in_file = [&] { return json::parse(read_file(sink->path())).at("results").size(); };
  std::size_t written = 0, replacements = 0;
  for (std::size_t rows = 1; rows <= 1000; ++rows) {
    sink->rows({made_up_row(rows)});
    const std::size_t now = rows % 10 == 0 ? rows_in_file() : written;
    replacements += now != written;
    written = now;
    REQUIRE(written + 9 + rows / 64 >= rows);
  }
  CHECK(replacements > 50);
  sink->end(made_up_end(1000));
  CHECK(rows_in_file() == 1000);
}

TEST_CASE("a program killed at any moment leaves a complete document") {
  for (int round = 0; round < 100; ++round) {
    const TemporaryFolder folder;
    const auto sink = NcclTestsJson::open(folder.file("out.json"));
    sink->begin(made_up_run());
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        for (;;) sink->rows({made_up_row(8)});
      } catch (const Error&) {
        ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(500 + round * 37 % 2500));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(json::accept(read_file(sink->path())));
  }
}
