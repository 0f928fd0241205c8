#pragma once
// The rendezvous of a launched job: process 0 listens at an address, and the other processes find it and connect.
// LaunchedJob uses it.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/os/network.hpp"
#include "rendezvous/store/tcp_channel.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

class FileStore;

/// Position of one process in a launched job, with its limits.
struct Membership {
  int process = 0;
  int processes = 1;
  int ranks_per_process = 1;
  StoreAddress store;
  std::string token;
  /// Time limit for all processes to join.
  double join_limit_s = 60;
  /// Time limit for each wait before the ranks start (-T).
  double step_limit_s = 600;
  /// Time without a received frame after which a process is lost.
  double silence_s = 30;
};

/// Called by the waiting thread while processes join and agree.
struct JoinCallbacks {
  /// Receives a status message from time to time, with the missing processes.
  std::function<void(const std::string&)> on_status;
  /// Called at least ten times a second. An exception ends the wait and the job.
  std::function<void()> on_tick;
};

/// `open` and `close` are for process 0, `join` is for every process including process 0.
class RendezvousPoint {
 public:
  /// Does not connect yet. `callbacks` are called during `open` and `join`.
  RendezvousPoint(const Membership& membership, JoinCallbacks callbacks);
  ~RendezvousPoint();

  /// Process 0: returns listening sockets and publishes their address. Throws EnvironmentError if it cannot listen.
  std::vector<Descriptor> open();
  /// Process 0, after `open`: returns "10.8.0.3:25000" or "port 25000 of every address".
  const std::string& listen_address_text() const { return listen_text_; }
  /// Process 0: removes the address that `open` published.
  void close();
  /// Returns a connection that process 0 has accepted: the control connection if `is_process`, else the connection of
  /// one rank. Throws Error with the last problem and a remedy.
  TcpChannel join(bool is_process);
  /// Returns the job's token. With a folder, it is known after process 0 has been found.
  const std::string& token() const { return membership_.token; }
  /// Returns the host of process 0, or an empty string before the first join.
  const std::string& first_host() const { return first_host_; }

 private:
  /// Problems of the last attempt to connect to all addresses.
  struct JoinAttempt {
    std::string error;      // last problem
    std::string rejection;  // token or version mismatch at an address; not authenticated
  };
  /// One address at which process 0 may listen.
  struct CandidateAddress {
    Endpoint endpoint;
    std::string name;  // for messages: "node1 at " if the address was resolved from a name, else empty
  };
  std::vector<CandidateAddress> find_candidates(std::string& error);
  bool run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_process, int limit_ticks,
                     JoinAttempt& attempt);

  Membership membership_;
  JoinCallbacks callbacks_;
  const bool has_own_token_;  // BUSBW_TOKEN is set, so the folder does not transfer the token
  std::unique_ptr<FileStore> file_store_;  // null unless BUSBW_RENDEZVOUS=file:...
  std::vector<CandidateAddress> candidates_;  // from the last lookup; the last successful address first
  Endpoint own_endpoint_;  // of the store, as process 0 reaches it
  std::string listen_text_;
  std::string first_host_;
};

}  // namespace busbw
