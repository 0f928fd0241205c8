#include "explore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <unordered_set>

namespace busbw::fastpath::model {
namespace {

struct DigestHash {
  std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& both) const {
    return static_cast<std::size_t>(both.first);
  }
};

/// Step to a state: the previous state and the move.
struct Step {
  std::size_t before = 0;
  Move move;
};

std::string report(const Machine& machine, const Broken& broken, const std::vector<Move>& way) {
  std::string text = fmt::format("{}\nin {}\nafter", broken.what(), machine.program().text());
  const std::size_t first = way.size() > 60 ? way.size() - 60 : 0;
  if (first > 0) text += fmt::format(" {} moves and", first);
  State state = machine.start();
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (i >= first) text += "\n  " + machine.text(state, way[i]);
    if (i + 1 < way.size()) machine.make(state, way[i]);
  }
  return text;
}

std::vector<Move> way_to(const std::vector<Step>& steps, std::size_t last) {
  std::vector<Move> way;
  for (std::size_t i = last; i > 0; i = steps[i].before) way.push_back(steps[i].move);
  std::reverse(way.begin(), way.end());
  return way;
}

/// Random scheduler with preferences that change from time to time.
class Scheduler {
 public:
  Scheduler(const Machine& machine, std::uint64_t seed) : machine_(machine), engine_(seed) {}

  /// Selects a possible move. Returns false at the end.
  bool next(const State& state, Move& move) {
    if (left_-- == 0) change();
    for (int tries = 0; tries < 8; ++tries)
      if (likes(state, move)) return true;
    const std::vector<Move> all = machine_.moves(state);
    if (all.empty()) return false;
    move = all[below(all.size())];
    return true;
  }

 private:
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(engine_() % end); }

  void change() {
    left_ = 5 + below(200);
    deliveries_of_16_ = below(17);
    slow_rank_ = below(3) == 0 ? static_cast<int>(below(static_cast<std::size_t>(machine_.program().ranks))) : -1;
    late_agent_ = static_cast<int>(below(2 * static_cast<std::size_t>(machine_.program().max_agents())));
    age_ = below(3);
  }

  bool likes(const State& state, Move& move) {
    const std::size_t lines = state.flights.size();
    const std::size_t under_way = lines + state.contents.under_way.size();
    if (under_way > 0 && below(16) < deliveries_of_16_) {
      const std::size_t which = age_ == 0 ? 0 : age_ == 1 ? under_way - 1 : below(under_way);
      move = which < lines ? Move{Move::Kind::deliver, 0, state.flights[which]}
                           : Move{Move::Kind::deliver_write, 0, static_cast<int>(which - lines)};
      return true;
    }
    move.rank = static_cast<int>(below(state.gpus.size()));
    move.index = static_cast<int>(below(state.agents.size() / state.gpus.size()));
    if (move.rank == slow_rank_ || move.index == late_agent_) return false;
    move.kind = Move::Kind::run;
    if (machine_.can_run(state, move.rank, move.index)) return true;
    move.kind = Move::Kind::retire;
    return move.index < kWords && machine_.can_retire(state, move.rank, move.index);
  }

  const Machine& machine_;
  std::mt19937_64 engine_;
  std::size_t left_ = 0;
  std::size_t deliveries_of_16_ = 8;
  std::size_t age_ = 0;
  int slow_rank_ = -1;
  int late_agent_ = -1;
};

}  // namespace

Explored& Explored::operator+=(const Explored& other) {
  states += other.states;
  moves += other.moves;
  ends += other.ends;
  if (failure.empty()) failure = other.failure;
  return *this;
}

Explored explore_all(const Program& program, const Faults& faults, std::uint64_t max_states) {
  const Machine machine(program, faults);
  Explored explored;
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, DigestHash> known;
  std::vector<Step> steps(1);
  std::vector<std::pair<State, std::size_t>> open;
  open.emplace_back(machine.start(), 0);
  known.insert(digest(open.back().first));
  while (!open.empty()) {
    const auto [state, here] = std::move(open.back());
    open.pop_back();
    const std::vector<Move> moves = machine.moves(state);
    std::vector<Move> way;
    try {
      if (moves.empty()) {
        machine.check_end(state);
        ++explored.ends;
      }
      for (const Move& move : moves) {
        way.assign(1, move);
        State next = state;
        machine.make(next, move);
        way.clear();
        ++explored.moves;
        if (!known.insert(digest(next)).second) continue;
        if (known.size() > max_states)
          throw std::length_error(fmt::format("more than {} states: {}", max_states, program.text()));
        steps.push_back({here, move});
        open.emplace_back(std::move(next), steps.size() - 1);
      }
    } catch (const Broken& broken) {
      std::vector<Move> all = way_to(steps, here);
      all.insert(all.end(), way.begin(), way.end());
      explored.failure = report(machine, broken, all);
      break;
    }
  }
  explored.states = known.size();
  return explored;
}

Explored explore_random(const Program& program, const Faults& faults, std::uint64_t seed, int ways) {
  const Machine machine(program, faults);
  Explored explored;
  for (int i = 0; i < ways; ++i) {
    Scheduler scheduler(machine, seed * 1000003 + static_cast<std::uint64_t>(i));
    State state = machine.start();
    std::vector<Move> way;
    try {
      for (Move move; scheduler.next(state, move);) {
        way.push_back(move);
        machine.make(state, move);
        ++explored.moves;
      }
      machine.check_end(state);
      ++explored.ends;
    } catch (const Broken& broken) {
      explored.failure = fmt::format("seed {}, way {}: {}", seed, i, report(machine, broken, way));
      return explored;
    }
  }
  return explored;
}

}  // namespace busbw::fastpath::model
