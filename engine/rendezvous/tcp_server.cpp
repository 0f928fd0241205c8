#include "rendezvous/tcp_server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "rendezvous/store.hpp"

namespace busbw {
namespace {

constexpr int kGreetingTicks = 10 * kTicksPerS;
/// Connections beyond those of the job: strangers, and members that try again.
constexpr std::size_t kSpareConnections = 256;
/// A client that does not read what it asked for is given up.
constexpr std::size_t kMostOutBytes = StoreState::kMostBytes + (std::size_t{16} << 20);
constexpr std::uint64_t kTimer = 0;
constexpr std::uint64_t kWake = 1;
constexpr std::uint64_t kFirstListener = 2;

/// Compares all of both, so that how long it takes tells nothing.
bool same_secret(const std::string& one, const std::string& other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < one.size() && !other.empty(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i % other.size()]);
  return difference == 0;
}

Phase take_phase_from(MessageReader& reader) {
  const auto phase = reader.take<std::uint8_t>();
  if (phase >= kPhases.size()) throw BrokenMessage();
  return static_cast<Phase>(phase);
}

void allow_open_files(std::size_t needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  if (limit.rlim_cur > before) setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < needed)
    throw EnvironmentError(
        fmt::format("process 0 needs {} open files for the connections of the job, and {} are allowed; "
                    "raise the limit (ulimit -n) where process 0 starts",
                    needed, limit.rlim_max));
}

Descriptor start_timer() {
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec every_tick{};
  every_tick.it_interval.tv_nsec = every_tick.it_value.tv_nsec = kTickMs * 1'000'000L;
  timerfd_settime(timer.number(), 0, &every_tick, nullptr);
  return timer;
}

}  // namespace

TcpServer::TcpServer(std::vector<Descriptor> listeners, const ServerSettings& settings)
    : settings_(settings),
      listeners_(std::move(listeners)),
      poller_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(start_timer()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      next_id_(kFirstListener + listeners_.size()),
      state_(std::int64_t{settings.processes} * settings.ranks_per_process),
      processes_(static_cast<std::size_t>(settings.processes)) {
  const auto members =
      static_cast<std::size_t>(settings.processes) * static_cast<std::size_t>(settings.ranks_per_process + 1);
  allow_open_files(members + kSpareConnections + 64);
  for (Process& process : processes_) process.ranks.resize(static_cast<std::size_t>(settings.ranks_per_process));
  const auto add = [this](const Descriptor& what, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    epoll_ctl(poller_.number(), EPOLL_CTL_ADD, what.number(), &event);
  };
  add(timer_, kTimer);
  add(wake_, kWake);
  for (std::size_t i = 0; i < listeners_.size(); ++i) add(listeners_[i], kFirstListener + i);
  thread_ = std::thread([this] { serve(); });
}

TcpServer::~TcpServer() {
  stops_ = true;
  eventfd_write(wake_.number(), 1);
  thread_.join();
}

// ---- what the process asks ------------------------------------------------------------------------------------------

std::vector<int> TcpServer::missing() const {
  const std::scoped_lock lock(mutex_);
  std::vector<int> absent;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i].state == Process::State::absent) absent.push_back(static_cast<int>(i));
  return absent;
}

RankProgress TcpServer::progress(int rank) const {
  const std::scoped_lock lock(mutex_);
  const auto per_process = static_cast<std::size_t>(settings_.ranks_per_process);
  return processes_[static_cast<std::size_t>(rank) / per_process].ranks[static_cast<std::size_t>(rank) % per_process];
}

std::string TcpServer::name_of(int process) const {
  const Process& it = processes_[static_cast<std::size_t>(process)];
  const int first = process * settings_.ranks_per_process;
  const int last = first + settings_.ranks_per_process - 1;
  const std::string ranks = first == last ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last);
  if (it.host.empty()) return fmt::format("{} (process {})", ranks, process);
  return fmt::format("{} (process {}, pid {} on {})", ranks, process, it.pid, it.host);
}

std::string TcpServer::name_of_process(int process) const {
  const std::scoped_lock lock(mutex_);
  return name_of(process);
}

