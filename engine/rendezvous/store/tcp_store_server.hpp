#pragma once
// TCP server of process 0 for the rendezvous store, run by LaunchedJob. Its thread answers requests, tracks joined and
// lost processes, and broadcasts the job's failure. It rejects connections without the job's token.
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "common/os/network.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/channel/handshake.hpp"
#include "rendezvous/store/process_tracker.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Settings of the server, constant for the job.
struct ServerSettings {
  std::string token;
  int processes = 1;
  int ranks_per_process = 1;
  /// Ticks (0.1 s) without a heartbeat after which a process is lost. Time in which process 0 is stopped does not
  /// count.
  int silence_ticks = 30 * kTicksPerS;
  /// Host of process 0, sent to every client.
  std::string host;
};

/// Server of one job. Its functions may be called from any thread.
class TcpStoreServer {
 public:
  /// Starts a thread that serves the listening sockets. Throws EnvironmentError if the limit on open files is too low.
  TcpStoreServer(std::vector<Descriptor> listeners, const ServerSettings& settings);
  /// Closes all connections without a message.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  const ProcessTracker& tracker() const { return tracker_; }
  /// Aborts the job and informs all clients.
  void abort(const Failure& failure) noexcept;
  /// See ProcessTracker::tolerate_losses.
  void tolerate_losses(bool is_tolerated) { tracker_.tolerate_losses(is_tolerated); }
  /// Like ProcessTracker::lose_missing_processes, and informs all clients: the job has failed, or continues without
  /// these processes.
  void lose_missing_processes(const std::vector<std::string>& hosts, const std::string& event);
  /// Like ProcessTracker::lose_processes, and ends the connections of these processes.
  bool lose_processes(const std::set<int>& processes, const std::string& event);
  /// See ProcessTracker::wait_until_all_left.
  bool wait_until_all_left(int ticks, bool also_missing = false) {
    return tracker_.wait_until_all_left(ticks, also_missing);
  }
  /// Returns the number of rejected connections: wrong token, no greeting in time, another protocol or version, invalid
  /// frames, or too many connections. Clients retry, so wrong tokens count once for each missing process, and other
  /// versions count once.
  int rejected_connections() const { return rejected_connections_.load(); }

 private:
  struct Connection {
    Descriptor socket;
    FrameReader received;
    Bytes output;
    std::size_t sent_bytes = 0;  // number of bytes at the start of `output` that are already sent
    int unauthenticated_ticks = 0;  // ticks without a valid greeting
    std::optional<ServerHandshake> handshake;
    bool is_authenticated = false;
    bool is_control = false;  // see ClientInfo
    int process = 0;
    bool knows_failure = false;     // the failure was sent to this client
    bool closes_when_sent = false;  // close when `output` is sent: the client is rejected, or its process is lost
    bool watches_writable = false;  // epoll reports when the connection is writable
  };
  struct ClosedConnection {
    int process = 0;
    bool is_control = false;
  };
  void run_server_thread();
  void handle_events();
  void accept_connections(const Descriptor& listener);
  /// Returns false if all connections are authenticated.
  bool reject_oldest_unauthenticated();
  void set_accepting(bool accepting);
  void on_tick();
  /// Reads and handles the available frames of one connection.
  void read(std::uint64_t id);
  /// Reads and handles the available frames of all connections of a process.
  void read_from_process(int process);
  std::vector<std::uint64_t> connections_of(int process) const;
  void write(std::uint64_t id);
  void close(std::uint64_t id);
  void report_closed_connections();
  /// Informs the clients after the loss of a process: the job has failed, or continues without this process.
  void handle_lost_processes();
  void reject(std::uint64_t id);
  void handle_frame(std::uint64_t id, std::span<const std::byte> frame);
  void handle_handshake_frame(std::uint64_t id, FrameKind kind, std::span<const std::byte> body);
  void reject_version(std::uint64_t id, char version);
  void handle_greeting(std::uint64_t id, const ServerHandshake& handshake, std::span<const std::byte> body);
  /// Sends the reply to the connection with the id `reply.client`.
  void send_reply(const StoreReply& reply);
  void send(std::uint64_t id, FrameKind kind, std::span<const std::byte> body);
  void broadcast_failure();
  /// Sends a lost process the reason, and closes its connections then. The job continues without it.
  void expel(int process, const Loss& loss);
  void wake() noexcept;
  void set_watches_writable(Connection& connection, std::uint64_t id, bool watches_writable);

  ServerSettings settings_;
  std::vector<Descriptor> listeners_;
  Descriptor poller_;
  Ticker ticker_;
  Descriptor wake_;  // event that other threads signal after they have changed `tracker_` or `should_stop_`
  std::atomic<int> rejected_connections_{0};
  std::atomic<bool> should_stop_{false};
  ProcessTracker tracker_;

  // Only the server thread uses the following members.
  Bytes buffer_;  // receive buffer
  std::map<std::uint64_t, Connection> connections_;
  std::set<std::uint64_t> unauthenticated_;  // connections that are not authenticated, oldest first
  std::vector<ClosedConnection> closed_connections_;  // closed, not reported to the tracker yet
  std::uint64_t next_id_;
  StoreState state_;
  bool is_accepting_ = true;  // false while no more files can be opened

  std::thread thread_;  // the last member, because it uses all others
};

}  // namespace busbw
