#pragma once
// Control connection of a process to the store of process 0. A thread sends the progress and the failure of this
// process, and receives the job's failure.
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>

#include "common/os/ticker.hpp"
#include "rendezvous/abort_state.hpp"
#include "rendezvous/channel/tcp_channel.hpp"
#include "rendezvous/rendezvous_point.hpp"
#include "rendezvous/store_team.hpp"

namespace busbw {

/// Time that a process waits for the answer to its leave frame, and process 0 for the other processes to leave.
inline constexpr int kLeaveTicks = 5 * kTicksPerS;

/// Returns the time without a frame after which the other end of a control connection counts as lost, in ticks.
int max_silent_ticks(const Membership& membership);
/// Returns the maximum interval of heartbeats in ticks: 0.5 s, or more in a large job, because process 0 receives the
/// heartbeats of all processes.
int max_heartbeat_ticks(const Membership& membership);

/// Control connection of this process.
class ControlConnection {
 public:
  /// `on_lost` receives the cause if the store is lost; the control thread calls it. `local_ranks` and `abort_state`
  /// must outlive the connection.
  ControlConnection(TcpChannel channel, const Membership& membership, std::span<const LocalRank> local_ranks,
                    AbortState& abort_state, std::function<void(const std::string& cause)> on_lost);
  ~ControlConnection() { leave(); }
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  /// Starts the thread. `on_lost` may be called from now on.
  void start();
  /// Leaves the job: sends the leave frame, or the reason if the process has withdrawn. Waits up to 5 s for the answer
  /// of the store.
  void leave() noexcept;
  bool is_leaving() const { return is_leaving_; }
  /// True if process 0 closed this connection, or is silent.
  bool is_lost() const { return is_lost_; }
  /// Returns the address of the store: "10.0.0.1:4711". Call it before `start`.
  std::string peer() const { return channel_.peer(); }

 private:
  void run_thread() noexcept;
  void exchange_frames();
  bool send_own_failure();
  void send_leave();
  void on_connection_lost(const std::string& cause);
  void send_loss_of_store();
  Bytes make_heartbeat() const;

  TcpChannel channel_;  // after `start`, used only by the thread
  const int max_silent_ticks_;
  const int heartbeat_ticks_;
  std::span<const LocalRank> local_ranks_;
  AbortState& abort_state_;
  std::function<void(const std::string&)> on_lost_;
  std::atomic<bool> is_leaving_{false};
  std::atomic<bool> is_lost_{false};
  std::thread thread_;
};

}  // namespace busbw
