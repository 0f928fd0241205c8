#include "agent_fabric.hpp"

namespace busbw::fastpath::model {

AgentFabric::AgentFabric(const Machine& machine, State& state, int rank, int number)
    : machine_(machine), state_(state), agent_(machine.agent_of(state, rank, number)), rank_(rank), number_(number) {}

void AgentFabric::put(int peer, int region, int turn, std::uint64_t tag, const Cell& cell) {
  const int number = sent_[region][peer]++;
  if (is_past() || !machine_.waits_for(agent_.kernel, peer, rank_)) return;
  Letter letter;
  letter.tag = tag;
  letter.data = cell.low;
  letter.label = {static_cast<std::int16_t>(agent_.kernel), static_cast<std::int16_t>(region),
                  static_cast<std::int16_t>(number)};
  machine_.send(state_, machine_.slot_of(peer, rank_, agent_.kernel, region, turn, tag, number_), letter);
}

bool AgentFabric::take(int region, int turn, std::uint64_t tag, Cell (&cells)[kMaxRanks]) {
  const int number = taken_[region]++;
  if (!stop(Wait::cells, tag)) {
    agent_.region = region;
    agent_.turn = turn;
    agent_.number = number;
    if (machine_.faults_.data_before_tag) machine_.read_data(state_, rank_, number_);
    return false;
  }
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank_) cells[peer] = cell_of_stop(peer);
  return true;
}

bool AgentFabric::barrier(std::uint64_t tag) {
  if (is_waiting_) return false;
  const Faults& faults = machine_.faults_;
  const std::uint64_t first = agent_.last_tag + 1;
  if (tag == first ? faults.no_first_barrier : faults.no_second_barrier) return true;
  if (faults.one_barrier_tag) tag = first;
  const bool speaks = machine_.leader_of(agent_.kernel, number_) == number_;
  if (faults.leader_barriers_alone && !speaks) return true;
  if (!faults.leader_barriers_alone && !stop(speaks ? Wait::block : Wait::leader, tag)) return false;
  if (!speaks) return true;
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank_) put(peer, 0, 0, tag, Cell{});
  Cell cells[kMaxRanks];
  return take(0, 0, tag, cells);
}

bool AgentFabric::read(const CellPosition& place, int of_rank, Cell (&cells)[kMaxRanks]) {
  const bool is_now = !is_waiting_ && !is_past() && agent_.wait == Wait::memory;
  if (is_now) {
    for (int peer = 0; peer < ranks(); ++peer)
      if (of_rank == kAllRanks || of_rank == peer)
        state_.taken[machine_.first_taken(rank_, number_, stops_) + static_cast<std::size_t>(peer)] =
            machine_.memory_.read(state_.contents, agent_.kernel, peer, place);
    agent_.pass();
  }
  if (!stop(Wait::memory, 0)) return false;
  for (int peer = 0; peer < ranks(); ++peer) cells[peer] = cell_of_stop(peer);
  return true;
}

void AgentFabric::write(const CellPosition& place, int of_rank, const Cell& cell) {
  if (is_past()) return;
  for (int peer = 0; peer < ranks(); ++peer)
    if (of_rank == kAllRanks || of_rank == peer)
      machine_.memory_.write(state_.contents,
                             {agent_.kernel, peer, place, cell.low, rank_, number_ / kernel().agents_of_block});
}

bool AgentFabric::stop(Wait wait, std::uint64_t tag) {
  if (is_waiting_) return false;
  if (is_past()) {
    ++stops_;
    return true;
  }
  agent_.wait = wait;
  agent_.tag = tag;
  is_waiting_ = true;
  return false;
}

Cell AgentFabric::cell_of_stop(int peer) const {
  return {state_.taken[machine_.first_taken(rank_, number_, stops_ - 1) + static_cast<std::size_t>(peer)], 0};
}

}  // namespace busbw::fastpath::model
