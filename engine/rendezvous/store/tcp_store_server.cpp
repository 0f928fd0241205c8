// Event loop of the rendezvous store: accepts and authenticates connections, carries out their requests (StoreState),
// tells the ProcessTracker which processes live, and sends the job's failure to all clients.
#include "rendezvous/store/tcp_store_server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/os/open_file_limit.hpp"
#include "common/os/signal_mask.hpp"

namespace busbw {
namespace {

/// Time for a client to authenticate after it has connected.
constexpr int kMaxGreetingTicks = 10 * kTicksPerS;
/// Connections beyond those of processes and ranks, for clients that are not authenticated yet or that reconnect.
constexpr std::size_t kSpareConnections = 256;
/// Bound for unread replies to a client. A client with more unread bytes is disconnected.
constexpr std::size_t kMaxUnsentBytes = StoreState::kMaxBytes + (std::size_t{16} << 20);
/// Connections accepted before other clients are served again, so that a flood of connections cannot block these.
constexpr int kMaxAcceptedAtOnce = 64;
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
// epoll ids: the timer, the wake-up event, the listeners, then the connections.
constexpr std::uint64_t kTimerId = 0;
constexpr std::uint64_t kWakeId = 1;
constexpr std::uint64_t kFirstListenerId = 2;

/// Number of connections of a complete job: one control connection for each process, and one for each rank.
std::size_t job_connections(const ServerSettings& settings) {
  return static_cast<std::size_t>(settings.processes) * static_cast<std::size_t>(settings.ranks_per_process + 1);
}

/// Calls epoll_ctl with `operation` (EPOLL_CTL_...), `events` (EPOLLIN, ...) and the id that epoll returns with an
/// event. Returns false if the call fails.
bool control_epoll(const Descriptor& poller, int operation, int descriptor, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(poller.number(), operation, descriptor, &event) == 0;
}

}  // namespace

TcpStoreServer::TcpStoreServer(std::vector<Descriptor> listeners, const ServerSettings& settings)
    : settings_(settings),
      listeners_(std::move(listeners)),
      poller_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      tracker_(settings.processes, settings.ranks_per_process, settings.silence_ticks),
      buffer_(kBufferBytes),
      next_id_(kFirstListenerId + listeners_.size()),
      state_(std::int64_t{settings.processes} * settings.ranks_per_process) {
  const std::size_t max_connections = job_connections(settings) + kSpareConnections;
  constexpr std::size_t kOtherFiles = 64;  // outputs, libraries and devices of this process
  const std::size_t needed = max_connections + kOtherFiles;
  if (const std::size_t allowed = raise_open_file_limit(needed); allowed < needed)
    throw EnvironmentError(
        fmt::format("process 0 needs {} open files for the connections of the job, and {} are "
                    "allowed; raise the limit (ulimit -n) where process 0 starts",
                    needed, allowed));
  const auto watch_input = [this](int descriptor, std::uint64_t id) {
    control_epoll(poller_, EPOLL_CTL_ADD, descriptor, EPOLLIN, id);
  };
  watch_input(ticker_.number(), kTimerId);
  watch_input(wake_.number(), kWakeId);
  for (std::size_t i = 0; i < listeners_.size(); ++i) watch_input(listeners_[i].number(), kFirstListenerId + i);
  thread_ = std::thread([this] { run_server_thread(); });
}

TcpStoreServer::~TcpStoreServer() {
  should_stop_ = true;
  wake();
  thread_.join();
}

void TcpStoreServer::abort(const Failure& failure) noexcept {
  if (tracker_.record_failure(failure)) wake();
}

void TcpStoreServer::lose_missing_processes(const std::vector<std::string>& hosts, const std::string& event) {
  tracker_.lose_missing_processes(hosts, event);
  wake();
}

bool TcpStoreServer::lose_processes(const std::set<int>& processes, const std::string& event) {
  const bool is_tolerated = tracker_.lose_processes(processes, event);
  if (is_tolerated) wake();
  return is_tolerated;
}

void TcpStoreServer::wake() noexcept { eventfd_write(wake_.number(), 1); }

// ---- server thread --------------------------------------------------------------------------------------------------

void TcpStoreServer::run_server_thread() {
  block_all_signals();
  try {
    handle_events();
  } catch (const std::exception& error) {
    abort({ExitCode::environment, fmt::format("the store of process 0 failed: {}", error.what())});
  }
  connections_.clear();  // clients without a failure frame notice the closed connection
}

void TcpStoreServer::handle_events() {
  std::array<epoll_event, 256> events;
  while (!should_stop_) {
    const int ready = epoll_wait(poller_.number(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint32_t flags = events[static_cast<std::size_t>(i)].events;
      if (id == kTimerId) {
        on_tick();
      } else if (id == kWakeId) {
        eventfd_t count = 0;
        eventfd_read(wake_.number(), &count);
        if (tracker_.failure())
          broadcast_failure();
        else
          handle_lost_processes();
      } else if (id < kFirstListenerId + listeners_.size()) {
        accept_connections(listeners_[id - kFirstListenerId]);
      } else {
        if ((flags & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(id);
        if ((flags & EPOLLOUT) != 0) write(id);
      }
      report_closed_connections();
    }
  }
}

void TcpStoreServer::accept_connections(const Descriptor& listener) {
  const std::size_t max_connections = job_connections(settings_) + kSpareConnections;
  for (int i = 0; i < kMaxAcceptedAtOnce; ++i) {  // epoll reports remaining connections again
    Descriptor socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool is_out_of_resources = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!is_out_of_resources) return;
      if (reject_oldest_unauthenticated()) continue;
      return set_accepting(false);  // otherwise the waiting connection would wake this thread without end
    }
    if (connections_.size() >= max_connections && !reject_oldest_unauthenticated()) continue;
    set_nonblocking_nodelay(socket);
    const std::uint64_t id = next_id_++;
    if (!control_epoll(poller_, EPOLL_CTL_ADD, socket.number(), EPOLLIN, id)) continue;
    connections_[id].socket = std::move(socket);
    unauthenticated_.insert(id);
  }
}

/// Rejects the oldest connection that is not authenticated: processes and ranks of the job authenticate soon after they
/// connect. False if every connection is authenticated.
bool TcpStoreServer::reject_oldest_unauthenticated() {
  if (unauthenticated_.empty()) return false;
  reject(*unauthenticated_.begin());
  return true;
}

/// Enables or disables events of the listening sockets.
void TcpStoreServer::set_accepting(bool accepting) {
  if (std::exchange(is_accepting_, accepting) == accepting) return;
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    control_epoll(poller_, EPOLL_CTL_MOD, listeners_[i].number(), accepting ? EPOLLIN : 0U, kFirstListenerId + i);
}

void TcpStoreServer::on_tick() {
  // Ticks missed while this process was stopped count as one, because other processes were not silent then.
  static_cast<void>(ticker_.take_elapsed());
  std::vector<std::uint64_t> late_ids;
  for (const std::uint64_t id : unauthenticated_)
    if (++connections_[id].unauthenticated_ticks > kMaxGreetingTicks) late_ids.push_back(id);
  for (const std::uint64_t id : late_ids) reject(id);
  set_accepting(true);
  if (tracker_.count_silent_tick()) handle_lost_processes();
}

void TcpStoreServer::broadcast_failure() {
  const std::optional<Failure> failure = tracker_.failure();
  if (!failure) return;
  std::vector<std::uint64_t> ids;
  for (const auto& [id, connection] : connections_)
    if (connection.is_authenticated && !connection.knows_failure) ids.push_back(id);
  for (const std::uint64_t id : ids) {
    const auto entry = connections_.find(id);
    if (entry == connections_.end()) continue;  // closed together with an earlier connection of the list
    entry->second.knows_failure = true;
    send(id, FrameKind::failure, packed(*failure));
  }
}

/// Sends a lost process the reason of its loss, and then closes its connections. A process that was only silent must
/// end too.
void TcpStoreServer::expel(int process, const Loss& loss) {
  const Failure failure{ExitCode::rank_lost, loss.reason + "; the job continues without it"};
  for (const std::uint64_t id : connections_of(process)) {
    Connection& connection = connections_[id];
    const bool is_already_expelled = std::exchange(connection.closes_when_sent, true);
    if (is_already_expelled) continue;  // the process is stopped and has not read the reason yet
    connection.knows_failure = true;
    state_.drop_client(id);
    send(id, FrameKind::failure, packed(failure));
  }
}

void TcpStoreServer::read(std::uint64_t id) {
  for (;;) {
    const auto entry = connections_.find(id);
    if (entry == connections_.end()) return;
    const ssize_t received_bytes = recv(entry->second.socket.number(), buffer_.data(), buffer_.size(), 0);
    if (received_bytes < 0 && errno == EINTR) continue;
    if (received_bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (received_bytes <= 0) return close(id);
    entry->second.received.append(std::span(buffer_).first(static_cast<std::size_t>(received_bytes)));
    try {
      // Handling a frame may close the connection, so it is looked up again each time.
      for (auto current = connections_.find(id); current != connections_.end(); current = connections_.find(id)) {
        const std::size_t max_bytes = current->second.is_authenticated ? kMaxFrameBytes : kMaxGreetingBytes;
        const auto frame = current->second.received.next(max_bytes);
        if (!frame) break;
        handle_frame(id, *frame);
      }
    } catch (const BrokenMessage&) {
      return reject(id);
    }
    if (static_cast<std::size_t>(received_bytes) < buffer_.size()) return;
  }
}

/// Returns the ids of the open connections of a process.
std::vector<std::uint64_t> TcpStoreServer::connections_of(int process) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, connection] : connections_)
    if (connection.is_authenticated && connection.process == process) ids.push_back(id);
  return ids;
}

