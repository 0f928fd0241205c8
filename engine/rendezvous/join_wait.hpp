#pragma once
// Wait of process 0 until all processes of the job have joined, and the messages about processes that are missing.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/abort_state.hpp"
#include "rendezvous/rendezvous_point.hpp"
#include "rendezvous/store/tcp_store_server.hpp"

namespace busbw {

/// The wait of one job. The arguments must outlive it.
class JoinWait {
 public:
  JoinWait(TcpStoreServer& server, const Membership& membership, const JoinCallbacks& callbacks,
           const AbortState& abort_state, const std::string& listen_address_text)
      : server_(server),
        membership_(membership),
        callbacks_(callbacks),
        abort_state_(abort_state),
        listen_address_text_(listen_address_text) {}

  /// Waits until every process has joined or is lost, and reports missing processes from time to time. After the time
  /// limit, they count as lost if the job tolerates losses; otherwise throws Error. Throws JobAborted after an abort,
  /// and Error if a process was refused.
  void run();

 private:
  /// Counts the missing processes as lost if the job tolerates losses, otherwise throws Error.
  void give_up(const std::vector<int>& missing);
  std::string missing_text(const std::vector<int>& missing) const;
  std::string timeout_message(const std::vector<int>& missing) const;
  /// Hint at processes with another token or version, for the end of a message. Empty without such processes.
  std::string mismatch_text() const;

  TcpStoreServer& server_;
  const Membership& membership_;
  const JoinCallbacks& callbacks_;
  const AbortState& abort_state_;
  const std::string& listen_address_text_;
};

}  // namespace busbw
