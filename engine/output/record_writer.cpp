// Writes the fields of each record line. Their names are here; those that -J shares are in measurement_json.cpp.
#include "output/record_writer.hpp"

#include <array>
#include <utility>

#include "output/measurement_json.hpp"
#include "output/run_outcome.hpp"
#include "output/units.hpp"

namespace busbw {
namespace {

constexpr double kMhzPerHz = 1e-6;

// The texts are in the order of the enumerators.
std::string_view stop_reason_text(StopReason reason) {
  constexpr std::array<std::string_view, 4> texts{"iterations", "target_ci", "max_time", "sample_limit"};
  return texts[static_cast<std::size_t>(reason)];
}

std::string_view sample_clock_text(SampleClock clock) {
  constexpr std::array<std::string_view, 3> texts{"host", "device_events", "gated_device_events"};
  return texts.at(static_cast<std::size_t>(clock));  // the value may come from another process
}

std::string_view check_state_text(CheckResult::State state) {
  constexpr std::array<std::string_view, 3> texts{"not_checked", "not_applicable", "checked"};
  return texts[static_cast<std::size_t>(state)];
}

std::optional<std::string_view> text_or_null(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return text;
}

void write_settings(JsonBuilder& line, const RunSettings& settings) {
  const bool has_size_list = !settings.sizes_bytes.empty();
  const bool has_step_bytes = !has_size_list && settings.step_factor <= 1;
  const bool has_step_factor = !has_size_list && settings.step_factor > 1;
  line.object("settings", [&] {
    line.field("threads", settings.threads);
    line.field("gpus_per_thread", settings.gpus_per_thread);
    line.field("processes", settings.processes);
    line.field("min_bytes", settings.min_bytes);
    line.field("max_bytes", settings.max_bytes);
    line.field("step_bytes", has_step_bytes ? std::optional(settings.step_bytes) : std::nullopt);
    line.field("step_factor", has_step_factor ? std::optional(settings.step_factor) : std::nullopt);
    if (has_size_list) {
      line.values("sizes_bytes", settings.sizes_bytes);
    } else {
      line.field("sizes_bytes", nullptr);
    }
    line.field("warmup_iterations", settings.warmup_iterations);
    line.field("iterations", settings.iterations);
    line.field("aggregated_iterations", settings.aggregated_iterations);
    line.field("run_cycles", settings.run_cycles);
    line.field("check_iterations", settings.check_iterations);
    line.field("graph_launches", settings.graph_launches);
    line.field("unalign_elements", settings.unalign_elements);
    line.field("blocking", settings.blocking);
    line.field("average", settings.average);
    line.field("per_iteration", settings.per_iteration);
    line.field("per_iteration_skip", settings.per_iteration_skip);
    line.field("parallel_init", settings.parallel_init);
    line.field("report_cputime", settings.report_cputime);
    line.field("report_timestamps", settings.report_timestamps);
    line.field("report_times", settings.report_times);
    line.field("placement", settings.placement);
    line.field("target_ci_percent", scaled(settings.target_ci, 100));
    line.field("max_time_s", settings.max_time_s);
    line.field("timeout_s", settings.timeout_s);
    line.field("local_register", settings.local_register);
    line.field("cta_policy", settings.cta_policy);
    line.field("device_implementation", settings.device_implementation);
    line.field("device_cta_count", settings.device_cta_count);
    line.field("report_memory", settings.report_memory);
    line.field("one_sided", settings.rma_contexts > 0);
    line.field("rma_contexts", settings.rma_contexts > 0 ? std::optional(settings.rma_contexts) : std::nullopt);
    line.field("skew", text_or_null(settings.skew));
    line.field("neighbor", text_or_null(settings.neighbor));
    const auto& lifecycle = settings.lifecycle;
    line.field("share", lifecycle ? std::optional(lifecycle->share) : std::nullopt);
    line.field("abort", lifecycle ? std::optional(lifecycle->abort) : std::nullopt);
    line.field("root_every", lifecycle ? std::optional(lifecycle->root_every) : std::nullopt);
    line.field("work_iterations", lifecycle ? std::optional(lifecycle->work_iterations) : std::nullopt);
    line.field("resize", lifecycle ? std::optional(lifecycle->resize) : std::nullopt);
  });
}

void write_library(JsonBuilder& line, const std::optional<LibraryInfo>& library) {
  line.object_or_null("library", library, [&](const auto& content) {
    line.field("version", content.version);
    line.field("path", content.path);
    line.field("sha256", content.sha256);
  });
}

void write_ranks(JsonBuilder& line, const std::vector<RankInfo>& ranks) {
  line.objects("ranks", ranks, [&line](const RankInfo& rank) {
    line.field("rank", rank.rank);
    line.field("group", rank.group);
    line.field("process", rank.process);
    line.field("pid", rank.pid);
    line.field("host", rank.host);
    line.field("device", rank.device);
    line.field("bus_id", rank.bus_id);
    line.field("device_name", rank.device_name);
    write_library(line, rank.library);
    line.field("most_clock_mhz", scaled(rank.max_clock_hz, kMhzPerHz));
  });
}

void write_times(JsonBuilder& line, std::string_view key, const std::vector<double>& times_s) {
  line.values(key, times_s, [&line](double time_s) { line.value(time_s * kUsPerS); });
}

void write_statistics(JsonBuilder& line, const Statistics& statistics) {
  line.key("stats");
  if (statistics.samples == 0) return line.value(nullptr);
  line.open_object();
  line.field("samples", statistics.samples);
  line.field("mean_us", statistics.mean_s * kUsPerS);
  line.field("median_us", statistics.median_s * kUsPerS);
  line.field("p95_us", statistics.p95_s * kUsPerS);
  line.field("p99_us", statistics.p99_s * kUsPerS);
  line.field("min_us", statistics.min_s * kUsPerS);
  line.field("max_us", statistics.max_s * kUsPerS);
  line.field("stdev_us", statistics.stdev_s * kUsPerS);
  line.field("cv_percent", statistics.cv * 100);
  if (const auto& interval_s = statistics.median_ci95_s) {
    write_times(line, "median_ci95_us", {interval_s->first, interval_s->second});
  } else {
    line.field("median_ci95_us", nullptr);
  }
  line.close_object();
}

void write_check(JsonBuilder& line, const CheckResult& check) {
  const bool checked = check.state == CheckResult::State::checked;
  line.object("check", [&] {
    line.field("state", check_state_text(check.state));
    line.field("wrong_elements", checked ? std::optional(check.wrong_elements) : std::nullopt);
    line.field("wrong_ranks", checked ? std::optional(check.wrong_ranks) : std::nullopt);
    line.field("policy", checked ? text_or_null(check.exactness) : std::nullopt);
    line.objects("first_wrong", check.first_wrong, [&line](const WrongElement& wrong) {
      line.field("rank", wrong.rank);
      line.field("place", wrong.place);
      line.field("index", wrong.index);
      line.field("expected", wrong.expected);
      line.field("got", wrong.got);
    });
  });
}

void write_clocks(JsonBuilder& line, const std::vector<DeviceClock>& clocks) {
  line.objects("rank_clocks", clocks, [&line](const DeviceClock& clock) {
    line.field("before_mhz", scaled(clock.before_hz, kMhzPerHz));
    line.field("after_mhz", scaled(clock.after_hz, kMhzPerHz));
    line.field("most_mhz", scaled(clock.max_hz, kMhzPerHz));
    line.values("slowed_by", clock.throttle_reasons);
  });
}

/// Writes the algorithm of a measurement; null if it is unknown, or if it differs between ranks or operations.
void write_algorithm(JsonBuilder& line, const std::vector<AlgorithmChoice>& algorithms) {
  const AlgorithmChoice choice = common_choice(algorithms);
  line.field("algorithm", text_or_null(choice.algorithm));
  line.field("protocol", text_or_null(choice.protocol));
  line.field("channels", choice.channels == 0 ? std::nullopt : std::optional(choice.channels));
}

std::string_view late_kind_text(LateRank::Kind kind) {
  switch (kind) {
    case LateRank::Kind::late_start: return "late_start";
    case LateRank::Kind::slow_launch: return "slow_launch";
    case LateRank::Kind::late_first: return "late_first";
    case LateRank::Kind::slow_call: return "slow_call";
  }
  return "";
}

void write_late_ranks(JsonBuilder& line, const std::vector<LateRank>& late_ranks) {
  line.objects("late_ranks", late_ranks, [&line](const LateRank& late) {
    line.field("kind", late_kind_text(late.kind));
    line.field("rank", late.rank);
    line.field("host", late.host);
    line.field("late_us", late.late_s * kUsPerS);
    line.field("message", late.message);
  });
}

void write_memory(JsonBuilder& line, const std::vector<MemoryUse>& ranks) {
  if (ranks.empty()) return line.field("memory", nullptr);
  int rank = 0;
  line.objects("memory", ranks, [&](const MemoryUse& use) {
    line.field("rank", rank++);
    line.field("context_bytes", use.context_bytes);
    line.field("library_bytes", use.library_bytes);
    line.field("buffer_bytes", use.buffer_bytes);
    line.field("collective_bytes", use.collective_bytes);
  });
}

/// Writes the call of comm_ops; null in rows of a collective.
void write_lifecycle(JsonBuilder& line, const std::optional<LifecycleRow>& lifecycle) {
  line.object_or_null("lifecycle", lifecycle, [&](const auto& content) {
    line.field("test", content.test);
    line.field("call", content.call);
    line.field("function", text_or_null(content.function));
    line.field("test_ranks", content.test_ranks);
  });
}

}  // namespace

std::unique_ptr<RecordWriter> RecordWriter::open(const std::string& path) {
  return std::make_unique<RecordWriter>(NewFile::create(path, "--records"));
}

void RecordWriter::begin(const RunInfo& run) {
  begun_ = true;
  start_line("run");
  line_.field("schema_version", kSchemaVersion);
  line_.field("busbw_version", run.busbw_version);
  line_.field("busbw_build", run.busbw_build);
  line_.field("busbw_path", run.busbw_path);
  line_.field("backend", run.backend.name);
  line_.field("backend_version", run.backend_version);
  line_.field("run_id", run.run_id);
  line_.field("program", run.program);
  line_.field("collective", run.collective);
  line_.values("args", run.args);
  line_.field("start_time", run.start_time_iso);
  line_.text_object("environment", run.environment);
  line_.text_object("machine", run.machine);
  write_settings(line_, run.settings);
  line_.field("rows_planned", run.rows_planned);
  line_.field("bytes_planned", run.bytes_planned);
  write_ranks(line_, run.ranks);
  line_.values("notes", run.notes);
  finish_line();
  for (const std::string& warning : run.warnings) {
    start_line("warning");
    line_.field("message", warning);
    finish_line();
  }
}

void RecordWriter::rows(const CaseRows& rows) {
  if (!begun_) return;
  for (const Row& row : rows) {
    if (row.out_of_place) write_row(row, Placement::out_of_place, *row.out_of_place);
    if (row.in_place) write_row(row, Placement::in_place, *row.in_place);
  }
}

void RecordWriter::end(const RunEnd& end) {
  if (!begun_) return;
  start_line("end");
  line_.field("reason", end.reason);
  line_.field("exit_code", end.exit_code);
  line_.field("message", text_or_null(end.message));
  line_.values("details", end.details);
  line_.field("rows", end.rows);
  line_.field("out_of_bounds", end.wrong_result_count);
  line_.field("average_busbw_gbps", scaled(end.average_busbw_bytes_per_s, 1 / kBytesPerGb));
  line_.field("demanded_busbw_gbps", scaled(end.min_busbw_bytes_per_s, 1 / kBytesPerGb));
  line_.field("end_time", end.end_time_iso);
  write_memory(line_, end.memory);
  finish_line();
}

void RecordWriter::write_row(const Row& row, Placement placement, const Measurement& measurement) {
  start_line("row");
  line_.field("collective", row.collective);
  line_.field("requested_bytes", row.requested_bytes);
  line_.field("size_bytes", row.size_bytes);
  line_.field("count", row.count);
  line_.field("dtype", row.dtype_name());
  line_.field("redop", has_redop(row) ? std::optional(row.redop) : std::nullopt);
  line_.field("root", row.root < 0 ? std::nullopt : std::optional(row.root));
  line_.field("placement", name(placement));
  line_.field("group", row.group);
  line_.field("ranks", row.group_ranks);
  line_.field("cycle", row.cycle);
  line_.field("time_us", measurement.time_s * kUsPerS);
  line_.field("device_time_us", scaled(measurement.device_time_s, kUsPerS));
  line_.field("launch_time_us", scaled(measurement.launch_time_s, kUsPerS));
  line_.field("cpu_time_us", scaled(measurement.cpu_time_s, kUsPerS));
  line_.field("algbw_gbps", scaled(measurement.algbw_bytes_per_s, 1 / kBytesPerGb));
  line_.field("busbw_gbps", scaled(measurement.busbw_bytes_per_s, 1 / kBytesPerGb));
  write_statistics(line_, measurement.statistics);
  line_.field("stopped_by", stop_reason_text(measurement.stopped_by));
  write_check(line_, measurement.check);
  write_times(line_, "rank_times_us", measurement.rank_times_s);
  write_times(line_, "rank_device_times_us", measurement.rank_device_times_s);
  write_times(line_, "rank_launch_times_us", measurement.rank_launch_times_s);
  write_times(line_, "rank_arrivals_us", measurement.rank_arrivals_s);
  write_late_ranks(line_, measurement.late_ranks);
  write_clocks(line_, measurement.rank_clocks);
  line_.field("sample_clock", sample_clock_text(measurement.sample_clock));
  write_samples(line_, measurement.rank_samples_s);
  write_algorithm(line_, measurement.algorithms);
  write_skew(line_, measurement.skew);
  write_together(line_, measurement.together);
  write_lifecycle(line_, row.lifecycle);
  line_.values("warnings", measurement.warnings);
  line_.field("timestamp", row.timestamp);
  finish_line();
}

void RecordWriter::start_line(std::string_view kind) {
  line_.clear();
  line_.open_object();
  line_.field("kind", kind);
}

void RecordWriter::finish_line() {
  line_.close_object();
  line_.end_line();
  if (file_) file_->append(line_.text());
  if (stream_) stream_->write(line_.text());
}

}  // namespace busbw
