#include "machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace busbw::fastpath::model {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool is_under_way(const Slot& slot) { return slot.tag_is_under_way || slot.data_is_under_way; }

}  // namespace

/// The Fabric of one agent that runs its kernel from the begin to the first cells it has not taken yet. Everything it
/// did up to there was done before, so only what it sends after its latest cells is sent.
class AgentFabric {
 public:
  static constexpr int kMaxRanks = kMostRanks;

  AgentFabric(const Machine& machine, State& state, int rank, int number)
      : machine_(machine), state_(state), agent_(machine.agent_of(state, rank, number)), rank_(rank), number_(number) {}

  int rank() const { return rank_; }
  int ranks() const { return machine_.program_.ranks; }
  int thread() const { return number_; }
  int threads() const { return kernel().agents(); }
  int batch() const { return kernel().batch; }

  void put(int peer, int region, int turn, std::uint64_t tag, const Cell& cell) {
    const int number = sent_[region][peer]++;
    if (takes_ != agent_.taken || !machine_.waits_for(agent_.kernel, peer, rank_)) return;
    Letter letter;
    letter.tag = tag;
    letter.data = cell.low;
    letter.label = {static_cast<std::int16_t>(agent_.kernel), static_cast<std::int16_t>(region),
                    static_cast<std::int16_t>(number)};
    machine_.send(state_, machine_.slot_of(peer, rank_, agent_.kernel, region, turn, tag, number_), letter);
  }

  bool take(int region, int turn, std::uint64_t tag, Cell (&cells)[kMaxRanks]) {
    const int number = taken_[region]++;
    if (takes_ == agent_.taken) {
      agent_.region = region;
      agent_.turn = turn;
      agent_.number = number;
      agent_.tag = tag;
      is_waiting_ = true;
      return false;
    }
    const std::size_t first = machine_.first_taken(rank_, number_, takes_++);
    for (int peer = 0; peer < ranks(); ++peer)
      if (peer != rank_) cells[peer] = {state_.taken[first + at(peer)], 0};
    return true;
  }

  bool is_waiting() const { return is_waiting_; }

 private:
  const Kernel& kernel() const { return machine_.program_.kernels[at(agent_.kernel)]; }

  const Machine& machine_;
  State& state_;
  Agent& agent_;
  int rank_;
  int number_;
  int takes_ = 0;
  int sent_[kRegions][kMostRanks] = {};
  int taken_[kRegions] = {};
  bool is_waiting_ = false;
};

Machine::Machine(const Program& program, const Faults& faults)
    : program_(program),
      faults_(faults),
      agents_(program.most_agents()),
      cells_(program.most_cells()),
      takes_(program.most_takes()) {
  if (program.ranks < 1 || program.ranks > kMostRanks) throw std::invalid_argument("a program of 1 to 8 ranks");
  for (const Kernel& kernel : program.kernels)
    if (kernel.blocks > kWords) throw std::invalid_argument("a kernel of more blocks than there are words");
}

State Machine::start() const {
  State state;
  const std::size_t ranks = at(program_.ranks);
  state.gpus.resize(ranks);
  state.agents.resize(ranks * at(agents_));
  state.slots.resize(ranks * ranks * kRegions * 2 * at(cells_));
  state.taken.resize(ranks * at(agents_ * takes_) * ranks);
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    state.agents[i].kernel = -1;
    next_kernel(state.agents[i], static_cast<int>(i) % agents_);
  }
  return state;
}

Agent& Machine::agent_of(State& state, int rank, int agent) const { return state.agents[at(rank * agents_ + agent)]; }

const Agent& Machine::agent_of(const State& state, int rank, int agent) const {
  return state.agents[at(rank * agents_ + agent)];
}

std::size_t Machine::first_taken(int rank, int agent, int take) const {
  return at(((rank * agents_ + agent) * takes_ + take) * program_.ranks);
}

int Machine::slot_of(int receiver, int sender, int kernel, int region, int turn, std::uint64_t tag, int agent) const {
  const Kernel& one = program_.kernels[at(kernel)];
  const int half = faults_.one_turn ? 0 : static_cast<int>(tag & 1);
  if (faults_.one_region) region = 0;
  if (faults_.one_slot_of_batch) turn = 0;
  const int cell = turn * one.agents() + agent;
  return (((receiver * program_.ranks + sender) * kRegions + region) * 2 + half) * cells_ + cell;
}