void TcpStoreServer::read_from_process(int process) {
  for (const std::uint64_t id : connections_of(process)) read(id);
}

void TcpStoreServer::reject(std::uint64_t id) {
  ++rejected_connections_;
  close(id);
}

void TcpStoreServer::close(std::uint64_t id) {
  const auto entry = connections_.find(id);
  if (entry == connections_.end()) return;
  if (entry->second.is_authenticated) closed_connections_.push_back({entry->second.process, entry->second.is_control});
  connections_.erase(entry);
  unauthenticated_.erase(id);
  state_.drop_client(id);
}

/// Reports closed connections to the tracker, after reading the remaining frames of their processes. Reading may close
/// more connections, which are appended to the list instead of handled recursively.
void TcpStoreServer::report_closed_connections() {
  for (std::size_t i = 0; i < closed_connections_.size(); ++i) read_from_process(closed_connections_[i].process);
  for (const auto& [process, is_control] : std::exchange(closed_connections_, {}))
    if (tracker_.record_closed_connection(process, is_control)) handle_lost_processes();
}

void TcpStoreServer::handle_lost_processes() {
  if (tracker_.failure()) return wake();  // handle_events() then broadcasts the failure
  // Includes processes that were lost earlier, for which nothing changes.
  for (const auto& [process, loss] : tracker_.lost_processes()) {
    expel(process, loss);
    for (const StoreReply& reply :
         state_.lose_members(process * settings_.ranks_per_process, settings_.ranks_per_process))
      send_reply(reply);
  }
}

