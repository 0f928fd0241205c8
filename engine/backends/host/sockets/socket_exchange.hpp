#pragma once
// All sends and receives of one operation over sockets, which progress together. A flow is one send or receive.
#include <poll.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
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

  /// Time that a rank waits for the job's own failure message after it lost a peer.
  static constexpr int kPeerLossGraceTicks = 10 * kTicksPerS;

  /// Mesh and team must outlive this.
  SocketExchange(const SocketMesh& mesh, const Team& team, int peer_loss_grace_ticks = kPeerLossGraceTicks);

  /// Adds a flow. `is_peer_busy`: the peer also waits for other ranks; see `give_up_after`.
  void send(int peer, const std::byte* data, std::size_t bytes, bool is_peer_busy = false);
  FlowId receive(int peer, std::byte* data, std::size_t bytes, bool is_peer_busy = false);
  /// Sends the data that flow `source` receives, as it arrives. Both flows have the same size.
  void forward(int peer, const std::byte* data, std::size_t bytes, FlowId source);

  /// Returns when all receives are complete, and forgets them: no unfinished send may be forwarded from one of them.
  /// Throws JobAborted if the team is aborted. Throws Error(ExitCode::rank_lost) if a peer is lost and the job does not
  /// abort within the grace period.
  void finish_receives();
  /// Like `finish_receives`, and waits until all sends are handed to the system.
  void finish();
  /// Like `finish`, for receives that overlap sends: overwrites a byte only after it was sent. Ranks do not wait for
  /// each other in a cycle if all of these are true:
  /// 1. Each pair of ranks has at most one flow in each direction.
  /// 2. No send is forwarded.
  /// 3. The sends of a rank do not overlap.
  /// 4. Each receive starts at the address of a send, or overlaps no send.
  void finish_in_place();

  /// From now on, gives up lost peers. After `idle_ticks` without data, gives up the awaited peers that are not busy.
  /// After 1.5 x `idle_ticks`, gives up the busy peers too. By then, a busy peer should have given up the peer that
  /// stalled it, and move data again. The flows of given up peers count as complete. Without this call, a rank waits
  /// for stalled peers until the job is aborted.
  void give_up_after(int idle_ticks) { max_idle_ticks_ = idle_ticks; }
  /// Continues after `SocketMesh::reconnect`. Peers count as given up only if the mesh could not reach them.
  void restart() { failed_peers_ = mesh_.unreachable(); }
  /// Peers that were given up, with the reason. Add no flow with them.
  const std::map<int, std::string>& failed_peers() const { return failed_peers_; }

  /// Sets the phase that error messages name.
  void enter(Phase phase) { phase_ = phase; }

 private:
  struct FlowState {
    int peer = 0;
    int connection = -1;
    std::byte* data = nullptr;  // sends only read it
    std::size_t bytes = 0;
    std::size_t done_bytes = 0;  // moved so far
    std::optional<FlowId> previous;  // previous flow with the same peer and direction, which goes first
    std::optional<FlowId> source;    // of a forwarded send: the receive that supplies its data
    bool is_peer_busy = false;
    bool ready = true;  // false after the socket moved fewer bytes than requested, until poll reports the socket

    bool is_complete() const { return done_bytes == bytes; }
  };

  FlowState& add_flow(std::vector<FlowState>& flows, int peer, std::byte* data, std::size_t bytes);
  /// Moves bytes until all receives, and with `finishes_sends` all sends, are complete.
  void move_all_flows(bool finishes_sends);
  static bool are_complete(const std::vector<FlowState>& flows);
  /// Maximum of `done_bytes` at this moment. A forwarded send can only move what its source has received. An in-place
  /// receive must not overwrite data that is not sent yet.
  std::size_t sendable_bytes(const FlowState& send) const;
  std::size_t receivable_bytes(const FlowState& recv) const;
  /// True if all earlier flows with the same peer and direction are complete.
  static bool is_next(const std::vector<FlowState>& flows, const FlowState& flow);
  /// Moves bytes of each flow that is ready. Returns true if another call may move more at once, without `wait`.
  bool move_ready_flows();
  /// Moves bytes of one flow, up to `limit_bytes` in total. Returns like `move_ready_flows`.
  bool move_flow(FlowState& flow, bool is_send, std::size_t limit_bytes);
  /// Polls for at most one tick. Gives up peers of polled flows if nothing has moved for too long.
  void wait();
  void give_up_stalled_peers();
  /// Gives up the peer, or throws if that is not allowed.
  void handle_lost_peer(int peer, const char* reason);
  [[noreturn]] void throw_peer_lost(int peer, const char* reason) const;
  void give_up(int peer, const std::string& reason);

  const SocketMesh& mesh_;
  const Team& team_;
  int peer_loss_grace_ticks_;
  Phase phase_ = Phase::initialisation;
  bool in_place_ = false;
  std::optional<int> max_idle_ticks_;  // set by `give_up_after`
  int idle_ticks_ = 0;  // since a byte was moved
  std::map<int, std::string> failed_peers_;
  std::vector<FlowState> sends_;
  std::vector<FlowState> recvs_;
  std::vector<pollfd> polled_;
  std::vector<FlowState*> polled_flows_;
};

}  // namespace busbw
