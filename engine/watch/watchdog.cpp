// Detects that no rank makes progress, and names the ranks that the others wait for in a message.
#include "watch/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace busbw {
namespace {

constexpr std::size_t kMaxListedRanks = 8;
constexpr std::size_t kMaxListedOperations = 4;

/// Names at most kMaxListedRanks of `ranks`, which is not empty.
std::string ranks_text(const Job& job, const std::vector<int>& ranks) {
  std::string text = job.rank_name(ranks.front());
  for (std::size_t i = 1; i < std::min(ranks.size(), kMaxListedRanks); ++i) text += ", " + job.rank_name(ranks[i]);
  if (ranks.size() > kMaxListedRanks) text += fmt::format(" and {} more", ranks.size() - kMaxListedRanks);
  return text;
}

/// Returns the ranks that other ranks may wait for, in ascending order. In a job that continues without its lost ranks,
/// these are the living ranks. In a failed job, they are all ranks: the others may have waited for a lost rank.
std::vector<int> awaited_ranks(const Job& job) {
  std::map<int, Loss> lost_ranks;
  if (!job.failure()) lost_ranks = job.lost_ranks();
  std::vector<int> ranks;
  for (int rank = 0; rank < job.ranks(); ++rank)
    if (rank == 0 || !lost_ranks.contains(rank)) ranks.push_back(rank);  // no job continues without rank 0
  return ranks;
}

}  // namespace

std::string last_operations_text(const Job& job, const std::string& collective) {
  // Ranks by their last operation: its number and bytes, the latest operation first.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<int>, std::greater<>> ranks_by_operation;
  for (const int rank : awaited_ranks(job)) {
    const RankProgress progress = job.progress(rank);
    ranks_by_operation[{progress.operations, progress.operation_bytes}].push_back(rank);
  }
  const auto& [latest_operation, latest_ranks] = *ranks_by_operation.begin();
  if (latest_operation.first == 0) return {};  // no rank has issued an operation
  std::string text;
  std::size_t listed = 0;
  for (const auto& [operation, ranks] : ranks_by_operation) {
    const auto [number, bytes] = operation;
    if (++listed > kMaxListedOperations) break;
    text += text.empty() ? "last issued: " : "; ";
    text += number == 0
                ? "none by " + ranks_text(job, ranks)
                : fmt::format("operation {} ({}, {} bytes) by {}", number, collective, bytes, ranks_text(job, ranks));
  }
  if (ranks_by_operation.size() > kMaxListedOperations)
    text += fmt::format("; {} others by other ranks", ranks_by_operation.size() - kMaxListedOperations);
  return text;
}

std::optional<Stall> Watchdog::check_progress(double now_s, double extra_s) {
  std::vector<std::uint64_t> steps;
  steps.reserve(job_.ranks());
  for (int rank = 0; rank < job_.ranks(); ++rank) steps.push_back(job_.progress(rank).steps);
  if (steps != last_steps_) {
    last_steps_ = std::move(steps);
    last_change_s_ = now_s;
    return std::nullopt;
  }
  if (now_s - last_change_s_ < limit_s_ + extra_s) return std::nullopt;
  return describe_stall();
}

Stall Watchdog::describe_stall() const {
  const std::vector<int> ranks = awaited_ranks(job_);
  // Look for stopped ranks first: the counts of steps do not show a rank that is stopped within an operation, because
  // the ranks that wait in this operation have the same count.
  std::vector<int> stopped_ranks = job_.stopped_ranks();
  const auto is_awaited = [&](int rank) { return std::ranges::binary_search(ranks, rank); };
  std::erase_if(stopped_ranks, [&](int rank) { return !is_awaited(rank); });
  if (!stopped_ranks.empty())
    return {fmt::format("no rank made progress for {:g} s: {} {} stopped or silent in phase {}, the others wait; "
                        "continue the process (kill -CONT), or check its host",
                        limit_s_, ranks_text(job_, stopped_ranks), stopped_ranks.size() == 1 ? "is" : "are",
                        name(job_.progress(stopped_ranks.front()).phase)),
            stopped_ranks};
  const auto steps_of = [&](int rank) { return last_steps_[static_cast<std::size_t>(rank)]; };
  const std::uint64_t min_steps = steps_of(std::ranges::min(ranks, {}, steps_of));
  const std::uint64_t max_steps = steps_of(std::ranges::max(ranks, {}, steps_of));
  std::vector<int> slowest_ranks;
  for (const int rank : ranks)
    if (steps_of(rank) == min_steps) slowest_ranks.push_back(rank);
  const std::string_view phase = name(job_.progress(slowest_ranks.front()).phase);
  if (min_steps == max_steps)
    return {fmt::format("no rank made progress for {:g} s in phase {}, all are at the same step; raise -T if one step "
                        "may take longer",
                        limit_s_, phase),
            {}};
  return {fmt::format("no rank made progress for {:g} s: {} did not get past phase {}, the others wait; check its "
                      "process and host, or raise -T",
                      limit_s_, ranks_text(job_, slowest_ranks), phase),
          slowest_ranks};
}

}  // namespace busbw
