// Writes the members of nccl-tests' JSON document, and replaces the file on disk.
#include "output/nccl_tests_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "common/support/error.hpp"
#include "output/measurement_json.hpp"
#include "output/run_outcome.hpp"
#include "output/units.hpp"

namespace busbw {
namespace {

constexpr int kFormatVersion = 3;
/// Below this size, that of about 500 rows, the file is replaced after every row.
constexpr std::size_t kSmallBytes = 256 * 1024;
/// A larger file is replaced when the document has grown by the file's size divided by this number.
constexpr std::size_t kGrowthDivisor = 64;
constexpr int kDecimals = 6;  // nccl-tests prints doubles with %lf

/// Returns the library version as nccl-tests' number: 22809 for 2.28.9. Nothing if no library is measured.
std::optional<int> nccl_version(const RunInfo& run) {
  if (!run.backend.uses_nccl_library) return std::nullopt;
  std::vector<int> parts;
  const char* cursor = run.backend_version.data();
  const char* const end = cursor + run.backend_version.size();
  while (cursor < end) {
    int part = 0;
    const auto [next, error] = std::from_chars(cursor, end, part);
    if (error != std::errc()) break;
    parts.push_back(part);
    const bool has_next_part = next < end && *next == '.';
    if (!has_next_part) break;
    cursor = next + 1;
  }
  if (parts.size() == 1) return parts[0];  // already NCCL's number, as ncclGetVersion returns it
  if (parts.size() == 3) return parts[0] * 10000 + parts[1] * 100 + parts[2];
  return std::nullopt;
}

/// Returns a boolean as nccl-tests writes it: as a string.
const char* boolean_text(bool value) { return value ? "true" : "false"; }

/// Writes the first rank of each process, because nccl-tests names one device per process.
void write_devices(JsonBuilder& json, const std::vector<RankInfo>& ranks) {
  std::set<int> listed_processes;
  json.values("devices", ranks, [&](const RankInfo& rank) {
    if (!listed_processes.insert(rank.process).second) return;
    json.open_object();
    json.field("rank", rank.rank);
    json.field("group", rank.group);
    json.field("pid", rank.pid);
    json.field("hostname", rank.host);
    json.field("device", rank.device);
    json.field("device_hex", rank.bus_id);
    json.field("device_info", rank.device_name);
    json.close_object();
  });
}

void write_config(JsonBuilder& json, const RunInfo& run) {
  const RunSettings& settings = run.settings;
  json.object("config", [&] {
    json.field("nthreads", settings.threads);
    json.field("ngpus", settings.gpus_per_thread);
    json.field("minimum_bytes", settings.min_bytes);
    json.field("maximum_bytes", run.requested_max_bytes.value_or(settings.max_bytes));
    if (!settings.sizes_bytes.empty()) {
      json.values("sizes_bytes", settings.sizes_bytes);
    } else if (settings.step_factor > 1) {
      json.field("step_factor", settings.step_factor);
    } else {
      json.field("step_bytes", settings.step_bytes);
    }
    json.field("warmup_iters", settings.warmup_iterations);
    json.field("iterations", settings.iterations);
    json.field("aggregated_iterations", settings.aggregated_iterations);
    json.field("validation", settings.check_iterations);
    json.field("graph", settings.graph_launches);
    json.field("blocking_collectives", boolean_text(settings.blocking != 0));
    json.field("per_iter_timing", boolean_text(settings.per_iteration));
    json.field("per_iter_skip", settings.per_iteration_skip);
    json.field("parallel_init", boolean_text(settings.parallel_init));
    write_devices(json, run.ranks);
  });
}

void write_per_iteration(JsonBuilder& json, const Measurement& measurement) {
  const Statistics& statistics = measurement.statistics;
  const auto write_time = [&json](double time_s) { json.fixed(time_s * kUsPerS, kDecimals); };
  json.open_object();
  // Of the times below, the first ones that the statistics skip. With graphs, -K also counts the first iteration, which
  // has no time.
  json.field("skipped_iterations", measurement.operation_s.size() - statistics.samples);
  json.fixed_field("min_us", statistics.min_s * kUsPerS, kDecimals);
  json.fixed_field("max_us", statistics.max_s * kUsPerS, kDecimals);
  json.fixed_field("avg_us", statistics.mean_s * kUsPerS, kDecimals);
  json.fixed_field("p50_us", statistics.median_s * kUsPerS, kDecimals);
  json.fixed_field("p95_us", statistics.p95_s * kUsPerS, kDecimals);
  json.fixed_field("p99_us", statistics.p99_s * kUsPerS, kDecimals);
  json.fixed_field("stdev_us", statistics.stdev_s * kUsPerS, kDecimals);
  json.fixed_field("cv_pct", statistics.cv * 100, kDecimals);
  json.values("times_us", measurement.operation_s, write_time);
  if (measurement.process_max_s.size() > 1)
    json.values("per_process_max_times_us", measurement.process_max_s,
                [&](const std::vector<double>& times_s) { json.array(times_s, write_time); });
  json.close_object();
}

/// Writes the totals of a complete run, as nccl-tests does.
void write_totals(JsonBuilder& json, const RunEnd& end) {
  json.object("out_of_bounds", [&] {
    json.field("count", end.wrong_result_count);
    json.field("okay", boolean_text(!has_wrong_data(end)));
  });
  json.object("average_bus_bandwidth", [&] {
    json.fixed_field("bandwidth", scaled(end.average_busbw_bytes_per_s, 1 / kBytesPerGb), kDecimals);
    json.field("okay", end.min_busbw_bytes_per_s ? boolean_text(meets_min_busbw(end)) : "unchecked");
  });
}

void write_summary(JsonBuilder& json, const RunEnd& end) {
  if (!ended_early(end)) write_totals(json, end);
  json.values("errors", end.message.empty() ? std::vector<std::string>{} : std::vector{end.message});
}

/// Returns the number of measured iterations. A stopping rule can end the two placements at different numbers; then
/// returns the larger one.
std::size_t count_iterations(const Row& row, const RunSettings& settings) {
  std::size_t max_iterations = 0;
  if (row.out_of_place) max_iterations = std::max(max_iterations, row.out_of_place->operation_s.size());
  if (row.in_place) max_iterations = std::max(max_iterations, row.in_place->operation_s.size());
  return max_iterations > 0 ? max_iterations : static_cast<std::size_t>(settings.iterations);
}

}  // namespace

// While the ranks start, the document contains only the format's version.
NcclTestsJson::NcclTestsJson(NewFile file) : file_(std::move(file)) {
  json_.open_object();
  json_.field("version", kFormatVersion);
  try {
    file_.append(json_.text() + "}");
  } catch (const Error&) {
    file_.discard();
    throw;
  }
}

std::unique_ptr<NcclTestsJson> NcclTestsJson::open(const std::string& path) {
  return std::make_unique<NcclTestsJson>(NewFile::create_numbered(path, "-J"));
}

void NcclTestsJson::begin(const RunInfo& run) {
  begun_ = true;
  warnings_ = run.warnings;
  busbw_version_ = run.busbw_version;
  backend_ = run.backend.name;
  settings_ = run.settings;
  json_.field("start_time", run.start_time);
  json_.values("args", run.args);
  json_.values("env", run.environment, [this](const auto& entry) { json_.value(entry.first + "=" + entry.second); });
  json_.field("nccl_version", nccl_version(run));
  write_config(json_, run);
  json_.key("results");
  json_.open_array();
  replace_file(nullptr);
}

void NcclTestsJson::rows(const CaseRows& rows) {
  if (!begun_) return;
  for (const Row& row : rows) write_result(row, rows.size() > 1);
  if (json_.text().size() >= next_size_) replace_file(nullptr);
}

void NcclTestsJson::end(const RunEnd& end) {
  if (begun_) replace_file(&end);
}

void NcclTestsJson::write_result(const Row& row, bool has_several_groups) {
  json_.open_object();
  json_.field("size", row.size_bytes);
  json_.field("count", row.count);
  json_.field("type", row.dtype_name());
  json_.field("redop", row.redop);
  // nccl-tests writes the root as a string, padded to six characters.
  json_.field("root", fmt::format("{:6}", row.root));
  write_placement(Placement::out_of_place, row.out_of_place);
  write_placement(Placement::in_place, row.in_place);
  json_.field("actual_iterations", count_iterations(row, settings_));
  json_.field("experiment_name", "");
  if (has_several_groups) json_.field("group", row.group);
  json_.close_object();
}

void NcclTestsJson::write_placement(Placement placement, const std::optional<Measurement>& measurement) {
  const std::string key(name(placement));
  if (!measurement) return json_.field(key, nullptr);
  json_.object(key, [&] {
    if (settings_.report_cputime) {
      json_.fixed_field("cpu_time", scaled(measurement->cpu_time_s, kUsPerS), kDecimals);
    } else {
      json_.fixed_field("time", measurement->time_s * kUsPerS, kDecimals);
    }
    const CheckResult& check = measurement->check;
    const bool is_checked = check.state == CheckResult::State::checked;
    json_.fixed_field("alg_bw", scaled(measurement->algbw_bytes_per_s, 1 / kBytesPerGb), kDecimals);
    json_.fixed_field("bus_bw", scaled(measurement->busbw_bytes_per_s, 1 / kBytesPerGb), kDecimals);
    json_.fixed_field("nwrong", is_checked ? std::optional<double>(check.wrong_elements) : std::nullopt, kDecimals);
    if (measurement->skew) write_skew(json_, measurement->skew);
    if (measurement->together) write_together(json_, measurement->together);
  });
  if (settings_.per_iteration && measurement->statistics.samples > 0) {
    json_.key(key + "_per_iter");
    write_per_iteration(json_, *measurement);
  }
}

/// Replaces the file by all results so far. `end` is null while the run continues: the summary is then missing, as
/// after a killed nccl-tests run.
void NcclTestsJson::replace_file(const RunEnd* end) {
  const std::size_t size = json_.text().size();
  next_size_ = size < kSmallBytes ? 0 : size + size / kGrowthDivisor;
  JsonBuilder json = json_;
  json.close_array();
  if (end != nullptr) {
    write_summary(json, *end);
    json.field("end_time", end->end_time);
  }
  json.object("busbw", [&] {
    json.field("version", busbw_version_);
    json.field("backend", backend_);
    json.values("warnings", warnings_);
    json.field("end_reason", end != nullptr ? std::optional(end->reason) : std::nullopt);
  });
  json.close_object();
  file_.replace_content(json.text());
}

}  // namespace busbw