std::string Machine::place(int slot) const {
  const int cell = slot % cells_;
  const int half = slot / cells_ % 2;
  const int region = slot / cells_ / 2 % kRegions;
  const int pair = slot / cells_ / 2 / kRegions;
  return fmt::format("rank {}'s slot {} for rank {} (region {}, {} tags)", pair / program_.ranks, cell,
                     pair % program_.ranks, region, half == 0 ? "even" : "odd");
}

std::string Machine::text(const Move& move) const {
  switch (move.kind) {
    case Move::Kind::run: return fmt::format("rank {}: agent {} runs", move.rank, move.index);
    case Move::Kind::retire: return fmt::format("rank {}: block {} ends", move.rank, move.index);
    case Move::Kind::deliver: return fmt::format("a line comes to {}", place(move.index));
    case Move::Kind::deliver_tag: return fmt::format("a tag comes to {}", place(move.index));
    case Move::Kind::deliver_data: return fmt::format("data come to {}", place(move.index));
  }
  return "?";
}

bool Machine::waits_for(int kernel, int rank, int peer) const {
  const Kernel& all = program_.kernels[at(kernel)];
  return rank != peer && (!faults_.quiet_ranks || all.task != Task::broadcast_one_shot || peer == all.root);
}

int Machine::steps_of(int kernel, int agent) const {
  const Kernel& all = program_.kernels[at(kernel)];
  return faults_.idle_agents_rest && agent == all.agents() - 1 ? all.steps - 1 : all.steps;
}

void Machine::next_kernel(Agent& agent, int number) const {
  do {
    ++agent.kernel;
  } while (at(agent.kernel) < program_.kernels.size() && program_.kernels[at(agent.kernel)].agents() <= number);
  agent.is_running = false;
  agent.taken = 0;
}

bool Machine::can_run(const State& state, int rank, int number) const {
  const Agent& agent = agent_of(state, rank, number);
  if (at(agent.kernel) >= program_.kernels.size()) return false;
  if (!agent.is_running) {
    const int begun = state.gpus[at(rank)].kernel;
    if (agent.kernel == begun) return has_room(state, rank, number);
    return faults_.kernels_overlap && agent.kernel == begun + 1;
  }
  for (int peer = 0; peer < program_.ranks; ++peer) {
    if (!waits_for(agent.kernel, rank, peer)) continue;
    const int slot = slot_of(rank, peer, agent.kernel, agent.region, agent.turn, agent.tag, number);
    if (state.slots[at(slot)].here.tag != agent.tag) return false;
  }
  return true;
}

bool Machine::has_room(const State& state, int rank, int number) const {
  if (program_.room == 0) return true;
  const Gpu& gpu = state.gpus[at(rank)];
  const Kernel& kernel = program_.kernels[at(gpu.kernel)];
  const auto has_begun = [&](int block) {
    for (int i = 0; i < kernel.agents_of_block; ++i) {
      const Agent& agent = agent_of(state, rank, block * kernel.agents_of_block + i);
      if (agent.is_running || agent.kernel > gpu.kernel) return true;
    }
    return false;
  };
  const int own = number / kernel.agents_of_block;
  if (faults_.blocks_in_any_order && has_begun(own)) return true;
  int there = 0;  // blocks that take up room before this one can
  for (int block = 0; block < kernel.blocks; ++block)
    if (!gpu.retired[block] && (faults_.blocks_in_any_order ? has_begun(block) : block < own)) ++there;
  return there < program_.room;
}

bool Machine::can_retire(const State& state, int rank, int block) const {
  const Gpu& gpu = state.gpus[at(rank)];
  if (at(gpu.kernel) >= program_.kernels.size()) return false;
  const Kernel& kernel = program_.kernels[at(gpu.kernel)];
  if (block >= kernel.blocks || gpu.retired[block]) return false;
  for (int i = 0; i < kernel.agents_of_block; ++i)
    if (agent_of(state, rank, block * kernel.agents_of_block + i).kernel <= gpu.kernel) return false;
  return true;
}

