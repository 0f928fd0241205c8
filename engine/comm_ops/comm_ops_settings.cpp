// Parses the rules for numbers of ranks, and applies them.
#include "comm_ops/comm_ops_settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::array<std::string_view, 4> kTestNames{"init", "split", "shrink", "grow"};
constexpr std::array<std::string_view, 7> kCallNames{
    "rendezvous", "create", "first_all_reduce", "next_all_reduce", "finalize", "destroy", "abort"};

/// Number of ranks after `ranks` in a sweep, at least 1 higher or lower. Example: after 8 ranks, "factor-2" gives 16 if
/// the sweep rises, else 4.
int next_rank_count(const RankStep& sweep, int ranks, bool rises) {
  const double change = sweep.kind == RankStep::Kind::step ? sweep.number : 0;
  const double factor = sweep.kind == RankStep::Kind::factor ? sweep.number : 1;
  const double next = rises ? ranks * factor + change : ranks / factor - change;
  constexpr double kMaxNext = 1e6;  // above any number of ranks, as -1 is below
  const int rounded = static_cast<int>(std::lround(std::clamp(next, -1.0, kMaxNext)));
  if (rounded != ranks) return rounded;
  return rises ? ranks + 1 : ranks - 1;
}

}  // namespace

std::string_view name(CreationKind kind) { return kTestNames[static_cast<std::size_t>(kind)]; }
std::string_view name(LifecycleCall call) { return kCallNames[static_cast<std::size_t>(call)]; }

std::optional<CreationKind> creation_kind_of(std::string_view name) {
  const auto entry = std::ranges::find(kTestNames, name);
  if (entry == kTestNames.end()) return std::nullopt;
  return static_cast<CreationKind>(entry - kTestNames.begin());
}

std::optional<RankStep> parse_rank_step(std::string_view text) {
  if (text == "fixed") return RankStep{RankStep::Kind::fixed, 0};
  const bool is_factor = text.starts_with("factor-");
  if (!is_factor && !text.starts_with("step-")) return std::nullopt;
  const auto number = parse_number(text.substr(text.find('-') + 1));
  if (!number || *number <= 0) return std::nullopt;
  if (!is_factor) return RankStep{RankStep::Kind::step, *number};
  return RankStep{RankStep::Kind::factor, std::max(*number, 1 / *number)};  // 0.5 means the same as 2
}

std::vector<int> rank_counts(const CommOpsSettings& settings) {
  std::vector<int> counts{settings.begin_ranks};
  if (settings.sweep.kind == RankStep::Kind::fixed) return counts;
  const bool rises = settings.begin_ranks < settings.end_ranks;
  while (true) {
    const int next = next_rank_count(settings.sweep, counts.back(), rises);
    const bool is_past_end = rises ? next > settings.end_ranks : next < settings.end_ranks;
    if (is_past_end) return counts;
    counts.push_back(next);
  }
}

int kept_ranks(const RankStep& resize, int ranks) {
  const double kept = resize.kind == RankStep::Kind::factor ? ranks / resize.number : ranks - resize.number;
  return static_cast<int>(std::clamp(std::ceil(kept), 0.0, static_cast<double>(ranks)));
}

bool can_run(CreationKind test, const RankStep& resize, int ranks) {
  if (test == CreationKind::init) return true;
  const int kept = kept_ranks(resize, ranks);
  return kept > 0 && kept < ranks;
}

int root_count(int root_every, int ranks) { return root_every > 0 ? 1 + (ranks - 1) / root_every : 1; }

}  // namespace busbw
