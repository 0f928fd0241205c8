// Moves bytes with non-blocking calls until all flows are done, and polls if no socket is ready.
#include "backends/host/sockets/socket_exchange.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>

#include "common/support/error.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

/// Maximum bytes of one system call, so that sends and receives alternate.
constexpr std::size_t kMaxBytesPerCall = std::size_t{256} << 10;

}  // namespace

SocketExchange::SocketExchange(const SocketMesh& mesh, const Team& team, int peer_loss_grace_ticks)
    : mesh_(mesh), team_(team), peer_loss_grace_ticks_(peer_loss_grace_ticks) {}

SocketExchange::FlowState& SocketExchange::add_flow(std::vector<FlowState>& flows, int peer, std::byte* data,
                                                    std::size_t bytes) {
  FlowState flow;
  flow.peer = peer;
  flow.connection = mesh_.connection(peer);
  flow.data = data;
  flow.bytes = bytes;
  for (std::size_t i = flows.size(); i-- > 0;) {  // from the newest flow to the oldest
    if (flows[i].peer != peer) continue;
    flow.previous = i;
    break;
  }
  return flows.emplace_back(flow);
}

void SocketExchange::send(int peer, const std::byte* data, std::size_t bytes, bool is_peer_busy) {
  add_flow(sends_, peer, const_cast<std::byte*>(data), bytes).is_peer_busy = is_peer_busy;
}

SocketExchange::FlowId SocketExchange::receive(int peer, std::byte* data, std::size_t bytes, bool is_peer_busy) {
  add_flow(recvs_, peer, data, bytes).is_peer_busy = is_peer_busy;
  return recvs_.size() - 1;
}

void SocketExchange::forward(int peer, const std::byte* data, std::size_t bytes, FlowId source) {
  add_flow(sends_, peer, const_cast<std::byte*>(data), bytes).source = source;
}

void SocketExchange::finish_receives() { move_all_flows(/*finishes_sends=*/false); }

void SocketExchange::finish() { move_all_flows(/*finishes_sends=*/true); }

// Proof that ranks do not wait for each other in a cycle, under the conditions in the header. The progress of a flow is
// the number of its moved bytes. Let S be the unfinished send with the least progress on all ranks, and let R be the
// matching receive. Assume that S is blocked. Then bytes of S wait in the network, so R has less progress than S, and R
// could read. So R waits for unsent data of a send T on the same rank. T starts at the address of R or later, so T has
// at most as much progress as R, and less than S. This contradicts the choice of S.
void SocketExchange::finish_in_place() {
  in_place_ = true;
  move_all_flows(/*finishes_sends=*/true);
  in_place_ = false;
}

bool SocketExchange::are_complete(const std::vector<FlowState>& flows) {
  return std::ranges::all_of(flows, &FlowState::is_complete);
}

void SocketExchange::move_all_flows(bool finishes_sends) {
  idle_ticks_ = 0;
  while (!are_complete(recvs_) || (finishes_sends && !are_complete(sends_))) {
    throw_if_aborted(team_);
    if (move_ready_flows()) {
      idle_ticks_ = 0;
    } else {
      wait();
    }
  }
  recvs_.clear();
  if (finishes_sends) sends_.clear();
}

std::size_t SocketExchange::sendable_bytes(const FlowState& send) const {
  return send.source ? recvs_[*send.source].done_bytes : send.bytes;
}

std::size_t SocketExchange::receivable_bytes(const FlowState& recv) const {
  if (!in_place_) return recv.bytes;
  // In place, received data must not overwrite data that is not sent yet.
  const std::byte* const position = recv.data + recv.done_bytes;
  const std::byte* writable_end = recv.data + recv.bytes;
  for (const FlowState& send : sends_) {
    const std::byte* const unsent_begin = send.data + send.done_bytes;
    const std::byte* const unsent_end = send.data + send.bytes;
    const bool is_sent = unsent_begin == unsent_end;
    const bool is_in_the_way = std::less{}(unsent_begin, writable_end) && std::less{}(position, unsent_end);
    if (!is_sent && is_in_the_way) writable_end = unsent_begin;
  }
  const bool is_writable = std::less{}(position, writable_end);
  return is_writable ? static_cast<std::size_t>(writable_end - recv.data) : recv.done_bytes;
}

bool SocketExchange::is_next(const std::vector<FlowState>& flows, const FlowState& flow) {
  return !flow.previous || flows[*flow.previous].is_complete();
}