void TcpStoreServer::handle_frame(std::uint64_t id, std::span<const std::byte> frame) {
  MessageReader reader(frame);
  const auto kind = reader.take<FrameKind>();
  const auto body = frame.subspan(sizeof(FrameKind));
  Connection& connection = connections_[id];
  if (connection.closes_when_sent) return;  // the client is rejected, or its process is lost
  if (!connection.is_authenticated) return handle_handshake_frame(id, kind, body);
  switch (kind) {
    case FrameKind::request: {
      if (connection.knows_failure) return;
      auto request = reader.take<StoreRequest>();
      if (request.op > StoreRequest::Op::missing) throw BrokenMessage();
      for (const StoreReply& reply : state_.handle_request(id, std::move(request))) send_reply(reply);
      return;
    }
    case FrameKind::phase: return tracker_.record_phase(connection.process, reader);
    case FrameKind::heartbeat:
      tracker_.record_heartbeat(connection.process, reader);
      return send(id, FrameKind::heartbeat, {});
    case FrameKind::abort: return abort(unpack_failure(reader));
    case FrameKind::leave:
      if (!connection.is_control) throw BrokenMessage();
      tracker_.mark_left(connection.process);
      broadcast_failure();  // before the answer, because the client receives nothing after the answer
      return send(id, FrameKind::leave, {});
    case FrameKind::withdraw: {
      if (!connection.is_control) throw BrokenMessage();
      const int process = connection.process;
      tracker_.mark_withdrawn(process, reader.take_text());
      send(id, FrameKind::leave, {});
      for (const std::uint64_t withdrawn_id : connections_of(process)) close(withdrawn_id);
      return handle_lost_processes();
    }
    default: throw BrokenMessage();
  }
}