std::string TcpServer::host_of_process(int process) const {
  const std::scoped_lock lock(mutex_);
  return processes_[static_cast<std::size_t>(process)].host;
}

void TcpServer::abort(const Failure& why) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  eventfd_write(wake_.number(), 1);
}

std::optional<Failure> TcpServer::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::string TcpServer::other_token() const {
  const std::scoped_lock lock(mutex_);
  return other_token_;
}

std::optional<Failure> TcpServer::first_refusal() const {
  const std::scoped_lock lock(mutex_);
  return first_refusal_;
}

bool TcpServer::wait_until_all_left(int ticks) {
  std::unique_lock lock(mutex_);
  const auto nobody_is_here = [this] {
    return std::ranges::none_of(processes_, [](const Process& it) { return it.state == Process::State::here; });
  };
  return changed_.wait_for(lock, std::chrono::milliseconds(ticks * kTickMs), nobody_is_here);
}

// ---- the thread -----------------------------------------------------------------------------------------------------

void TcpServer::serve() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the thread that watches over the job
  try {
    answer_all();
  } catch (const std::exception& error) {
    abort({Exit::environment, fmt::format("process 0 cannot serve the job any longer: {}", error.what())});
  }
  connections_.clear();  // whoever has not been told sees that it is over
}

void TcpServer::answer_all() {
  std::array<epoll_event, 256> events;
  while (!stops_) {
    const int ready = epoll_wait(poller_.number(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
      if (id == kTimer) {
        tick();
      } else if (id == kWake) {
        eventfd_t count = 0;
        eventfd_read(wake_.number(), &count);
        tell_all();
      } else if (id < kFirstListener + listeners_.size()) {
        accept_all(listeners_[id - kFirstListener]);
      } else {
        if ((what & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(id);
        if ((what & EPOLLOUT) != 0) write(id);
      }
    }
  }
}

void TcpServer::accept_all(const Descriptor& listener) {
  const auto members =
      static_cast<std::size_t>(settings_.processes) * static_cast<std::size_t>(settings_.ranks_per_process + 1);
  for (;;) {
    Descriptor socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool lacks_files = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!lacks_files) return;
      if (make_room()) continue;
      return listen_again(false);  // or the connection that waits would wake this thread for ever
    }
    if (connections_.size() >= members + kSpareConnections && !make_room()) continue;
    prepare(socket);
    const std::uint64_t id = next_id_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (epoll_ctl(poller_.number(), EPOLL_CTL_ADD, socket.number(), &event) != 0) continue;
    connections_[id].socket = std::move(socket);
  }
}

/// The stranger that has been here longest makes room; members have all said who they are long before.
bool TcpServer::make_room() {
  const auto oldest = std::ranges::find_if(connections_, [](const auto& entry) { return !entry.second.is_known; });
  if (oldest == connections_.end()) return false;
  turn_away(oldest->first);
  return true;
}

void TcpServer::listen_again(bool on) {
  if (std::exchange(accepts_, on) == on) return;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event{};
    event.events = on ? EPOLLIN : 0U;
    event.data.u64 = kFirstListener + i;
    epoll_ctl(poller_.number(), EPOLL_CTL_MOD, listeners_[i].number(), &event);
  }
}

void TcpServer::tick() {
  // Expirations that came while this process was stopped are one: then nobody else has been silent.
  std::uint64_t expirations = 0;
  static_cast<void>(::read(timer_.number(), &expirations, sizeof(expirations)));
  std::vector<std::uint64_t> late;
  for (auto& [id, connection] : connections_)
    if (!connection.is_known && ++connection.silent_ticks > kGreetingTicks) late.push_back(id);
  for (const std::uint64_t id : late) turn_away(id);
  listen_again(true);
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.state != Process::State::here || ++process.silent_ticks <= settings_.silence_ticks) continue;
    process.state = Process::State::gone;
    lose(static_cast<int>(i),
         fmt::format("nothing was heard from it for {:g} s; it is stopped, or the network to its host "
                     "is cut",
                     settings_.silence_ticks * kTickMs * 1e-3));
  }
}

