#include "rendezvous/store/tcp_store_server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/os/open_file_limit.hpp"
#include "rendezvous/store/store.hpp"

namespace busbw {
namespace {

constexpr int kGreetingTicks = 10 * kTicksPerS;
/// Additional connections for clients that are not authenticated yet, and for reconnecting members.
constexpr std::size_t kSpareConnections = 256;
/// Bound for unread replies. A client beyond it is disconnected.
constexpr std::size_t kMaxOutBytes = StoreState::kMaxBytes + (std::size_t{16} << 20);
/// Connections accepted before other clients are served again, so that a flood of connections cannot block them.
constexpr int kMaxAcceptedAtOnce = 64;
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
constexpr std::uint64_t kTimer = 0;
constexpr std::uint64_t kWake = 1;
constexpr std::uint64_t kFirstListener = 2;

}  // namespace

TcpStoreServer::TcpStoreServer(std::vector<Descriptor> listeners, const ServerSettings& settings)
    : settings_(settings),
      listeners_(std::move(listeners)),
      poller_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kBufferBytes),
      next_id_(kFirstListener + listeners_.size()),
      state_(std::int64_t{settings.processes} * settings.ranks_per_process),
      tracker_(settings.processes, settings.ranks_per_process, settings.silence_ticks) {
  const auto members =
      static_cast<std::size_t>(settings.processes) * static_cast<std::size_t>(settings.ranks_per_process + 1);
  const std::size_t needed = members + kSpareConnections + 64;
  if (const std::size_t allowed = raise_open_file_limit(needed); allowed < needed)
    throw EnvironmentError(
        fmt::format("process 0 needs {} open files for the connections of the job, and {} are "
                    "allowed; raise the limit (ulimit -n) where process 0 starts",
                    needed, allowed));
  const auto add = [this](int descriptor, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    epoll_ctl(poller_.number(), EPOLL_CTL_ADD, descriptor, &event);
  };
  add(ticker_.number(), kTimer);
  add(wake_.number(), kWake);
  for (std::size_t i = 0; i < listeners_.size(); ++i) add(listeners_[i].number(), kFirstListener + i);
  thread_ = std::thread([this] { serve(); });
}

TcpStoreServer::~TcpStoreServer() {
  stops_ = true;
  wake();
  thread_.join();
}

void TcpStoreServer::abort(const Failure& failure) noexcept {
  if (tracker_.fail(failure)) wake();
}

void TcpStoreServer::wake() noexcept { eventfd_write(wake_.number(), 1); }

// ---- server thread --------------------------------------------------------------------------------------------------

void TcpStoreServer::serve() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // the monitoring thread handles signals
  try {
    answer_all();
  } catch (const std::exception& error) {
    abort({ExitCode::environment, fmt::format("the store of process 0 failed: {}", error.what())});
  }
  connections_.clear();  // clients without a failure frame notice the closed connection
}

void TcpStoreServer::answer_all() {
  std::array<epoll_event, 256> events;
  while (!stops_) {
    const int ready = epoll_wait(poller_.number(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint32_t flags = events[static_cast<std::size_t>(i)].events;
      if (id == kTimer) {
        tick();
      } else if (id == kWake) {
        eventfd_t count = 0;
        eventfd_read(wake_.number(), &count);
        broadcast_failure();
      } else if (id < kFirstListener + listeners_.size()) {
        accept_all(listeners_[id - kFirstListener]);
      } else {
        if ((flags & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(id);
        if ((flags & EPOLLOUT) != 0) write(id);
      }
      report_closed();
    }
  }
}

void TcpStoreServer::accept_all(const Descriptor& listener) {
  const auto members =
      static_cast<std::size_t>(settings_.processes) * static_cast<std::size_t>(settings_.ranks_per_process + 1);
  for (int i = 0; i < kMaxAcceptedAtOnce; ++i) {  // epoll reports remaining connections again
    Descriptor socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool is_out_of_resources = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!is_out_of_resources) return;
      if (reject_oldest_unknown()) continue;
      return set_accepting(false);  // otherwise the waiting connection would wake this thread without end
    }
    if (connections_.size() >= members + kSpareConnections && !reject_oldest_unknown()) continue;
    set_nonblocking_nodelay(socket);
    const std::uint64_t id = next_id_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (epoll_ctl(poller_.number(), EPOLL_CTL_ADD, socket.number(), &event) != 0) continue;
    connections_[id].socket = std::move(socket);
    unknown_.insert(id);
  }
}

/// Rejects the oldest connection that is not authenticated. Members authenticate soon after they connect.
bool TcpStoreServer::reject_oldest_unknown() {
  if (unknown_.empty()) return false;
  reject(*unknown_.begin());
  return true;
}

void TcpStoreServer::set_accepting(bool accepting) {
  if (std::exchange(accepts_, accepting) == accepting) return;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event{};
    event.events = accepting ? EPOLLIN : 0U;
    event.data.u64 = kFirstListener + i;
    epoll_ctl(poller_.number(), EPOLL_CTL_MOD, listeners_[i].number(), &event);
  }
}

