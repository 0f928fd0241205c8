#include "machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "agent_fabric.hpp"

namespace busbw::fastpath::model {
namespace {

bool is_under_way(const Slot& slot) { return slot.tag_is_under_way || slot.data_is_under_way; }

}  // namespace

Machine::Machine(const Program& program, const Faults& faults)
    : program_(program),
      faults_(faults),
      agents_(program.max_agents()),
      cells_(program.max_cells()),
      stops_(program.max_stops()),
      memory_(program) {
  if (program.ranks < 1 || program.ranks > kMaxModelRanks) throw std::invalid_argument("a program of 1 to 8 ranks");
  for (const Kernel& kernel : program.kernels)
    if (kernel.blocks > kWords) throw std::invalid_argument("a kernel of more blocks than there are words");
}

State Machine::start() const {
  State state;
  const std::size_t ranks = to_index(program_.ranks);
  state.gpus.resize(ranks);
  state.agents.resize(ranks * to_index(agents_));
  state.slots.resize(ranks * ranks * kRegions * 2 * to_index(cells_));
  if (faults_.data_before_tag) state.read.resize(state.slots.size());
  state.taken.resize(ranks * to_index(agents_ * stops_) * ranks);
  state.contents = memory_.start();
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    state.agents[i].kernel = -1;
    next_kernel(state.agents[i], static_cast<int>(i) % agents_);
  }
  return state;
}

Agent& Machine::agent_of(State& state, int rank, int agent) const {
  return state.agents[to_index(rank * agents_ + agent)];
}

const Agent& Machine::agent_of(const State& state, int rank, int agent) const {
  return state.agents[to_index(rank * agents_ + agent)];
}

std::size_t Machine::first_taken(int rank, int agent, int stop) const {
  return to_index(((rank * agents_ + agent) * stops_ + stop) * program_.ranks);
}

int Machine::slot_of(int receiver, int sender, int kernel, int region, int turn, std::uint64_t tag, int agent) const {
  const Kernel& one = program_.kernels[to_index(kernel)];
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

std::string Machine::text(const State& state, const Move& move) const {
  switch (move.kind) {
    case Move::Kind::run: return fmt::format("rank {}: agent {} runs", move.rank, move.index);
    case Move::Kind::retire: return fmt::format("rank {}: block {} ends", move.rank, move.index);
    case Move::Kind::deliver: return fmt::format("a line comes to {}", place(move.index));
    case Move::Kind::deliver_tag: return fmt::format("a tag comes to {}", place(move.index));
    case Move::Kind::deliver_data: return fmt::format("data come to {}", place(move.index));
    case Move::Kind::deliver_write: return Memory::text(state.contents.under_way[to_index(move.index)]);
  }
  return "?";
}

bool Machine::waits_for(int kernel, int rank, int peer) const {
  const Kernel& all = program_.kernels[to_index(kernel)];
  return rank != peer && (!faults_.quiet_ranks || all.task != Task::broadcast_one_shot || peer == all.root);
}

int Machine::steps_of(int kernel, int agent) const {
  const Kernel& all = program_.kernels[to_index(kernel)];
  return faults_.idle_agents_rest && agent == all.agents() - 1 ? all.steps - 1 : all.steps;
}

void Machine::next_kernel(Agent& agent, int number) const {
  do {
    ++agent.kernel;
  } while (to_index(agent.kernel) < program_.kernels.size() &&
           program_.kernels[to_index(agent.kernel)].agents() <= number);
  agent.is_running = false;
  agent.stops = 0;
}

int Machine::leader_of(int kernel, int agent) const {
  return faults_.only_first_block_barriers ? 0 : agent - agent % program_.kernels[to_index(kernel)].agents_of_block;
}

bool Machine::can_run(const State& state, int rank, int number) const {
  const Agent& agent = agent_of(state, rank, number);
  if (to_index(agent.kernel) >= program_.kernels.size()) return false;
  if (!agent.is_running) {
    const int make_common = state.gpus[to_index(rank)].kernel;
    if (agent.kernel == make_common) return has_room(state, rank, number);
    return faults_.kernels_overlap && agent.kernel == make_common + 1;
  }
  switch (agent.wait) {
    case Wait::cells: return have_cells_arrived(state, rank, number);
    case Wait::block: return has_block_arrived(state, rank, number);
    case Wait::leader: return agent_of(state, rank, leader_of(agent.kernel, number)).last_barrier >= agent.tag;
    case Wait::memory:
    case Wait::nothing: break;
  }
  return true;
}

/// Reads the data at the earliest possible time: when the agent begins to poll the tag.
void Machine::read_data(State& state, int rank, int number) const {
  const Agent& agent = agent_of(state, rank, number);
  for (int peer = 0; peer < program_.ranks; ++peer) {
    if (!waits_for(agent.kernel, rank, peer)) continue;
    const int slot = slot_of(rank, peer, agent.kernel, agent.region, agent.turn, agent.tag, number);
    state.read[to_index(slot)] = state.slots[to_index(slot)].here;
  }
}

bool Machine::have_cells_arrived(const State& state, int rank, int number) const {
  const Agent& agent = agent_of(state, rank, number);
  for (int peer = 0; peer < program_.ranks; ++peer) {
    if (!waits_for(agent.kernel, rank, peer)) continue;
    const int slot = slot_of(rank, peer, agent.kernel, agent.region, agent.turn, agent.tag, number);
    if (state.slots[to_index(slot)].here.tag != agent.tag) return false;
  }
  return true;
}

/// True if all agents of the block have arrived and, because of the fence, their writes are delivered. The model may
/// wait for the writes here, because they may be delivered at any time.
bool Machine::has_block_arrived(const State& state, int rank, int leader) const {
  const Agent& own = agent_of(state, rank, leader);
  const int agents = program_.kernels[to_index(own.kernel)].agents_of_block;
  for (int number = leader + 1; number < leader + agents; ++number) {
    const Agent& agent = agent_of(state, rank, number);
    if (agent.kernel != own.kernel || agent.wait != Wait::leader || agent.tag != own.tag) return false;
  }
  return faults_.no_fence || !memory_.is_under_way(state.contents, rank, leader / agents);
}

bool Machine::has_room(const State& state, int rank, int number) const {
  if (program_.room == 0) return true;
  const Gpu& gpu = state.gpus[to_index(rank)];
  const Kernel& kernel = program_.kernels[to_index(gpu.kernel)];
  const auto has_begun = [&](int block) {
    for (int i = 0; i < kernel.agents_of_block; ++i) {
      const Agent& agent = agent_of(state, rank, block * kernel.agents_of_block + i);
      if (agent.is_running || agent.kernel > gpu.kernel) return true;
    }
    return false;
  };
  const int own = number / kernel.agents_of_block;
  if (faults_.blocks_in_any_order && has_begun(own)) return true;
  int there = 0;  // blocks that take up room before this one
  for (int block = 0; block < kernel.blocks; ++block)
    if (!gpu.retired[block] && (faults_.blocks_in_any_order ? has_begun(block) : block < own)) ++there;
  return there < program_.room;
}

bool Machine::can_retire(const State& state, int rank, int block) const {
  const Gpu& gpu = state.gpus[to_index(rank)];
  if (to_index(gpu.kernel) >= program_.kernels.size()) return false;
  const Kernel& kernel = program_.kernels[to_index(gpu.kernel)];
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
    if (state.slots[to_index(slot)].tag_is_under_way) all.push_back({Move::Kind::deliver_tag, 0, slot});
    if (state.slots[to_index(slot)].data_is_under_way) all.push_back({Move::Kind::deliver_data, 0, slot});
  }
  for (std::size_t i = 0; i < state.contents.under_way.size(); ++i)
    all.push_back({Move::Kind::deliver_write, 0, static_cast<int>(i)});
  return all;
}