/// With the mutex held.
void TcpServer::lose(int process, const std::string& how) {
  const auto& ranks = processes_[static_cast<std::size_t>(process)].ranks;
  const Phase phase = std::ranges::min(ranks, {}, &RankProgress::steps).phase;
  if (!failure_)
    failure_ = Failure{Exit::rank_lost, fmt::format("{} was lost in phase {}: {}", name_of(process), name(phase), how)};
  changed_.notify_all();
  eventfd_write(wake_.number(), 1);
}

void TcpServer::tell_all() {
  const std::optional<Failure> why = failure();
  if (!why) return;
  std::vector<std::uint64_t> all;
  for (const auto& [id, connection] : connections_)
    if (connection.is_known && !connection.is_told) all.push_back(id);
  for (const std::uint64_t id : all) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // the end of another one was its end, too
    found->second.is_told = true;
    send(id, Frame::failure, packed(*why));
  }
}

void TcpServer::read(std::uint64_t id) {
  std::array<std::byte, 65536> part;
  for (;;) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const ssize_t got = recv(found->second.socket.number(), part.data(), part.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return close(id);
    found->second.in.append(std::span(part).first(static_cast<std::size_t>(got)));
    try {
      std::span<const std::byte> body;
      for (auto at = connections_.find(id); at != connections_.end(); at = connections_.find(id)) {
        if (!at->second.in.next(body, at->second.is_known ? kMostFrameBytes : kMostGreetingBytes)) break;
        take_frame(id, body);
      }
    } catch (const BrokenMessage&) {
      return turn_away(id);
    }
    if (static_cast<std::size_t>(got) < part.size()) return;
  }
}

/// What the ranks of a process said last may not have been read yet.
void TcpServer::read_all_of(int process) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, connection] : connections_)
    if (connection.is_known && connection.process == process) ids.push_back(id);
  for (const std::uint64_t id : ids) read(id);
}

void TcpServer::turn_away(std::uint64_t id) {
  ++strangers_;
  close(id);
}

void TcpServer::close(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  state_.forget(id);
  if (!connection.is_known) return;
  read_all_of(connection.process);
  const std::scoped_lock lock(mutex_);
  Process& process = processes_[static_cast<std::size_t>(connection.process)];
  if (!connection.is_process && process.rank_connections-- > settings_.ranks_per_process) return;  // one too many
  if (process.state != Process::State::here) return;
  process.state = Process::State::gone;
  lose(connection.process, fmt::format("its connection closed before it had ended; look at its own output, and at the "
                                       "kernel's log of {} for a reason such as lack of memory",
                                       process.host));
}

void TcpServer::take_frame(std::uint64_t id, std::span<const std::byte> body) {
  MessageReader reader(body);
  const auto kind = reader.take<Frame>();
  Connection& connection = connections_[id];
  if (!connection.is_known) {
    if (kind != Frame::greeting) throw BrokenMessage();
    return greet(id, reader);
  }
  switch (kind) {
    case Frame::request: {
      if (connection.is_told) return;
      for (const StoreAnswer& answer : state_.take(id, StoreRequest::unpack(body.subspan(1))))
        send(answer.client, Frame::answer,
             MessageWriter().add(answer.number).add(answer.kind).add(std::span<const std::byte>(answer.value)).bytes());
      return;
    }
    case Frame::phase: return take_phase(connection.process, reader);
    case Frame::beat: take_beat(connection.process, reader); return send(id, Frame::beat, {});
    case Frame::abort: return abort(unpack_failure(reader));
    case Frame::leave: {
      if (!connection.is_process) throw BrokenMessage();
      connection.ends = true;
      {
        const std::scoped_lock lock(mutex_);
        processes_[static_cast<std::size_t>(connection.process)].state = Process::State::left;
        changed_.notify_all();
      }
      return send(id, Frame::leave, {});
    }
    default: throw BrokenMessage();
  }
}

void TcpServer::take_beat(int process_number, MessageReader& reader) {
  const std::scoped_lock lock(mutex_);
  Process& process = processes_[static_cast<std::size_t>(process_number)];
  for (RankProgress& rank : process.ranks) {
    const Phase phase = take_phase_from(reader);
    const auto steps = reader.take<std::uint64_t>();
    const auto operations = reader.take<std::uint64_t>();
    rank = {phase, steps, operations, reader.take<std::uint64_t>()};
  }
  process.silent_ticks = 0;
}

