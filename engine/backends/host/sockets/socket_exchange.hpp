#pragma once
// All sends and receives of one operation over sockets, progressing together.
#include <poll.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/host/sockets/socket_mesh.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/team/team.hpp"
#include "values/phase.hpp"

namespace busbw {

/// Flows of bytes between this rank and its peers, directly from and to the memory of operations. All flows from one
/// rank to another form one TCP stream, in the order in which they were added. Only data is sent, without headers, so
/// both ends must add flows of the same sizes in the same order.
class SocketExchange {
 public:
  using FlowId = std::size_t;

  /// Grace period after a lost peer; the job's own failure message usually arrives first.
  static constexpr int kPeerLossGraceTicks = 10 * kTicksPerS;

  /// Mesh and team must outlive this.
  SocketExchange(const SocketMesh& mesh, const Team& team, int peer_loss_grace_ticks = kPeerLossGraceTicks);

  void send(int peer, const std::byte* data, std::size_t bytes);
  FlowId receive(int peer, std::byte* data, std::size_t bytes);
  /// Sends the data that flow `source` receives, as it arrives. Both flows have the same size.
  void forward(int peer, const std::byte* data, std::size_t bytes, FlowId source);

  /// Return when all added flows are received, or when they are received and handed to the system for sending. Throw
  /// JobAborted if the team is aborted, and Error(ExitCode::rank_lost) if a peer is lost and the job does not abort in
  /// time.
  void finish_receives();
  void finish();
  /// Like `finish`, for receives that overlap sends: overwrites a byte only after it was sent.
  void finish_in_place();

  /// Sets the phase that error messages name.
  void enter(Phase phase) { phase_ = phase; }

 private:
  struct FlowState {
    int peer = 0;
    int connection = -1;
    std::byte* data = nullptr;  // sends only read it
    std::size_t bytes = 0;
    std::size_t done = 0;
    std::optional<FlowId> previous;  // previous flow with the same peer and direction, which goes first
    std::optional<FlowId> source;    // of a forwarded send: the receive that supplies its data
    bool ready = true;               // the socket may be ready, as far as is known
  };

  void add(std::vector<FlowState>& flows, int peer, std::byte* data, std::size_t bytes, std::optional<FlowId> source);
  void run(bool sends_too);
  bool is_complete(const std::vector<FlowState>& flows) const;
  /// Bytes of a flow that may be moved now.
  std::size_t sendable(const FlowState& send) const;
  std::size_t receivable(const FlowState& recv) const;
  bool is_next(const std::vector<FlowState>& flows, const FlowState& flow) const;
  bool progress();
  bool progress(FlowState& send_or_recv, bool sending, std::size_t limit);
  void wait();
  [[noreturn]] void throw_peer_lost(int peer, const char* reason) const;

  const SocketMesh& mesh_;
  const Team& team_;
  int peer_loss_grace_ticks_;
  Phase phase_ = Phase::initialisation;
  bool in_place_ = false;
  std::vector<FlowState> sends_;
  std::vector<FlowState> recvs_;
  std::vector<pollfd> polled_;
  std::vector<FlowState*> polled_flows_;
};

}  // namespace busbw
