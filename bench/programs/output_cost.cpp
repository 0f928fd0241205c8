// Measures the cost of output: 1,000 rows with both placements and all samples of 4 ranks, as table and records.
// Prints seconds. Argument: path of the record file to write, which must not exist.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "measure/statistics.hpp"
#include "output/nccl_tests_text.hpp"
#include "output/record_writer.hpp"

namespace {

constexpr int kRows = 1000;
constexpr int kRanks = 4;
constexpr int kIterations = 20;

/// Returns made-up figures that differ between rows.
busbw::Measurement make_measurement(int row) {
  busbw::Measurement measurement;
  for (int i = 0; i < kIterations; ++i) measurement.operation_s.push_back(1e-6 * (row + 1) + 1.234e-9 * i);
  measurement.time_s = measurement.operation_s.front();
  measurement.algbw_bytes_per_s = 1e9;
  measurement.busbw_bytes_per_s = 1.5e9;
  measurement.rank_samples_s.assign(kRanks, measurement.operation_s);
  measurement.statistics = busbw::summarize(measurement.operation_s);
  measurement.check.state = busbw::CheckResult::State::checked;
  measurement.check.exactness = "exact";
  return measurement;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace busbw;
  if (argc != 2) return 2;
  std::vector<CaseRows> cases;
  for (int i = 0; i < kRows; ++i) {
    Row row;
    row.collective = "all_reduce";
    row.group_ranks = kRanks;
    row.size_bytes = row.requested_bytes = 4096ULL * (i + 1);
    row.count = row.size_bytes / 4;
    row.redop = "sum";
    row.out_of_place = make_measurement(i);
    row.in_place = make_measurement(i);
    cases.push_back({row});
  }
  const int null_device = open("/dev/null", O_WRONLY);
  RunInfo info;
  info.ranks.resize(kRanks);
  NcclTestsText text(null_device);
  const auto records = RecordWriter::open(argv[1]);
  const auto start = std::chrono::steady_clock::now();
  text.begin(info);
  records->begin(info);
  for (const CaseRows& rows : cases) {
    text.rows(rows);
    records->rows(rows);
  }
  text.end({});
  records->end({});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{:.6f}\n", elapsed.count());
}