void TcpStoreServer::handle_handshake_frame(std::uint64_t id, FrameKind kind, std::span<const std::byte> body) {
  auto& handshake = connections_[id].handshake;
  const FrameKind expected_kind = handshake ? FrameKind::greeting : FrameKind::hello;
  if (kind != expected_kind) throw BrokenMessage();
  // handle_greeting() needs a copy, because it resets the connection's handshake.
  if (handshake) return handle_greeting(id, ServerHandshake(*handshake), body);
  const char version = version_of_hello(body);
  if (version != kWireVersion) return reject_version(id, version);
  handshake.emplace(body);
  send(id, FrameKind::challenge, handshake->challenge());
}

/// Rejects a client of another version. Sends this server's version first, so that both sides can report both versions.
void TcpStoreServer::reject_version(std::uint64_t id, char version) {
  Connection& connection = connections_[id];
  const auto peer = remote_endpoint(connection.socket);
  if (tracker_.report_version_mismatch(peer ? peer->host() : "an unknown address", version)) ++rejected_connections_;
  connection.closes_when_sent = true;
  send(id, FrameKind::hello, version_mismatch_hello());
}

/// Authenticates a client. Lets the client join, or sends the reason why it cannot join.
void TcpStoreServer::handle_greeting(std::uint64_t id, const ServerHandshake& handshake,
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
  connection.is_authenticated = true;
  unauthenticated_.erase(id);
  connection.handshake.reset();
  connection.is_control = client.is_control;
  connection.process = client.process;
  send(id, FrameKind::welcome, handshake.welcome(settings_.token, settings_.host));
  broadcast_failure();
}

void TcpStoreServer::send_reply(const StoreReply& reply) {
  send(reply.client, FrameKind::reply, MessageWriter().add(reply).bytes());
}

/// Queues a frame and sends as much as possible without blocking.
void TcpStoreServer::send(std::uint64_t id, FrameKind kind, std::span<const std::byte> body) {
  const auto entry = connections_.find(id);
  if (entry == connections_.end()) return;
  append_frame(entry->second.output, kind, body);
  if (entry->second.output.size() - entry->second.sent_bytes > kMaxUnsentBytes) return close(id);
  write(id);
}

void TcpStoreServer::write(std::uint64_t id) {
  const auto entry = connections_.find(id);
  if (entry == connections_.end()) return;
  Connection& connection = entry->second;
  while (connection.sent_bytes < connection.output.size()) {
    const ssize_t written = ::send(connection.socket.number(), connection.output.data() + connection.sent_bytes,
                                   connection.output.size() - connection.sent_bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return set_watches_writable(connection, id, true);
    // The client has closed the connection. Frames that it sent before can still be received, and read() closes later.
    const bool is_closed_by_client = written < 0 && (errno == EPIPE || errno == ECONNRESET);
    if (is_closed_by_client) break;
    if (written <= 0) return close(id);
    connection.sent_bytes += static_cast<std::size_t>(written);
  }
  connection.output.clear();
  connection.sent_bytes = 0;
  if (connection.closes_when_sent) return close(id);
  set_watches_writable(connection, id, false);
}

/// Sets whether epoll also reports that the connection is writable.
void TcpStoreServer::set_watches_writable(Connection& connection, std::uint64_t id, bool watches_writable) {
  if (std::exchange(connection.watches_writable, watches_writable) == watches_writable) return;
  const std::uint32_t events = watches_writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  control_epoll(poller_, EPOLL_CTL_MOD, connection.socket.number(), events, id);
}

}  // namespace busbw
