#pragma once
// The rendezvous of a launched job: process 0 listens at an address, and the other processes find this address and
// connect. World::store tells the processes where to search: detect_world() (world/world.hpp) derives it from
// BUSBW_RENDEZVOUS or the launcher's variables. LaunchedJob uses this class.
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/os/network.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/channel/tcp_channel.hpp"
#include "rendezvous/store/address_file.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

inline constexpr int kFirstStatusTicks = 3 * kTicksPerS;  // time until a wait prints its first status message
inline constexpr int kStatusTicks = 10 * kTicksPerS;      // interval of the later status messages

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
  /// True if the job continues without processes that cannot start, except process 0. See Job::tolerate_losses.
  bool tolerates_losses = false;
  /// All hosts of the job, in the order of its processes. Empty if unknown.
  std::vector<std::string> hosts = {};
};

/// Called by the waiting thread while processes join and while LaunchedJob::agree waits.
struct JoinCallbacks {
  /// Receives a status message from time to time, such as the processes that have not joined yet.
  std::function<void(const std::string&)> on_status;
  /// Called at least ten times a second. An exception ends the wait and the job.
  std::function<void()> on_tick;
};

/// Address that process 0 publishes in a folder or in the launcher's key-value store.
struct PublishedAddress {
  std::string hosts;  // each followed by a blank
  int port = 0;
  std::string token;  // made by process 0; empty if all processes have the job's token

  static auto members(auto& self) { return std::tie(self.hosts, self.port, self.token); }
};

/// Process 0 calls `start_listening` and `withdraw_address`; every process, including process 0, calls `join`.
class RendezvousPoint {
 public:
  /// Does not connect yet. `callbacks` are called during `start_listening` and `join`.
  RendezvousPoint(const Membership& membership, JoinCallbacks callbacks);

  /// Process 0: returns listening sockets. Publishes their address if the other processes do not know it
  /// (FileStoreAddress, LauncherStoreChoice). Throws EnvironmentError if no socket can listen.
  std::vector<Descriptor> start_listening();
  /// Process 0, after `start_listening`: returns "10.8.0.3:25000" or "port 25000 of every address".
  const std::string& listen_address_text() const { return listen_address_text_; }
  /// Process 0: removes the address file that `start_listening` published, if there is one.
  void withdraw_address();
  /// Returns a connection that process 0 has accepted: the control connection if `is_control`, else the connection of
  /// one rank. Throws Error with the last problem and a remedy.
  TcpChannel join(bool is_control);
  /// Returns the job's token. With an address file or a launcher's store, process 0 may make the token. The other
  /// processes then know the token only after the first join.
  const std::string& token() const { return membership_.token; }
  /// Returns the host of process 0, or an empty string before the first join.
  const std::string& process_0_host() const { return process_0_host_; }

 private:
  /// Elapsed time and problems of one call of `join`.
  struct JoinAttempt {
    int limit_ticks = 0;
    Ticker ticker = {};
    int tick = 0;  // time since the start of `join`, at the last take_ticks_left()
    std::string error = {};  // last problem
    /// Message about a token or version mismatch at a candidate address, in the current round over all candidates.
    /// Empty without a mismatch. The program at this address may not belong to the job, so `join` first tries further
    /// rounds.
    std::string rejection = {};

    /// Updates `tick`. Returns the time left, or 0.
    int take_ticks_left();
  };
  /// One address at which process 0 may listen.
  struct CandidateAddress {
    Endpoint endpoint;
    std::string message_prefix;  // "node1 at " if the address was resolved from a host name, else empty
  };
  /// Result of a search for process 0.
  struct CandidateLookup {
    std::vector<CandidateAddress> candidates;
    std::string problem;  // last reason for which an address is unknown; empty if all addresses are known
  };
  void publish(const PublishedAddress& address);
  std::optional<PublishedAddress> read_published();
  std::string share_through_launcher(const std::string& text) const;
  CandidateLookup find_candidates();
  std::optional<TcpChannel> try_candidates(bool is_control, int max_connect_ticks, JoinAttempt& attempt);
  bool run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_control, int limit_ticks,
                     JoinAttempt& attempt);

  Membership membership_;
  JoinCallbacks callbacks_;
  const bool has_own_token_;  // `membership.token` is set, so the published address has none
  std::optional<AddressFile> address_file_;  // only with BUSBW_RENDEZVOUS=file:...
  std::optional<PublishedAddress> launcher_address_;  // only with a launcher's store, which is read once
  std::vector<CandidateAddress> candidates_;  // from the last lookup; the last successful address first
  Endpoint own_endpoint_;  // in process 0: endpoint for the connections to its own store
  std::string listen_address_text_;
  std::string process_0_host_;
};

}  // namespace busbw
