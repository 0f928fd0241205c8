#include "backends/host/sockets/socket_exchange.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "common/support/error.hpp"

namespace busbw {
namespace {

/// Maximum bytes of one system call, so that sends and receives alternate.
constexpr std::size_t kMaxBytesPerCall = std::size_t{256} << 10;

}  // namespace

SocketExchange::SocketExchange(const SocketMesh& mesh, const Team& team, int peer_loss_grace_ticks)
    : mesh_(mesh), team_(team), peer_loss_grace_ticks_(peer_loss_grace_ticks) {}

void SocketExchange::add(std::vector<FlowState>& flows, int peer, std::byte* data, std::size_t bytes,
                         std::optional<FlowId> source) {
  FlowState added;
  added.peer = peer;
  added.connection = mesh_.connection(peer);
  added.data = data;
  added.bytes = bytes;
  added.source = source;
  for (std::size_t i = flows.size(); i-- > 0;) {
    if (flows[i].peer != peer) continue;
    added.previous = i;
    break;
  }
  flows.push_back(added);
}

void SocketExchange::send(int peer, const std::byte* data, std::size_t bytes) {
  add(sends_, peer, const_cast<std::byte*>(data), bytes, std::nullopt);
}

SocketExchange::FlowId SocketExchange::receive(int peer, std::byte* data, std::size_t bytes) {
  add(recvs_, peer, data, bytes, std::nullopt);
  return recvs_.size() - 1;
}

void SocketExchange::forward(int peer, const std::byte* data, std::size_t bytes, FlowId source) {
  add(sends_, peer, const_cast<std::byte*>(data), bytes, source);
}

void SocketExchange::finish_receives() { run(false); }

void SocketExchange::finish() { run(true); }

// Deadlock is impossible. Take the unfinished send of all ranks with the least progress. If the system accepts no more
// of it, its receiver has taken less, so that receive is not held back. A receive is held back only by an unfinished
// send of the same rank that has made less progress. The send with the least progress has no such obstacle. A receive
// either starts at the address of a send or overlaps none.
void SocketExchange::finish_in_place() {
  in_place_ = true;
  run(true);
  in_place_ = false;
}

bool SocketExchange::is_complete(const std::vector<FlowState>& flows) const {
  return std::ranges::all_of(flows, [](const FlowState& flow) { return flow.done == flow.bytes; });
}

void SocketExchange::run(bool sends_too) {
  while (!is_complete(recvs_) || (sends_too && !is_complete(sends_))) {
    if (team_.aborted()) throw JobAborted{};
    if (!progress()) wait();
  }
  recvs_.clear();
  if (sends_too) sends_.clear();
}

std::size_t SocketExchange::sendable(const FlowState& send) const {
  return send.source ? recvs_[*send.source].done : send.bytes;
}

std::size_t SocketExchange::receivable(const FlowState& recv) const {
  if (!in_place_) return recv.bytes;
  const std::byte* limit = recv.data + recv.bytes;
  for (const FlowState& send : sends_) {
    const std::byte* const unsent = send.data + send.done;
    const std::byte* const end = send.data + send.bytes;
    if (unsent != end && std::less{}(unsent, limit) && std::less{}(recv.data + recv.done, end)) limit = unsent;
  }
  return std::less{}(limit, recv.data + recv.done) ? recv.done : static_cast<std::size_t>(limit - recv.data);
}

bool SocketExchange::is_next(const std::vector<FlowState>& flows, const FlowState& flow) const {
  return !flow.previous || flows[*flow.previous].done == flows[*flow.previous].bytes;
}

bool SocketExchange::progress() {
  bool any = false;
  for (FlowState& send : sends_) {
    if (send.ready && send.done < send.bytes && is_next(sends_, send)) any |= progress(send, true, sendable(send));
  }
  for (FlowState& recv : recvs_) {
    if (recv.ready && recv.done < recv.bytes && is_next(recvs_, recv)) any |= progress(recv, false, receivable(recv));
  }
  return any;
}

bool SocketExchange::progress(FlowState& flow, bool sending, std::size_t limit) {
  if (flow.done >= limit) return false;
  const std::size_t wanted = std::min(limit - flow.done, kMaxBytesPerCall);
  std::byte* const at = flow.data + flow.done;
  const ssize_t moved =
      sending ? ::send(flow.connection, at, wanted, MSG_NOSIGNAL) : ::recv(flow.connection, at, wanted, 0);
  if (moved > 0) {
    flow.done += static_cast<std::size_t>(moved);
    flow.ready = static_cast<std::size_t>(moved) == wanted;
    return true;
  }
  if (moved == 0) throw_peer_lost(flow.peer, "it closed the connection");
  if (errno == EINTR) return true;
  if (errno != EAGAIN) throw_peer_lost(flow.peer, std::strerror(errno));
  flow.ready = false;
  return false;
}

void SocketExchange::wait() {
  polled_.clear();
  polled_flows_.clear();
  const auto poll_for = [&](FlowState& flow, short event) {
    polled_.push_back({flow.connection, event, 0});
    polled_flows_.push_back(&flow);
  };
  for (FlowState& send : sends_) {
    if (send.done < sendable(send) && is_next(sends_, send)) poll_for(send, POLLOUT);
  }
  for (FlowState& recv : recvs_) {
    if (recv.done < receivable(recv) && is_next(recvs_, recv)) poll_for(recv, POLLIN);
  }
  if (poll(polled_.data(), polled_.size(), kTickMs) <= 0) return;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) polled_flows_[i]->ready = true;
  }
}

void SocketExchange::throw_peer_lost(int peer, const char* reason) const {
  // A lost process closes its connections before the job reports why it ended. The job's message has more details.
  for (int tick = 0; tick < peer_loss_grace_ticks_; ++tick) {
    if (team_.aborted()) throw JobAborted{};
    poll(nullptr, 0, kTickMs);
  }
  throw Error(ExitCode::rank_lost,
              fmt::format("{} was lost in phase {}: {}; check its output and whether its host is up",
                          mesh_.name_of(peer), name(phase_), reason));
}

}  // namespace busbw