void TcpStoreServer::tick() {
  // Ticks missed while this process was stopped count as one, because other processes were not silent then.
  static_cast<void>(ticker_.take_elapsed());
  std::vector<std::uint64_t> late;
  for (const std::uint64_t id : unknown_)
    if (++connections_[id].silent_ticks > kGreetingTicks) late.push_back(id);
  for (const std::uint64_t id : late) reject(id);
  set_accepting(true);
  if (tracker_.tick()) wake();
}

void TcpStoreServer::broadcast_failure() {
  const std::optional<Failure> failure = tracker_.failure();
  if (!failure) return;
  std::vector<std::uint64_t> all;
  for (const auto& [id, connection] : connections_)
    if (connection.is_known && !connection.knows_failure) all.push_back(id);
  for (const std::uint64_t id : all) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // closed together with an earlier connection of the list
    found->second.knows_failure = true;
    send(id, FrameKind::failure, packed(*failure));
  }
}

void TcpStoreServer::read(std::uint64_t id) {
  for (;;) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const ssize_t got = recv(found->second.socket.number(), buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return close(id);
    found->second.in.append(std::span(buffer_).first(static_cast<std::size_t>(got)));
    try {
      std::span<const std::byte> body;
      for (auto at = connections_.find(id); at != connections_.end(); at = connections_.find(id)) {
        if (!at->second.in.next(body, at->second.is_known ? kMaxFrameBytes : kMaxGreetingBytes)) break;
        take_frame(id, body);
      }
    } catch (const BrokenMessage&) {
      return reject(id);
    }
    if (static_cast<std::size_t>(got) < buffer_.size()) return;
  }
}

/// Reads the remaining frames of a process's ranks.
void TcpStoreServer::read_all_of(int process) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, connection] : connections_)
    if (connection.is_known && connection.process == process) ids.push_back(id);
  for (const std::uint64_t id : ids) read(id);
}

void TcpStoreServer::reject(std::uint64_t id) {
  ++rejected_connections_;
  close(id);
}

void TcpStoreServer::close(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second.is_known) closed_.push_back({found->second.process, found->second.is_process});
  connections_.erase(found);
  unknown_.erase(id);
  state_.forget(id);
}

/// Reports closed connections to the tracker, after reading the remaining frames of their processes. Reading may close
/// more connections, which are appended to the list instead of handled recursively.
void TcpStoreServer::report_closed() {
  for (std::size_t i = 0; i < closed_.size(); ++i) read_all_of(closed_[i].process);
  for (const auto& [process, is_process] : std::exchange(closed_, {}))
    if (tracker_.connection_closed(process, is_process)) wake();
}

