// Totals, end record and exit code of a run.
#include "run/reporter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/stderr_message.hpp"
#include "measure/clock.hpp"
#include "output/run_outcome.hpp"

namespace busbw {
namespace {

const char* reason_text(ExitCode exit) {
  switch (exit) {
    case ExitCode::good: return "completed";
    case ExitCode::wrong_data: return "wrong data";
    case ExitCode::usage: return "usage";
    case ExitCode::environment: return "environment";
    case ExitCode::rank_lost: return "rank lost or timed out";
    case ExitCode::slower_than_demanded: return "slower than demanded";
    case ExitCode::interrupted: return "interrupted";
    case ExitCode::output_closed: return "the reader of the output went away";
    case ExitCode::terminated: return "terminated";
  }
  return "unknown";
}

/// Returns a note for each distinct library of the ranks. Paths may differ between hosts.
std::vector<std::string> library_notes(const std::vector<RankInfo>& ranks) {
  std::vector<std::string> notes;
  for (const RankInfo& rank : ranks) {
    if (!rank.library) continue;
    std::string note = fmt::format("Library: version {}, {}, SHA-256 {}", rank.library->version, rank.library->path,
                                   rank.library->sha256.value_or("N/A"));
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace

void Reporter::begin(const std::vector<RankInfo>& ranks,
                     const std::vector<std::pair<std::string, std::string>>& facts) {
  info_.ranks = ranks;
  info_.machine.insert(info_.machine.end(), facts.begin(), facts.end());
  for (const std::string& note : library_notes(ranks)) info_.notes.push_back(note);
  for (const auto& sink : sinks_) sink->begin(info_);
}

void Reporter::report_rows(const CaseRows& rows) {
  for (const Row& row : rows) {
    ++row_count_;
    if (row.out_of_place) add_to_totals(*row.out_of_place);
    if (row.in_place) add_to_totals(*row.in_place);
  }
  for (const auto& sink : sinks_) sink->rows(rows);
}

void Reporter::add_to_totals(const Measurement& measurement) {
  wrong_result_count_ += measurement.check.wrong_ranks;
  wrong_element_count_ += measurement.check.wrong_elements;
  if (!measurement.busbw_bytes_per_s) return;
  busbw_sum_bytes_per_s_ += *measurement.busbw_bytes_per_s;
  ++measurements_with_busbw_;
}

RunEnd Reporter::make_run_end(const std::optional<Failure>& failure) const {
  RunEnd end;
  const WallTime now = wall_time();
  end.end_time = now.local;
  end.end_time_iso = now.iso;
  end.rows = row_count_;
  end.wrong_result_count = wrong_result_count_;
  end.wrong_elements = wrong_element_count_;
  if (measurements_with_busbw_ > 0)
    end.average_busbw_bytes_per_s = busbw_sum_bytes_per_s_ / static_cast<double>(measurements_with_busbw_);
  end.min_busbw_bytes_per_s = min_busbw_bytes_per_s_;
  end.memory = memory_;
  ExitCode exit = ExitCode::good;
  if (failure) {
    exit = failure->exit;
    end.message = failure->message;
    end.details = failure->details;
    end.timed_out = failure->timed_out;
  } else if (has_wrong_data(end)) {
    exit = ExitCode::wrong_data;
    end.message = "wrong data: the '#' lines under the rows name the first wrong elements";
  } else if (!meets_min_busbw(end)) {
    exit = ExitCode::slower_than_demanded;
    end.message = fmt::format("the average busbw is {:.2f} GB/s, below 0.9 x NCCL_TESTS_MIN_BW={:g}",
                              end.average_busbw_bytes_per_s.value_or(0) / 1e9, *min_busbw_bytes_per_s_ / 1e9);
  }
  end.exit_code = static_cast<int>(exit);
  end.reason = reason_text(exit);
  return end;
}

int Reporter::finish(const std::optional<Failure>& failure) {
  RunEnd end = make_run_end(failure);
  int exit_code = end.exit_code;
  // A sink that cannot write must not prevent the others from ending a complete run.
  const auto record_sink_failure = [&](ExitCode exit, const char* message) {
    if (exit_code == 0) exit_code = static_cast<int>(exit);
    end.output_failed = true;
    const bool already_reported = failure && failure->message == message;
    if (exit != ExitCode::output_closed && !already_reported) print_stderr(info_.program, message);
  };
  for (const auto& sink : sinks_) {
    try {
      sink->end(end);
    } catch (const Error& error) {
      record_sink_failure(error.exit(), error.what());
    } catch (const std::exception& error) {
      record_sink_failure(ExitCode::environment, error.what());
    }
  }
  if (!failure && !end.message.empty()) print_stderr(info_.program, end.message);
  return exit_code;
}

}  // namespace busbw
