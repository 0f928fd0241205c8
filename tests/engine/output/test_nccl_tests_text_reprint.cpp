// Parses tables that nccl-tests 2.19.6 itself printed (4 x NVIDIA H200, NCCL 2.28.9) and prints them again. Every byte
// must be equal, except in the first line, which names the program.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "backends/nccl/nccl_backend.hpp"
#include "captured_text.hpp"
#include "golden.hpp"
#include "output/nccl_tests_text.hpp"

using namespace busbw;

namespace {

using Lines = std::vector<std::string>;

struct Table {
  RunInfo run;
  std::vector<Row> rows;
  RunEnd end;
  std::string text;  // as in the file, without its first line
};

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void read_settings(const std::string& line, RunSettings& settings) {
  unsigned long step = 0;
  char unit[8] = "";
  CHECK(std::sscanf(line.c_str(),
                    "# nThread %d nGpus %d minBytes %lu maxBytes %lu step: %lu(%7[a-z]) warmup iters: %d iters: %d "
                    "agg iters: %d validation: %d graph: %d unalign: %d",
                    &settings.threads, &settings.gpus_per_thread, &settings.min_bytes, &settings.max_bytes, &step, unit,
                    &settings.warmup_iterations, &settings.iterations, &settings.aggregated_iterations,
                    &settings.check_iterations, &settings.graph_launches, &settings.unalign_elements) == 12);
  (std::string(unit) == "factor" ? settings.step_factor : settings.step_bytes) = step;
}

void read_device(const std::string& line, RunInfo& run) {
  RankInfo rank;
  char host[64] = "", bus_id[64] = "", device_name[64] = "";
  CHECK(std::sscanf(line.c_str(), "#  Rank %d Group %d Pid %ld on %63s device %d [%63[^]]] %63[^\n]", &rank.rank,
                    &rank.group, &rank.pid, host, &rank.device, bus_id, device_name) == 7);
  rank.process = rank.rank / (run.settings.threads * run.settings.gpus_per_thread);
  rank.host = host;
  rank.bus_id = bus_id;
  rank.device_name = device_name;
  run.ranks.push_back(rank);
}

Measurement read_placement(std::istringstream& words, bool per_iteration) {
  Measurement measurement;
  std::string time, algbw, busbw, wrong;
  words >> time >> algbw >> busbw >> wrong;
  measurement.time_s = std::stod(time) / 1e6;
  measurement.algbw_bytes_per_s = std::stod(algbw) * 1e9;
  measurement.busbw_bytes_per_s = std::stod(busbw) * 1e9;
  if (wrong != "N/A") {
    measurement.check.state = CheckResult::State::checked;
    measurement.check.wrong_elements = std::stoull(wrong);
  }
  if (per_iteration) {
    double min_us = 0, max_us = 0, p99_us = 0, cv_percent = 0;
    words >> min_us >> max_us >> p99_us >> cv_percent;
    measurement.statistics.samples = 20;
    measurement.statistics.min_s = min_us / 1e6;
    measurement.statistics.max_s = max_us / 1e6;
    measurement.statistics.p99_s = p99_us / 1e6;
    measurement.statistics.cv = cv_percent / 100;
  }
  return measurement;
}

Row read_row(const std::string& line, bool per_iteration) {
  std::istringstream words(line);
  std::string dtype;
  Row row;
  words >> row.size_bytes >> row.count >> dtype;
  row.dtype = dtype_of(dtype).value();
  // hypercube leaves the operator column blank
  if (line.substr(38, 6) != "      ") words >> row.redop;
  words >> row.root;
  row.out_of_place = read_placement(words, per_iteration);
  row.in_place = read_placement(words, per_iteration);
  return row;
}

/// All complete tables of a log. Lines between them are skipped.
std::vector<Table> tables_of(const std::string& log) {
  std::vector<Table> tables;
  bool inside = false;
  for (const std::string& line : lines_of(log)) {
    if (line.starts_with("# nccl-tests version")) {
      inside = true;
      tables.emplace_back().run.backend = kNcclTraits;
      continue;
    }
    if (!inside) continue;
    Table& table = tables.back();
    table.text += line + "\n";
    if (line.starts_with("# Collective test starting: ")) table.run.program = line.substr(28);
    if (line.starts_with("# nThread")) read_settings(line, table.run.settings);
    if (line.starts_with("# Per-Iteration")) table.run.settings.per_iteration = true;
    if (line.starts_with("#  Rank")) read_device(line, table.run);
    if (line.starts_with(" ")) table.rows.push_back(read_row(line, table.run.settings.per_iteration));
    if (line.starts_with("# Avg bus bandwidth")) table.end.average_busbw_bytes_per_s = std::stod(line.substr(25)) * 1e9;
    if (line.empty()) inside = false;
  }
  return tables;
}

void check_reprint(const std::string& golden, std::size_t tables_expected, std::size_t rows_expected) {
  std::vector<Table> tables = tables_of(test::read_file(test::golden_path(golden)));
  CHECK(tables.size() == tables_expected);
  std::size_t rows = 0;
  for (Table& table : tables) {
    test::CapturedText captured;
    captured.sink().begin(table.run);
    for (const Row& row : table.rows) captured.sink().rows({row});
    table.end.rows = table.rows.size();
    captured.sink().end(table.end);
    const std::string text = captured.text();
    CHECK(text.substr(text.find('\n') + 1) == table.text);
    rows += table.rows.size();
  }
  CHECK(rows == rows_expected);
}

}  // namespace

TEST_CASE("a table of one GPU, with bandwidths from 0 to 5e+06 GB/s") {
  check_reprint("nccl_tests_2_19_6_single.txt", 1, 29);
}

TEST_CASE("a table with per-iteration columns") { check_reprint("nccl_tests_2_19_6_iter.txt", 1, 6); }

TEST_CASE("tables of ten collectives, unchecked, with roots and without operators") {
  check_reprint("nccl_tests_2_19_6_ten.txt", 10, 80);
}

TEST_CASE("tables of several processes") { check_reprint("nccl_tests_2_19_6_nccl.txt", 2, 42); }