void TcpStoreServer::take_frame(std::uint64_t id, std::span<const std::byte> body) {
  MessageReader reader(body);
  const auto kind = reader.take<FrameKind>();
  Connection& connection = connections_[id];
  if (!connection.is_known) return take_handshake_frame(id, kind, body.subspan(1));
  switch (kind) {
    case FrameKind::request: {
      if (connection.knows_failure) return;
      for (const StoreReply& answer : state_.take(id, StoreRequest::unpack(body.subspan(1))))
        send(answer.client, FrameKind::answer,
             MessageWriter().add(answer.number).add(answer.kind).add(std::span<const std::byte>(answer.value)).bytes());
      return;
    }
    case FrameKind::phase: return tracker_.record_phase(connection.process, reader);
    case FrameKind::heartbeat:
      tracker_.record_heartbeat(connection.process, reader);
      return send(id, FrameKind::heartbeat, {});
    case FrameKind::abort: return abort(unpack_failure(reader));
    case FrameKind::leave: {
      if (!connection.is_process) throw BrokenMessage();
      connection.closes_when_sent = true;
      tracker_.mark_left(connection.process);
      broadcast_failure();  // send the failure before the leave frame closes the connection
      return send(id, FrameKind::leave, {});
    }
    default: throw BrokenMessage();
  }
}

void TcpStoreServer::take_handshake_frame(std::uint64_t id, FrameKind kind, std::span<const std::byte> body) {
  auto& handshake = connections_[id].handshake;
  if (handshake && kind == FrameKind::greeting) return take_greeting(id, ServerHandshake(*handshake), body);
  if (handshake || kind != FrameKind::hello) throw BrokenMessage();
  if (const char version = version_of_hello(body); version != kWireVersion) return reject_version(id, version);
  handshake.emplace(body);
  send(id, FrameKind::challenge, handshake->challenge());
}

/// Answers a client of another version with this version, so that both sides can report both, and rejects it.
void TcpStoreServer::reject_version(std::uint64_t id, char version) {
  Connection& connection = connections_[id];
  const auto peer = remote_endpoint(connection.socket);
  if (tracker_.report_version_mismatch(peer ? peer->host() : "an unknown address", version)) ++rejected_connections_;
  connection.closes_when_sent = true;
  send(id, FrameKind::hello, version_mismatch_hello());
}

void TcpStoreServer::take_greeting(std::uint64_t id, const ServerHandshake& handshake,
                                   std::span<const std::byte> body) {
  const auto [client, knows_token] = handshake.read_greeting(settings_.token, body);
  Connection& connection = connections_[id];
  if (!knows_token) {
    if (tracker_.report_token_mismatch(client)) ++rejected_connections_;  // counted once, because the process may retry
    connection.closes_when_sent = true;
    return send(id, FrameKind::refused, {});
  }
  if (const auto failure = tracker_.add_connection(client)) {
    connection.closes_when_sent = true;
    return send(id, FrameKind::refused, handshake.refused(settings_.token, *failure));
  }
  connection.is_known = true;
  unknown_.erase(id);
  connection.handshake.reset();
  connection.is_process = client.is_process;
  connection.process = client.process;
  send(id, FrameKind::welcome, handshake.welcome(settings_.token, settings_.host));
  broadcast_failure();
}

void TcpStoreServer::send(std::uint64_t id, FrameKind kind, std::span<const std::byte> body) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  append_frame(found->second.out, kind, body);
  if (found->second.out.size() - found->second.sent > kMaxOutBytes) return close(id);
  write(id);
}

void TcpStoreServer::write(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  while (connection.sent < connection.out.size()) {
    const ssize_t sent = ::send(connection.socket.number(), connection.out.data() + connection.sent,
                                connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return watch(connection, id, true);
    if (sent <= 0) return close(id);
    connection.sent += static_cast<std::size_t>(sent);
  }
  connection.out.clear();
  connection.sent = 0;
  if (connection.closes_when_sent && !connection.is_known) return close(id);
  watch(connection, id, false);
}

void TcpStoreServer::watch(Connection& connection, std::uint64_t id, bool also_writable) {
  if (std::exchange(connection.waits_to_write, also_writable) == also_writable) return;
  epoll_event event{};
  event.events = also_writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(poller_.number(), EPOLL_CTL_MOD, connection.socket.number(), &event);
}

}  // namespace busbw