void Machine::make(State& state, const Move& move) const {
  switch (move.kind) {
    case Move::Kind::run: run(state, move.rank, move.index); break;
    case Move::Kind::retire: retire(state, move.rank, move.index); break;
    case Move::Kind::deliver:
    case Move::Kind::deliver_tag:
    case Move::Kind::deliver_data: deliver(state, move); break;
    case Move::Kind::deliver_write: memory_.deliver(state.contents, to_index(move.index)); break;
  }
}

void Machine::run(State& state, int rank, int number) const {
  Agent& agent = agent_of(state, rank, number);
  const Kernel& kernel = program_.kernels[to_index(agent.kernel)];
  Gpu& gpu = state.gpus[to_index(rank)];
  if (!agent.is_running) {
    agent.is_running = true;
    agent.last_tag = gpu.words[number / kernel.agents_of_block];
    if (is_direct(kernel.task) && agent.kernel == gpu.kernel && !gpu.has_begun)
      memory_.begin(state.contents, agent.kernel, rank);
    gpu.has_begun = true;
  } else if (agent.wait == Wait::cells) {
    take(state, rank, number);
  } else if (agent.wait != Wait::memory) {
    agent.pass();
  }
  AgentFabric fabric(*this, state, rank, number);
  TaskWork work(program_, agent.kernel, rank, faults_.reduces_for_itself);
  const std::uint64_t first_tag = agent.last_tag + 1;
  const int steps = steps_of(agent.kernel, number);
  if (is_direct(kernel.task))
    direct(fabric, work, first_tag);
  else if (has_two_shots(kernel.task))
    two_shot(fabric, work, first_tag, steps);
  else
    exchange(fabric, work, first_tag, steps);
  if (fabric.is_waiting()) return;
  if (!is_direct(kernel.task)) check_output(work, agent.kernel, rank, number);
  for (int i = 0; i < agent.stops; ++i)
    for (int peer = 0; peer < program_.ranks; ++peer) state.taken[first_taken(rank, number, i) + to_index(peer)] = 0;
  next_kernel(agent, number);
}

