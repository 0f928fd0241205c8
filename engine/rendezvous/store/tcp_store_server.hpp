#pragma once
// The store of a job as process 0 holds it for all: a thread that answers over TCP, sees who has come and who is lost,
// and tells everybody when the job is aborted. Strangers are turned away.
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "common/os/network.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/store/handshake.hpp"
#include "rendezvous/store/process_tracker.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

struct ServerSettings {
  std::string token;
  int processes = 1;
  int ranks_per_process = 1;
  /// How long a process may be silent, in ticks in which this one runs itself.
  int silence_ticks = 30 * kTicksPerS;
  /// This process's, for those who come.
  std::string host;
};

class TcpStoreServer {
 public:
  /// Serves at these listening sockets, in a thread of its own. Throws EnvironmentError where the machine allows too
  /// few open files for the job.
  TcpStoreServer(std::vector<Descriptor> listeners, const ServerSettings& settings);
  /// Tells nobody: connections just end.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// Who has come, and what became of them.
  const ProcessTracker& attendance() const { return attendance_; }
  /// Aborts the job: everybody is told.
  void abort(const Failure& why) noexcept;
  /// See Attendance.
  bool wait_until_all_left(int ticks, bool also_absent = false) {
    return attendance_.wait_until_all_left(ticks, also_absent);
  }
  /// Connections that were turned away: wrong token, no greeting in time, not our protocol or another version of it.
  int rejected_connections() const { return strangers_.load(); }

 private:
  struct Connection {
    Descriptor socket;
    FrameReader in;
    Bytes out;
    std::size_t sent = 0;      // of out
    int silent_ticks = 0;      // before it is known
    std::optional<ServerHandshake> handshake;
    bool is_known = false;
    bool is_process = false;
    int process = 0;
    bool knows_failure = false;      // of the failure
    bool closes_when_sent = false;         // once everything is sent
    bool waits_to_write = false;
  };
  struct ClosedConnection {
    int process = 0;
    bool is_process = false;
  };
  void serve();
  void answer_all();
  void accept_all(const Descriptor& listener);
  bool make_room();
  void listen_again(bool on);
  void tick();
  void read(std::uint64_t id);
  void read_all_of(int process);
  void write(std::uint64_t id);
  void close(std::uint64_t id);
  void report_closed();
  void reject(std::uint64_t id);
  void take_frame(std::uint64_t id, std::span<const std::byte> body);
  void take_handshake_frame(std::uint64_t id, FrameKind kind, std::span<const std::byte> body);
  void reject_version(std::uint64_t id, char version);
  void greet(std::uint64_t id, const ServerHandshake& handshake, std::span<const std::byte> body);
  void send(std::uint64_t id, FrameKind kind, std::span<const std::byte> body);
  void broadcast_failure();
  void wake() noexcept;
  void watch(Connection& connection, std::uint64_t id, bool also_writable);

  ServerSettings settings_;
  std::vector<Descriptor> listeners_;
  Descriptor poller_;
  Ticker ticker_;
  Descriptor wake_;
  Bytes part_;                                       // what was read last; this and what follows is the thread's own
  std::map<std::uint64_t, Connection> connections_;
  std::set<std::uint64_t> unknown_;                  // of them, those that have not said who they are
  std::vector<ClosedConnection> ended_;                         // closed, and not made known yet
  std::uint64_t next_id_;
  StoreState state_;
  bool accepts_ = true;  // false for a moment where no more files can be opened
  std::atomic<int> strangers_{0};
  std::atomic<bool> stops_{false};

  ProcessTracker attendance_;
  std::thread thread_;
};

}  // namespace busbw