bool SocketExchange::move_ready_flows() {
  bool has_moved = false;
  for (FlowState& send : sends_) {
    if (send.ready && !send.is_complete() && is_next(sends_, send))
      has_moved |= move_flow(send, /*is_send=*/true, sendable_bytes(send));
  }
  for (FlowState& recv : recvs_) {
    if (recv.ready && !recv.is_complete() && is_next(recvs_, recv))
      has_moved |= move_flow(recv, /*is_send=*/false, receivable_bytes(recv));
  }
  return has_moved;
}

bool SocketExchange::move_flow(FlowState& flow, bool is_send, std::size_t limit_bytes) {
  if (flow.done_bytes >= limit_bytes) return false;
  const std::size_t max_bytes = std::min(limit_bytes - flow.done_bytes, kMaxBytesPerCall);
  std::byte* const position = flow.data + flow.done_bytes;
  const ssize_t moved_bytes = is_send ? ::send(flow.connection, position, max_bytes, MSG_NOSIGNAL)
                                      : ::recv(flow.connection, position, max_bytes, 0);
  if (moved_bytes > 0) {
    flow.done_bytes += static_cast<std::size_t>(moved_bytes);
    flow.ready = static_cast<std::size_t>(moved_bytes) == max_bytes;
    return true;
  }
  const bool is_closed = moved_bytes == 0;
  if (!is_closed && errno == EINTR) return true;
  if (!is_closed && errno == EAGAIN) {
    flow.ready = false;
    return false;
  }
  handle_lost_peer(flow.peer, is_closed ? "it closed the connection" : std::strerror(errno));
  return true;
}

void SocketExchange::wait() {
  polled_.clear();
  polled_flows_.clear();
  const auto poll_for = [&](FlowState& flow, short event) {
    polled_.push_back({flow.connection, event, 0});
    polled_flows_.push_back(&flow);
  };
  for (FlowState& send : sends_) {
    if (send.done_bytes < sendable_bytes(send) && is_next(sends_, send)) poll_for(send, POLLOUT);
  }
  for (FlowState& recv : recvs_) {
    if (recv.done_bytes < receivable_bytes(recv) && is_next(recvs_, recv)) poll_for(recv, POLLIN);
  }
  const int ready_count = poll(polled_.data(), polled_.size(), kTickMs);
  if (ready_count == 0 && max_idle_ticks_) {
    ++idle_ticks_;
    give_up_stalled_peers();
  }
  if (ready_count <= 0) return;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) polled_flows_[i]->ready = true;
  }
}

void SocketExchange::give_up_stalled_peers() {
  const int max_busy_ticks = (*max_idle_ticks_ * 3 + 1) / 2;  // 1.5 times the limit, rounded up
  std::set<int> stalled_peers;
  for (const FlowState* flow : polled_flows_) {
    const int limit_ticks = flow->is_peer_busy ? max_busy_ticks : *max_idle_ticks_;
    if (idle_ticks_ >= limit_ticks) stalled_peers.insert(flow->peer);
  }
  if (stalled_peers.empty()) return;
  const std::string reason = fmt::format("timed out: no data moved for {:g} s", idle_ticks_ * kTickMs * 1e-3);
  for (const int peer : stalled_peers) give_up(peer, reason);
}

void SocketExchange::handle_lost_peer(int peer, const char* reason) {
  if (!max_idle_ticks_) throw_peer_lost(peer, reason);
  give_up(peer, fmt::format("{} was lost: {}", mesh_.name_of(peer), reason));
}

/// Ends the flows of a peer. Closes the connection, so that the peer gives up as well and no old data arrives later.
void SocketExchange::give_up(int peer, const std::string& reason) {
  failed_peers_.emplace(peer, reason);
  shutdown(mesh_.connection(peer), SHUT_RDWR);
  for (auto* flows : {&sends_, &recvs_})
    for (FlowState& flow : *flows)
      if (flow.peer == peer) flow.done_bytes = flow.bytes;
}

void SocketExchange::throw_peer_lost(int peer, const char* reason) const {
  // A lost process closes its connections before the job reports why it ended. The job's message has more details.
  for (int tick = 0; tick < peer_loss_grace_ticks_; ++tick) {
    throw_if_aborted(team_);
    poll(nullptr, 0, kTickMs);
  }
  throw Error(ExitCode::rank_lost,
              fmt::format("{} was lost in phase {}: {}; check its output and whether its host is up",
                          mesh_.name_of(peer), name(phase_), reason));
}

}  // namespace busbw