void Machine::check_output(const TaskWork& work, int kernel, int rank, int number) const {
  const Kernel& one = program_.kernels[to_index(kernel)];
  Cells expected;
  for (int turn = 0; turn < steps_of(kernel, number) * one.batch; ++turn) {
    const std::int64_t index = static_cast<std::int64_t>(turn) * one.agents() + number;
    for (const auto& part : expected_output(program_, kernel, rank, index)) expected.push_back(part);
  }
  // A position that is written twice occurs twice.
  Cells output = work.output();
  std::sort(expected.begin(), expected.end());
  std::sort(output.begin(), output.end());
  if (output != expected)
    throw Broken(fmt::format("rank {}, agent {}: kernel {} gave other cells than it must", rank, number, kernel));
}

void Machine::take(State& state, int rank, int number) const {
  Agent& agent = agent_of(state, rank, number);
  const Label wanted{static_cast<std::int16_t>(agent.kernel), static_cast<std::int16_t>(agent.region),
                     static_cast<std::int16_t>(agent.number)};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> came;
  for (int peer = 0; peer < program_.ranks; ++peer) {
    if (!waits_for(agent.kernel, rank, peer)) continue;
    const int number_of_slot = slot_of(rank, peer, agent.kernel, agent.region, agent.turn, agent.tag, number);
    Slot& slot = state.slots[to_index(number_of_slot)];
    const Letter& read = faults_.data_before_tag ? state.read[to_index(number_of_slot)] : slot.here;
    if (!(read.label == wanted))
      throw Broken(fmt::format(
          "{}: a wrong cell is taken: with tag {} it has that of kernel {}, region {}, number {} where kernel {}, "
          "region {}, number {} is expected",
          place(number_of_slot), agent.tag, read.label.kernel, read.label.region, read.label.number, wanted.kernel,
          wanted.region, wanted.number));
    slot.is_taken = true;
    came.emplace_back(slot.here.arrival, read.data);
  }
  // Without the fault `order_of_arrival` all arrivals are 0, so the peers keep their order.
  std::stable_sort(came.begin(), came.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t next = 0;
  for (int peer = 0; peer < program_.ranks; ++peer)
    if (waits_for(agent.kernel, rank, peer))
      state.taken[first_taken(rank, number, agent.stops) + to_index(peer)] = came[next++].second;
  if (is_direct(program_.kernels[to_index(agent.kernel)].task)) agent.last_barrier = agent.tag;
  agent.pass();
}

void Machine::send(State& state, int slot, const Letter& letter) const {
  // The cell may arrive at once or at any later time, so the slot must be free now.
  Slot& to = state.slots[to_index(slot)];
  if (is_under_way(to) || !to.is_taken)
    throw Broken(fmt::format("{}: used again too early: tag {} is written while the cell with tag {} {}", place(slot),
                             letter.tag, is_under_way(to) ? to.under_way.tag : to.here.tag,
                             is_under_way(to) ? "is under way" : "is not taken"));
  to.under_way = letter;
  to.tag_is_under_way = to.data_is_under_way = true;
  state.flights.push_back(slot);
}

void Machine::deliver(State& state, const Move& move) const {
  Slot& slot = state.slots[to_index(move.index)];
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
  Gpu& gpu = state.gpus[to_index(rank)];
  const Kernel& kernel = program_.kernels[to_index(gpu.kernel)];
  const bool uses_one = faults_.tags_of_kernels || (faults_.one_barrier_tag && is_direct(kernel.task));
  const std::uint64_t used = uses_one ? 1 : static_cast<std::uint64_t>(kernel.tags());
  const std::uint64_t last = agent_of(state, rank, block * kernel.agents_of_block).last_tag + used;
  for (int word = 0; word < kWords; ++word) {
    const bool is_ours = faults_.words_by_first   ? block == 0
                         : faults_.own_words_only ? word == block
                                                  : word % kernel.blocks == block;
    if (is_ours) gpu.words[word] = last;
  }
  gpu.retired[block] = true;
  if (std::count(gpu.retired, gpu.retired + kWords, true) < kernel.blocks) return;
  if (is_direct(kernel.task)) memory_.end(state.contents, gpu.kernel, rank);
  std::fill(gpu.retired, gpu.retired + kWords, false);
  gpu.has_begun = false;
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
    if (to_index(state.gpus[to_index(rank)].kernel) < program_.kernels.size())
      throw Broken(fmt::format("a deadlock: nothing can move, and rank {} is in kernel {};{}", rank,
                               state.gpus[to_index(rank)].kernel, waiting));
  for (std::size_t slot = 0; slot < state.slots.size(); ++slot)
    if (!state.slots[slot].is_taken)
      throw Broken(fmt::format("{}: the cell with tag {} was never taken", place(static_cast<int>(slot)),
                               state.slots[slot].here.tag));
}

}  // namespace busbw::fastpath::model