std::vector<Move> Machine::moves(const State& state) const {
  std::vector<Move> all;
  for (int rank = 0; rank < program_.ranks; ++rank) {
    for (int agent = 0; agent < agents_; ++agent)
      if (can_run(state, rank, agent)) all.push_back({Move::Kind::run, rank, agent});
    for (int block = 0; block < kWords; ++block)
      if (can_retire(state, rank, block)) all.push_back({Move::Kind::retire, rank, block});
  }
  for (const int slot : state.flights) {
    if (!faults_.tag_before_data) {
      all.push_back({Move::Kind::deliver, 0, slot});
      continue;
    }
    if (state.slots[at(slot)].tag_is_under_way) all.push_back({Move::Kind::deliver_tag, 0, slot});
    if (state.slots[at(slot)].data_is_under_way) all.push_back({Move::Kind::deliver_data, 0, slot});
  }
  return all;
}

void Machine::make(State& state, const Move& move) const {
  switch (move.kind) {
    case Move::Kind::run: run(state, move.rank, move.index); break;
    case Move::Kind::retire: retire(state, move.rank, move.index); break;
    case Move::Kind::deliver:
    case Move::Kind::deliver_tag:
    case Move::Kind::deliver_data: deliver(state, move); break;
  }
}

void Machine::run(State& state, int rank, int number) const {
  Agent& agent = agent_of(state, rank, number);
  const Kernel& kernel = program_.kernels[at(agent.kernel)];
  if (agent.is_running) {
    take(state, rank, number);
  } else {
    agent.is_running = true;
    agent.last_tag = state.gpus[at(rank)].words[number / kernel.agents_of_block];
  }
  AgentFabric fabric(*this, state, rank, number);
  TaskWork work(program_, agent.kernel, rank);
  const int steps = steps_of(agent.kernel, number);
  if (has_two_shots(kernel.task))
    two_shot(fabric, work, agent.last_tag + 1, steps);
  else
    exchange(fabric, work, agent.last_tag + 1, steps);
  if (fabric.is_waiting()) return;

  Output expected;
  for (int turn = 0; turn < steps * kernel.batch; ++turn) {
    const std::int64_t index = static_cast<std::int64_t>(turn) * kernel.agents() + number;
    for (const auto& part : expected_output(program_, agent.kernel, rank, index)) expected.push_back(part);
  }
  // A place that is written twice stays twice.
  Output output = work.output();
  std::sort(expected.begin(), expected.end());
  std::sort(output.begin(), output.end());
  if (output != expected)
    throw Broken(fmt::format("rank {}, agent {}: kernel {} gave other cells than it must", rank, number, agent.kernel));
  for (int i = 0; i < agent.taken; ++i)
    for (int peer = 0; peer < program_.ranks; ++peer) state.taken[first_taken(rank, number, i) + at(peer)] = 0;
  next_kernel(agent, number);
}

