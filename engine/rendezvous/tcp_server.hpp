#pragma once
// The store of a job as process 0 holds it for all: a thread that answers over TCP, sees who has come and who is lost,
// and tells everybody when the job is aborted. Strangers are turned away.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "rendezvous/store_state.hpp"
#include "rendezvous/tcp_wire.hpp"
#include "support/network.hpp"

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

class TcpServer {
 public:
  /// Serves at these listening sockets, in a thread of its own. Throws EnvironmentError where the machine allows too
  /// few open files for the job.
  TcpServer(std::vector<Descriptor> listeners, const ServerSettings& settings);
  /// Tells nobody: connections just end.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  /// The processes that have not come yet.
  std::vector<int> missing() const;
  /// How far the rank is, by what its process told last.
  RankProgress progress(int rank) const;
  /// "rank 3 (process 3, pid 123 on n2)"
  std::string name_of_process(int process) const;
  std::string host_of_process(int process) const;
  /// Aborts the job: everybody is told.
  void abort(const Failure& why) noexcept;
  std::optional<Failure> failure() const;
  /// Waits until every process has left or is gone, for at most `ticks`; false where some are still there.
  bool wait_until_all_left(int ticks);
  /// Who came with another token; empty while nobody did. It may be a stranger, so that nothing but words follows from it.
  std::string other_token() const;
  /// What was said to the first process that knows the job's token and yet does not fit in.
  std::optional<Failure> first_refusal() const;
  /// Connections that were turned away: wrong token, no greeting in time, not our protocol.
  int strangers() const { return strangers_.load(); }

 private:
  struct Connection {
    Descriptor socket;
    FrameReader in;
    Bytes out;
    std::size_t sent = 0;      // of out
    int silent_ticks = 0;      // before the greeting
    bool is_known = false;
    bool is_process = false;
    int process = 0;
    bool is_told = false;      // of the failure
    bool ends = false;         // once everything is sent
    bool waits_to_write = false;
  };
  struct Process {
    enum class State { absent, here, left, gone };
    State state = State::absent;
    int rank_connections = 0;
    int silent_ticks = 0;
    long pid = 0;
    std::string host;
    std::vector<RankProgress> ranks;
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
  void turn_away(std::uint64_t id);
  void take_frame(std::uint64_t id, std::span<const std::byte> body);
  void take_beat(int process, MessageReader& reader);
  void take_phase(int process, MessageReader& reader);
  void greet(std::uint64_t id, MessageReader& reader);
  std::optional<Failure> refusal(const Greeting& greeting) const;
  void send(std::uint64_t id, Frame kind, std::span<const std::byte> body);
  void tell_all();
  void lose(int process, const std::string& how);
  std::string name_of(int process) const;
  void watch(Connection& connection, std::uint64_t id, bool also_writable);

  ServerSettings settings_;
  std::vector<Descriptor> listeners_;
  Descriptor poller_;
  Descriptor timer_;
  Descriptor wake_;
  std::map<std::uint64_t, Connection> connections_;  // the thread's own
  std::uint64_t next_id_;
  StoreState state_;
  bool accepts_ = true;  // false for a moment where no more files can be opened
  std::atomic<int> strangers_{0};
  std::atomic<bool> stops_{false};

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Process> processes_;
  std::optional<Failure> failure_;
  std::string other_token_;
  std::optional<Failure> first_refusal_;

  std::thread thread_;
};

}  // namespace busbw
