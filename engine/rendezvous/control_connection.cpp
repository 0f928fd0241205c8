// Thread that sends heartbeats, this process's failure and its leave frame to the store of process 0, and receives the
// job's failure.
#include "rendezvous/control_connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/os/signal_mask.hpp"

namespace busbw {
namespace {

constexpr int kMinHeartbeatsPerSilence = 8;  // heartbeats that process 0 must miss before a process counts as lost
constexpr int kMaxHeartbeatsPerTick = 200;   // that process 0 receives from all processes together

}  // namespace

int max_silent_ticks(const Membership& membership) { return std::max(kTicksPerS, ticks_of(membership.silence_s)); }

int max_heartbeat_ticks(const Membership& membership) {
  return std::max(kTicksPerS / 2, membership.processes / kMaxHeartbeatsPerTick);
}

ControlConnection::ControlConnection(TcpChannel channel, const Membership& membership,
                                     std::span<const LocalRank> local_ranks, AbortState& abort_state,
                                     std::function<void(const std::string& cause)> on_lost)
    : channel_(std::move(channel)),
      max_silent_ticks_(max_silent_ticks(membership)),
      heartbeat_ticks_(std::clamp(max_silent_ticks_ / kMinHeartbeatsPerSilence, 1, max_heartbeat_ticks(membership))),
      local_ranks_(local_ranks),
      abort_state_(abort_state),
      on_lost_(std::move(on_lost)) {}

void ControlConnection::start() {
  abort_state_.open_control();
  thread_ = std::thread([this] { run_thread(); });
}

void ControlConnection::leave() noexcept {
  is_leaving_ = true;
  if (thread_.joinable()) thread_.join();
}

void ControlConnection::run_thread() noexcept {
  block_all_signals();
  try {
    exchange_frames();
  } catch (const BrokenMessage&) {
    on_lost_("it sent an invalid message");
  } catch (const std::exception& error) {
    on_lost_(fmt::format("communication with it failed: {}", error.what()));
  }
  abort_state_.close_control();
}

/// Returns after the store's answer to the leave frame, after kLeaveTicks without this answer, or if the store is lost.
void ControlConnection::exchange_frames() {
  int silent_ticks = 0;
  int ticks_until_heartbeat = 0;
  int ticks_since_leave = 0;
  bool has_sent_abort = false;
  bool has_sent_leave = false;
  while (ticks_since_leave < kLeaveTicks) {
    if (!has_sent_abort) has_sent_abort = send_own_failure();
    if (is_leaving_ && !has_sent_leave) {
      send_leave();
      has_sent_leave = true;
    }
    if (ticks_until_heartbeat == 0 && !has_sent_leave) {
      channel_.send(FrameKind::heartbeat, make_heartbeat());
      ticks_until_heartbeat = heartbeat_ticks_;
    }

    if (const auto received = channel_.receive(kTickMs)) {
      silent_ticks = 0;
      if (received->kind == FrameKind::failure) {
        MessageReader reader(received->body);
        abort_state_.record_failure(unpack_failure(reader));
      }
      if (received->kind == FrameKind::leave && has_sent_leave) return;
      continue;  // no tick has passed
    }
    --ticks_until_heartbeat;
    if (channel_.ended()) return on_connection_lost("its connection closed before the job ended");
    const bool is_silent_tick = channel_.idle();  // false if a part of a frame arrived
    if (!is_silent_tick) continue;
    if (has_sent_leave) ++ticks_since_leave;
    ++silent_ticks;
    if (silent_ticks > max_silent_ticks_) {
      on_connection_lost(fmt::format("it sent nothing for {:g} s; it is stopped, or the network to its host is down",
                                     max_silent_ticks_ * kTickMs * 1e-3));
      return send_loss_of_store();
    }
  }
}

/// Sends the job's failure to the store if a failure began in this process, else returns false.
bool ControlConnection::send_own_failure() {
  const auto failure = abort_state_.failure_to_send();
  if (failure) channel_.send(FrameKind::abort, packed(*failure));
  return failure.has_value();
}

/// Sends the leave frame, or the withdraw frame if this process has withdrawn.
void ControlConnection::send_leave() {
  const std::string reason = abort_state_.withdrawal_reason();
  if (reason.empty())
    channel_.send(FrameKind::leave, {});
  else
    channel_.send(FrameKind::withdraw, MessageWriter().add(reason).bytes());
}

void ControlConnection::on_connection_lost(const std::string& cause) {
  is_lost_ = true;
  on_lost_(cause);
}

/// Sends process 0 the message of its own loss. If process 0 was stopped and continues, it reads this message before it
/// notices that connections closed meanwhile. So it does not name a process that only ended because of it.
void ControlConnection::send_loss_of_store() {
  if (abort_state_.tolerates_losses()) return;  // the job may continue without this process
  if (const auto failure = abort_state_.failure()) channel_.send(FrameKind::abort, packed(*failure));
}

/// Returns the progress of each local rank, as ProcessTracker::record_heartbeat reads it.
Bytes ControlConnection::make_heartbeat() const {
  MessageWriter heartbeat;
  for (const LocalRank& rank : local_ranks_)
    heartbeat.add(static_cast<std::uint8_t>(rank.phase.load(std::memory_order_relaxed)))
        .add(rank.steps.load(std::memory_order_relaxed))
        .add(rank.issued.operations())
        .add(rank.issued.bytes());
  return heartbeat.bytes();
}

}  // namespace busbw