void Machine::take(State& state, int rank, int number) const {
  Agent& agent = agent_of(state, rank, number);
  const Label wanted{static_cast<std::int16_t>(agent.kernel), static_cast<std::int16_t>(agent.region),
                     static_cast<std::int16_t>(agent.number)};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> came;
  for (int peer = 0; peer < program_.ranks; ++peer) {
    if (!waits_for(agent.kernel, rank, peer)) continue;
    const int number_of_slot = slot_of(rank, peer, agent.kernel, agent.region, agent.turn, agent.tag, number);
    Slot& slot = state.slots[at(number_of_slot)];
    if (!(slot.here.label == wanted))
      throw Broken(fmt::format(
          "{}: a wrong cell is taken: with tag {} it has that of kernel {}, region {}, number {} where kernel {}, "
          "region {}, number {} is expected",
          place(number_of_slot), agent.tag, slot.here.label.kernel, slot.here.label.region, slot.here.label.number,
          wanted.kernel, wanted.region, wanted.number));
    slot.is_taken = true;
    came.emplace_back(slot.here.arrival, slot.here.data);
  }
  // Arrivals are all 0 where nothing is wrong: the peers stay in their order.
  std::stable_sort(came.begin(), came.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t next = 0;
  for (int peer = 0; peer < program_.ranks; ++peer)
    if (waits_for(agent.kernel, rank, peer))
      state.taken[first_taken(rank, number, agent.taken) + at(peer)] = came[next++].second;
  ++agent.taken;
}

void Machine::send(State& state, int slot, const Letter& letter) const {
  // It may arrive at once, or last of all that is under way: so the slot must be free now.
  Slot& to = state.slots[at(slot)];
  if (is_under_way(to) || !to.is_taken)
    throw Broken(fmt::format("{}: used again too early: tag {} is written while the cell with tag {} {}", place(slot),
                             letter.tag, is_under_way(to) ? to.under_way.tag : to.here.tag,
                             is_under_way(to) ? "is under way" : "is not taken"));
  to.under_way = letter;
  to.tag_is_under_way = to.data_is_under_way = true;
  state.flights.push_back(slot);
}

void Machine::deliver(State& state, const Move& move) const {
  Slot& slot = state.slots[at(move.index)];
  if (move.kind != Move::Kind::deliver_data) {
    slot.here.tag = slot.under_way.tag;
    slot.is_taken = slot.tag_is_under_way = false;
  }
  if (move.kind != Move::Kind::deliver_tag) {
    slot.here.data = slot.under_way.data;
    slot.here.label = slot.under_way.label;
    slot.data_is_under_way = false;
  }
  if (is_under_way(slot)) return;
  if (faults_.order_of_arrival) slot.here.arrival = ++state.arrivals;
  slot.under_way = {};
  state.flights.erase(std::find(state.flights.begin(), state.flights.end(), move.index));
}

void Machine::retire(State& state, int rank, int block) const {
  Gpu& gpu = state.gpus[at(rank)];
  const Kernel& kernel = program_.kernels[at(gpu.kernel)];
  const std::uint64_t used = faults_.tags_of_kernels ? 1 : static_cast<std::uint64_t>(kernel.steps);
  const std::uint64_t last = agent_of(state, rank, block * kernel.agents_of_block).last_tag + used;
  for (int word = 0; word < kWords; ++word) {
    const bool is_ours = faults_.words_by_first   ? block == 0
                         : faults_.own_words_only ? word == block
                                                  : word % kernel.blocks == block;
    if (is_ours) gpu.words[word] = last;
  }
  gpu.retired[block] = true;
  if (std::count(gpu.retired, gpu.retired + kWords, true) < kernel.blocks) return;
  std::fill(gpu.retired, gpu.retired + kWords, false);
  ++gpu.kernel;
}

void Machine::check_end(const State& state) const {
  std::string waiting;
  for (int rank = 0; rank < program_.ranks; ++rank)
    for (int number = 0; number < agents_; ++number) {
      const Agent& agent = agent_of(state, rank, number);
      if (agent.is_running)
        waiting +=
            fmt::format(" rank {}'s agent {} waits for tag {} in kernel {};", rank, number, agent.tag, agent.kernel);
    }
  for (int rank = 0; rank < program_.ranks; ++rank)
    if (at(state.gpus[at(rank)].kernel) < program_.kernels.size())
      throw Broken(fmt::format("a deadlock: nothing can move, and rank {} is in kernel {};{}", rank,
                               state.gpus[at(rank)].kernel, waiting));
  for (std::size_t slot = 0; slot < state.slots.size(); ++slot)
    if (!state.slots[slot].is_taken)
      throw Broken(fmt::format("{}: the cell with tag {} was never taken", place(static_cast<int>(slot)),
                               state.slots[slot].here.tag));
}

std::pair<std::uint64_t, std::uint64_t> Machine::digest(const State& state) const {
  std::uint64_t a = 0x9e3779b97f4a7c15U;
  std::uint64_t b = 0xc2b2ae3d27d4eb4fU;
  const auto add = [&](std::uint64_t value) {
    a = (a ^ value) * 0xbf58476d1ce4e5b9U;
    a ^= a >> 31;
    b = (b + value) * 0x94d049bb133111ebU;
    b ^= b >> 29;
  };
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  for (const Gpu& gpu : state.gpus) {
    std::uint64_t bits = number(gpu.kernel);
    for (int word = 0; word < kWords; ++word) {
      bits = bits * 2 + number(gpu.retired[word]);
      add(gpu.words[word]);
    }
    add(bits);
  }
  for (const Agent& agent : state.agents) {
    add(number(agent.kernel) << 32 | number(agent.taken) << 8 | number(agent.region) << 1 | number(agent.is_running));
    add(agent.tag << 32 ^ agent.last_tag);
  }
  for (const Slot& slot : state.slots) {
    add(slot.here.tag << 3 | number(slot.is_taken) << 2 | number(slot.tag_is_under_way) << 1 |
        number(slot.data_is_under_way));
    add(slot.here.data ^ slot.under_way.tag << 40);
    add(slot.here.arrival << 48 ^ slot.under_way.data);
  }
  for (const std::uint64_t cell : state.taken) add(cell);
  return {a, b};
}

}  // namespace busbw::fastpath::model
