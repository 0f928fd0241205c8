#pragma once
// Invented runs and rows for the tests of the output, with small round numbers.
#include <string>
#include <utility>
#include <vector>

#include "backends/host/host_traits.hpp"
#include "values/run_result.hpp"

namespace busbw::test {

inline std::vector<RankInfo> made_up_ranks(int processes, int ranks_per_process) {
  std::vector<RankInfo> ranks;
  for (int process = 0; process < processes; ++process) {
    for (int local = 0; local < ranks_per_process; ++local) {
      const int rank = process * ranks_per_process + local;
      ranks.push_back({.rank = rank,
                       .group = 0,
                       .process = process,
                       .pid = 1463 + process,
                       .host = "vm",
                       .device = rank,
                       .bus_id = "cpu",
                       .device_name = "AMD EPYC"});
    }
  }
  return ranks;
}

inline RunInfo made_up_run() {
  RunInfo run;
  run.program = "all_reduce_perf";
  run.collective = "all_reduce";
  run.busbw_version = "0.1.0";
  run.busbw_build = "211e74be2afc5e75e79c8e6a7ee657177993fb4d";
  run.busbw_path = "/usr/local/bin/all_reduce_perf";
  run.backend = kHostTraits;
  run.backend_version = "0.1.0";
  run.run_id = "20261121T081639-vm-1463";
  run.start_time = "2026-11-21 08:16:39";
  run.start_time_iso = "2026-11-21T08:16:39.123+00:00";
  run.args = {"all_reduce_perf", "-t", "4", "-b", "8", "-e", "1M"};
  run.environment = {{"NCCL_TESTS_MIN_BW", "1"}, {"NCCL_DEBUG", "say \"hi\"\\/\t\n"}};
  run.machine = {{"cpu_model", "AMD EPYC"}, {"cpus", "4"}};
  run.settings.threads = 4;
  run.settings.min_bytes = 8;
  run.settings.max_bytes = 1048576;
  run.settings.step_bytes = 1048576;
  run.settings.step_factor = 2;
  run.rows_planned = 18;
  run.bytes_planned = 2097144;
  run.ranks = made_up_ranks(1, 4);
  return run;
}

inline Measurement made_up_measurement(double time_us, double algbw_gbps, double busbw_gbps) {
  Measurement measurement;
  measurement.time_s = time_us * 1e-6;
  measurement.algbw_bytes_per_s = algbw_gbps * 1e9;
  measurement.busbw_bytes_per_s = busbw_gbps * 1e9;
  measurement.check.state = CheckResult::State::checked;
  measurement.check.exactness = "exact";
  return measurement;
}

/// A measurement with samples, statistics and a CPU time, for -I and -C.
inline Measurement made_up_detailed(double time_us) {
  Measurement measurement = made_up_measurement(time_us, 1000 / time_us, 1500 / time_us);
  const double time_s = measurement.time_s;
  measurement.cpu_time_s = time_s / 4;
  measurement.device_time_s = time_s / 2;
  measurement.launch_time_s = time_s / 8;
  measurement.rank_times_s = {time_s * 0.75, time_s * 1.25};
  measurement.rank_device_times_s = {time_s * 0.375, time_s * 0.625};
  measurement.rank_launch_times_s = {time_s / 8, time_s / 8};
  measurement.rank_arrivals_s = {0, time_s * 3};
  measurement.late_ranks = {
      {.kind = LateRank::Kind::late_start, .rank = 1, .host = "b", .late_s = time_s * 3, .message = "rank 1 on b"}};
  measurement.rank_clocks = {
      {.before_hz = 1.98e9, .after_hz = 1.5e9, .max_hz = 2e9, .throttle_reasons = {"power limit"}},
      {.before_hz = 1.98e9, .after_hz = 1.98e9, .max_hz = 2e9, .throttle_reasons = {}}};
  measurement.rank_samples_s = {{time_s * 0.5, time_s, time_s * 1.5}, {time_s * 0.75, time_s, time_s * 1.25}};
  measurement.operation_s = {time_s * 0.75, time_s, time_s * 1.5};
  measurement.statistics = {.samples = 3,
                            .mean_s = time_s,
                            .median_s = time_s,
                            .p95_s = time_s * 1.5,
                            .p99_s = time_s * 1.5,
                            .min_s = time_s * 0.75,
                            .max_s = time_s * 1.5,
                            .stdev_s = time_s * 0.3125,
                            .cv = 0.3125,
                            .median_ci95_s = std::nullopt};
  return measurement;
}

inline Row made_up_row(std::uint64_t bytes) {
  Row row;
  row.group_ranks = 4;
  row.collective = "all_reduce";
  row.requested_bytes = bytes;
  row.size_bytes = bytes;
  row.count = bytes / 4;
  row.dtype = Dtype::float32;
  row.redop = "sum";
  row.out_of_place = made_up_detailed(16);
  row.in_place = made_up_detailed(32);
  row.timestamp = "2026-11-21 08:16:40";
  return row;
}

inline RunEnd made_up_end(std::uint64_t rows) {
  RunEnd end;
  end.reason = "completed";
  end.end_time = "2026-11-21 08:16:41";
  end.end_time_iso = "2026-11-21T08:16:41.456+00:00";
  end.rows = rows;
  end.average_busbw_bytes_per_s = 12.3267e9;
  return end;
}

inline WrongElement made_up_wrong(int rank, std::int64_t index) {
  return {
      .rank = rank, .place = "receive buffer", .index = index, .expected = "3 (0x40400000)", .got = "4 (0x40800000)"};
}

}  // namespace busbw::test
