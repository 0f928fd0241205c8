#pragma once
// All of an operation's sends and receives over sockets, progressing together.
#include <poll.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/host/sockets/socket_mesh.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/team/team.hpp"
#include "values/phase.hpp"

namespace busbw {

/// Flows of bytes between this rank and its peers, straight from and to the memory of operations. The flows between two
/// ranks in one direction are one stream in the order in which they were added at either end, so nothing but data goes
/// over the wire: as for a collective, both ends add flows of the same sizes in the same order.
class SocketExchange {
 public:
  using FlowId = std::size_t;

  /// So long a rank that lost a peer lets the job say why.
  static constexpr int kPeerLossGraceTicks = 10 * kTicksPerS;

  /// Mesh and team must outlive this.
  SocketExchange(const SocketMesh& mesh, const Team& team, int ticks_for_reason = kPeerLossGraceTicks);

  void send(int peer, const std::byte* data, std::size_t bytes);
  FlowId receive(int peer, std::byte* data, std::size_t bytes);
  /// Sends what `source` receives, as it comes; both have the same size.
  void forward(int peer, const std::byte* data, std::size_t bytes, FlowId source);

  /// Return when all that was added is received, or received and handed to the system to send. Throw Aborted once the
  /// team is, and Error(Exit::rank_lost) when a peer is gone and the job does not end by itself.
  void finish_receives();
  void finish();
  /// As `finish`, where what is received may lie where something to send still lies: a byte is overwritten only after
  /// it was sent.
  void finish_in_place();

  /// For messages.
  void enter(Phase phase) { phase_ = phase; }

 private:
  struct FlowState {
    int peer = 0;
    int connection = -1;
    std::byte* data = nullptr;  // sends only read it
    std::size_t bytes = 0;
    std::size_t done = 0;
    std::optional<FlowId> previous;  // to the same peer in the same direction: goes first
    std::optional<FlowId> source;    // of a forwarded send: the receive that it follows
    bool ready = true;             // as far as is known
  };

  void add(std::vector<FlowState>& streams, int peer, std::byte* data, std::size_t bytes, std::optional<FlowId> source);
  void run(bool sends_too);
  bool complete(const std::vector<FlowState>& streams) const;
  /// Bytes of a stream that may be moved by now.
  std::size_t sendable(const FlowState& send) const;
  std::size_t receivable(const FlowState& recv) const;
  bool is_next(const std::vector<FlowState>& streams, const FlowState& stream) const;
  bool progress();
  bool progress(FlowState& send_or_recv, bool sending, std::size_t limit);
  void wait();
  [[noreturn]] void throw_peer_lost(int peer, const char* how) const;

  const SocketMesh& mesh_;
  const Team& team_;
  int ticks_for_reason_;
  Phase phase_ = Phase::initialisation;
  bool in_place_ = false;
  std::vector<FlowState> sends_;
  std::vector<FlowState> recvs_;
  std::vector<pollfd> polled_;
  std::vector<FlowState*> polled_streams_;
};

}  // namespace busbw
