#pragma once
// Where the processes of a job meet: process 0 listens there, and each process finds it and is welcomed.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/os/network.hpp"
#include "rendezvous/store/tcp_channel.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

class FileStore;

/// One process's place in such a job.
struct Membership {
  int process = 0;
  int processes = 1;
  int ranks_per_process = 1;
  StoreAddress store;
  std::string token;
  /// How long the others may take to come.
  double join_limit_s = 60;
  /// How long one that has come may take to say what it is (-T).
  double step_limit_s = 600;
  /// How long a process may be silent before it is given up.
  double silence_s = 30;
};

/// Called while the processes come together and agree, in the thread that waits.
struct JoinCallbacks {
  /// A sentence now and then about who is waited for.
  std::function<void(const std::string&)> on_status;
  /// At least ten times a second; what it throws ends the wait, and the job.
  std::function<void()> on_tick;
};

class RendezvousPoint {
 public:
  /// `look`: called at least ten times a second by whatever waits; what it throws ends the wait.
  RendezvousPoint(const Membership& membership, JoinCallbacks callbacks);
  ~RendezvousPoint();

  /// In process 0: sockets that listen where the others look. Throws EnvironmentError where they cannot.
  std::vector<Descriptor> open();
  /// In process 0, once it is open: "10.8.0.3:25000", "port 25000 of every address".
  const std::string& listen_address_text() const { return listens_at_; }
  /// In process 0: takes away what `open` wrote down.
  void close();
  /// A connection that process 0 has welcomed: of this process, or of one of its ranks. Throws Error naming what was
  /// tried and what to do.
  TcpChannel join(bool is_process);
  /// The job's token. With a folder it is known once process 0 has been found.
  const std::string& token() const { return membership_.token; }
  /// Process 0's host, once it has been joined.
  const std::string& first_host() const { return first_host_; }

 private:
  /// What became of the last round over all addresses.
  struct JoinAttempt {
    std::string why;          // the last one of them did not answer
    std::string turned_away;  // one of them says that it has another token or version, and which; it may be a stranger
  };
  /// Where process 0 may be.
  struct CandidateAddress {
    Endpoint endpoint;
    std::string name;  // "node1 at " where a name stands for it, for sentences
  };
  std::vector<CandidateAddress> places(std::string& why);
  bool run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_process, int ticks, JoinAttempt& tried);

  Membership membership_;
  JoinCallbacks callbacks_;
  const bool has_own_token_;  // it is not told, nor taken from the folder
  std::unique_ptr<FileStore> folder_;  // BUSBW_RENDEZVOUS=file:...
  std::vector<CandidateAddress> places_;  // as they were found last, where process 0 was reached before all others
  Endpoint own_endpoint_;  // of the store, from process 0
  std::string listens_at_;
  std::string first_host_;
};

}  // namespace busbw
