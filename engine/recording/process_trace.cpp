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

RecordedCommunicator ProcessTrace::add_communicator(int world_rank, Team& group) {
  const auto id = broadcast_value(group, std::bit_cast<std::uint64_t>(random_bytes<sizeof(std::uint64_t)>()));
  const std::lock_guard lock(mutex_);
  const std::uint16_t index = communicators_++;
  const auto rank = ranks_.try_emplace(world_rank, RecordedRank{.thread = static_cast<std::uint32_t>(ranks_.size())});
  if (auto* const record = file_.take<trace::CommunicatorRecord>()) {
    record->is_id_unique = 1;
    record->communicator = index;
    record->rank = group.rank();
    record->size = group.size();
    record->nodes = -1;
    record->id = id;
    record->kind.store(trace::Kind::communicator, std::memory_order_release);
  }
  return {index, &rank.first->second};
}

std::uint64_t ProcessTrace::now_ns() const { return static_cast<std::uint64_t>((monotonic_s() - start_s_) * 1e9) + 1; }

}  // namespace busbw
