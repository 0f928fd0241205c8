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

busbw::Measurement measurement(int row) {
  busbw::Measurement made;
  for (int i = 0; i < kIterations; ++i) made.iteration_s.push_back(1e-6 * (row + 1) + 1.234e-9 * i);
  made.time_s = made.iteration_s.front();
  made.algbw_bytes_per_s = 1e9;
  made.busbw_bytes_per_s = 1.5e9;
  made.rank_samples_s.assign(kRanks, made.iteration_s);
  made.statistics = busbw::summarize(made.iteration_s);
  made.check.state = busbw::CheckResult::State::checked;
  made.check.policy = "exact";
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace busbw;
  if (argc != 2) return 2;
  std::vector<CaseRows> cases;
  for (int row = 0; row < kRows; ++row) {
    Row made;
    made.collective = "all_reduce";
    made.group_ranks = kRanks;
    made.size_bytes = made.requested_bytes = 4096ULL * (row + 1);
    made.count = made.size_bytes / 4;
    made.redop = "sum";
    made.out_of_place = measurement(row);
    made.in_place = measurement(row);
    cases.push_back({made});
  }
  const int sink = open("/dev/null", O_WRONLY);
  RunInfo info;
  info.ranks.resize(kRanks);
  NcclTestsText text(sink);
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
