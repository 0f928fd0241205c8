// Opens the trace file of a process of the host backend, and numbers its communicators and ranks.
#include "recording/process_trace.hpp"

#include <bit>

#include "common/os/random_bytes.hpp"
#include "common/support/version.hpp"
#include "measure/clock.hpp"

namespace busbw {

ProcessTrace::ProcessTrace(const trace::TraceSettings& settings, int rank, int size)
    : start_s_(monotonic_s()),
      file_(settings, {.producer = "busbw-engine " + std::string(version()),
                       .start_realtime_ns = unix_time_ns(),
                       .start_monotonic_ns = static_cast<std::uint64_t>(start_s_ * 1e9),
                       .rank = rank,
                       .size = size}) {
  file_.header().device_clock = trace::TraceClock::host;
}

RecordedCommunicator ProcessTrace::add_communicator(int world_rank, Team& members) {
  const auto id = broadcast_value(members, std::bit_cast<std::uint64_t>(random_bytes<sizeof(std::uint64_t)>()));
  const std::lock_guard lock(mutex_);
  const std::uint16_t index = communicators_++;
  // The ranks are threads, numbered in the order of their first communicator.
  const RecordedRank new_rank{.thread = static_cast<std::uint32_t>(ranks_.size())};
  RecordedRank& recorded = ranks_.try_emplace(world_rank, new_rank).first->second;
  if (auto* const record = file_.take<trace::CommunicatorRecord>()) {
    record->has_id = 1;
    record->communicator = index;
    record->rank = members.rank();
    record->size = members.size();
    record->nodes = -1;  // unknown
    record->id = id;
    // Last: readers ignore a record until it has its kind.
    record->kind.store(trace::Kind::communicator, std::memory_order_release);
  }
  return {index, &recorded};
}

std::uint64_t ProcessTrace::now_ns() const {
  // + 1: a time of 0 means unknown (common/trace/format.hpp).
  return static_cast<std::uint64_t>((monotonic_s() - start_s_) * 1e9) + 1;
}

}  // namespace busbw
