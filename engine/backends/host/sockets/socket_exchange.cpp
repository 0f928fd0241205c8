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

/// Moved by one call at most, so that sends and receives take turns.
constexpr std::size_t kMaxBytesAtOnce = std::size_t{256} << 10;

}  // namespace

SocketExchange::SocketExchange(const SocketMesh& mesh, const Team& team, int ticks_for_reason)
    : mesh_(mesh), team_(team), ticks_for_reason_(ticks_for_reason) {}

void SocketExchange::add(std::vector<FlowState>& streams, int peer, std::byte* data, std::size_t bytes,
                         std::optional<FlowId> source) {
  FlowState added;
  added.peer = peer;
  added.connection = mesh_.connection(peer);
  added.data = data;
  added.bytes = bytes;
  added.source = source;
  for (std::size_t i = streams.size(); i-- > 0;) {
    if (streams[i].peer != peer) continue;
    added.previous = i;
    break;
  }
  streams.push_back(added);
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

// There is no deadlock: look at that of all ranks' unfinished sends which has come least far. If there is no room for
// more of it, its receiver has taken less of it, so the receiver is not held back: what holds back is an unfinished
// send of its own that has come less far. Once there is no such send, nothing is held back. (What is received starts
// where something to send starts, or touches nothing to send.)
void SocketExchange::finish_in_place() {
  in_place_ = true;
  run(true);
  in_place_ = false;
}

bool SocketExchange::complete(const std::vector<FlowState>& streams) const {
  return std::ranges::all_of(streams, [](const FlowState& stream) { return stream.done == stream.bytes; });
}

void SocketExchange::run(bool sends_too) {
  while (!complete(recvs_) || (sends_too && !complete(sends_))) {
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

bool SocketExchange::is_next(const std::vector<FlowState>& streams, const FlowState& stream) const {
  return !stream.previous || streams[*stream.previous].done == streams[*stream.previous].bytes;
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

bool SocketExchange::progress(FlowState& stream, bool sending, std::size_t limit) {
  if (stream.done >= limit) return false;
  const std::size_t wanted = std::min(limit - stream.done, kMaxBytesAtOnce);
  std::byte* const at = stream.data + stream.done;
  const ssize_t moved =
      sending ? ::send(stream.connection, at, wanted, MSG_NOSIGNAL) : ::recv(stream.connection, at, wanted, 0);
  if (moved > 0) {
    stream.done += static_cast<std::size_t>(moved);
    stream.ready = static_cast<std::size_t>(moved) == wanted;
    return true;
  }
  if (moved == 0) throw_peer_lost(stream.peer, "it closed the connection");
  if (errno == EINTR) return true;
  if (errno != EAGAIN) throw_peer_lost(stream.peer, std::strerror(errno));
  stream.ready = false;
  return false;
}

void SocketExchange::wait() {
  polled_.clear();
  polled_streams_.clear();
  const auto look_at = [&](FlowState& stream, short event) {
    polled_.push_back({stream.connection, event, 0});
    polled_streams_.push_back(&stream);
  };
  for (FlowState& send : sends_) {
    if (send.done < sendable(send) && is_next(sends_, send)) look_at(send, POLLOUT);
  }
  for (FlowState& recv : recvs_) {
    if (recv.done < receivable(recv) && is_next(recvs_, recv)) look_at(recv, POLLIN);
  }
  if (poll(polled_.data(), polled_.size(), kTickMs) <= 0) return;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) polled_streams_[i]->ready = true;
  }
}

void SocketExchange::throw_peer_lost(int peer, const char* how) const {
  // The end of a process reaches its peers faster than the job's word for it; that word says more.
  for (int tick = 0; tick < ticks_for_reason_; ++tick) {
    if (team_.aborted()) throw JobAborted{};
    poll(nullptr, 0, kTickMs);
  }
  throw Error(ExitCode::rank_lost,
              fmt::format("{} was lost in phase {}: {}; look at its messages and whether its host is up",
                          mesh_.name_of(peer), name(phase_), how));
}

}  // namespace busbw