void TcpServer::take_phase(int process, MessageReader& reader) {
  const auto index = reader.take<std::uint32_t>();
  const Phase phase = take_phase_from(reader);
  const std::scoped_lock lock(mutex_);
  auto& ranks = processes_[static_cast<std::size_t>(process)].ranks;
  if (index >= ranks.size()) throw BrokenMessage();
  ranks[index].phase = phase;
}

std::optional<Failure> TcpServer::refusal(const Greeting& greeting) const {
  if (!same_secret(settings_.token, greeting.token))
    return Failure{Exit::environment,
                   "the token differs: another job listens here, or BUSBW_TOKEN is not the same in all "
                   "processes"};
  const std::string who = fmt::format("process {} on {}", greeting.process, greeting.host);
  if (greeting.processes != settings_.processes)
    return Failure{Exit::environment,
                   fmt::format("{} was told of {} processes, process 0 of {}; give all the same number "
                               "(BUSBW_SIZE)",
                               who, greeting.processes, settings_.processes)};
  if (greeting.ranks_per_process != settings_.ranks_per_process)
    return Failure{Exit::usage, fmt::format("{} has {} ranks, process 0 has {}; give all the same -t and -g", who,
                                            greeting.ranks_per_process, settings_.ranks_per_process)};
  if (greeting.process < 0 || greeting.process >= settings_.processes)
    return Failure{Exit::environment,
                   fmt::format("there is no process {} in a job of {}; number them from 0 (BUSBW_RANK)",
                               greeting.process, settings_.processes)};
  if (!greeting.is_process) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (processes_[static_cast<std::size_t>(greeting.process)].state == Process::State::absent) return std::nullopt;
  return Failure{Exit::environment, fmt::format("{} is here already, and {} has the same number; number them apart "
                                                "(BUSBW_RANK)",
                                                name_of(greeting.process), who)};
}

void TcpServer::greet(std::uint64_t id, MessageReader& reader) {
  const Greeting greeting = Greeting::unpack(reader);
  Connection& connection = connections_[id];
  if (const auto why = refusal(greeting)) {
    const bool is_ours = same_secret(settings_.token, greeting.token);
    if (is_ours) {
      const std::scoped_lock lock(mutex_);
      if (!first_refusal_) first_refusal_ = why;
    } else {
      ++strangers_;
      const std::scoped_lock lock(mutex_);
      other_token_ = fmt::format(
          "one that says it is process {} on {} shows another token; set the same BUSBW_TOKEN_FILE "
          "everywhere",
          greeting.process, greeting.host);
    }
    connection.ends = true;
    return send(id, Frame::refused, MessageWriter().add(!is_ours).add(why->exit).add(why->message).bytes());
  }
  connection.is_known = true;
  connection.is_process = greeting.is_process;
  connection.process = greeting.process;
  {
    const std::scoped_lock lock(mutex_);
    Process& process = processes_[static_cast<std::size_t>(greeting.process)];
    if (greeting.is_process) {
      process.state = Process::State::here;
      process.pid = greeting.pid;
      process.host = greeting.host;
      changed_.notify_all();
    } else {
      ++process.rank_connections;
    }
  }
  send(id, Frame::welcome, MessageWriter().add(settings_.host).bytes());
  tell_all();
}

void TcpServer::send(std::uint64_t id, Frame kind, std::span<const std::byte> body) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  append_frame(found->second.out, kind, body);
  if (found->second.out.size() - found->second.sent > kMostOutBytes) return close(id);
  write(id);
}

void TcpServer::write(std::uint64_t id) {
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
  if (connection.ends && !connection.is_known) return close(id);
  watch(connection, id, false);
}

void TcpServer::watch(Connection& connection, std::uint64_t id, bool also_writable) {
  if (std::exchange(connection.waits_to_write, also_writable) == also_writable) return;
  epoll_event event{};
  event.events = also_writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(poller_.number(), EPOLL_CTL_MOD, connection.socket.number(), &event);
}

}  // namespace busbw
