#include "watch/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace busbw {
namespace {

constexpr std::size_t kNamedRanks = 8;
constexpr std::size_t kNamedOperations = 4;

std::string names_of(const Job& job, const std::vector<int>& ranks) {
  std::string text = job.rank_name(ranks.front());
  for (std::size_t i = 1; i < std::min(ranks.size(), kNamedRanks); ++i) text += ", " + job.rank_name(ranks[i]);
  if (ranks.size() > kNamedRanks) text += fmt::format(" and {} more", ranks.size() - kNamedRanks);
  return text;
}

}  // namespace

std::string last_operations(const Job& job, const std::string& collective) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<int>, std::greater<>> by_operation;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    const RankProgress progress = job.progress(rank);
    by_operation[{progress.operations, progress.operation_bytes}].push_back(rank);
  }
  if (by_operation.begin()->first.first == 0) return {};
  std::string text;
  std::size_t named = 0;
  for (const auto& [operation, ranks] : by_operation) {
    if (++named > kNamedOperations) break;
    text += text.empty() ? "last issued: " : "; ";
    text += operation.first == 0 ? "none by " + names_of(job, ranks)
                                 : fmt::format("operation {} ({}, {} bytes) by {}", operation.first, collective,
                                               operation.second, names_of(job, ranks));
  }
  if (by_operation.size() > kNamedOperations)
    text += fmt::format("; {} others by other ranks", by_operation.size() - kNamedOperations);
  return text;
}

std::optional<std::string> Watchdog::check_progress(double now_s) {
  std::vector<std::uint64_t> steps;
  steps.reserve(job_.ranks());
  for (int rank = 0; rank < job_.ranks(); ++rank) steps.push_back(job_.progress(rank).steps);
  if (steps != last_steps_) {
    last_steps_ = std::move(steps);
    last_change_s_ = now_s;
    return std::nullopt;
  }
  if (now_s - last_change_s_ < limit_s_) return std::nullopt;
  return stall_message();
}

std::string Watchdog::stall_message() const {
  const auto [fewest, most] = std::ranges::minmax(last_steps_);
  std::vector<int> missing;
  for (int rank = 0; rank < job_.ranks(); ++rank)
    if (last_steps_[rank] == fewest) missing.push_back(rank);
  const std::string_view phase = name(job_.progress(missing.front()).phase);
  if (fewest == most)
    return fmt::format(
        "no rank got on for {:g} s in phase {}, all are at the same step; raise -T if one step may take longer",
        limit_s_, phase);
  return fmt::format(
      "no rank got on for {:g} s: {} did not get past phase {}, the others wait; look at its process and host, "
      "or raise -T",
      limit_s_, names_of(job_, missing), phase);
}

}  // namespace busbw
