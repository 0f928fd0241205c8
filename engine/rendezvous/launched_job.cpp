#include "rendezvous/launched_job.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <utility>

#include "rendezvous/file_store.hpp"
#include "rendezvous/store_team.hpp"
#include "rendezvous/token.hpp"
#include "support/provenance.hpp"
#include "support/ticker.hpp"

namespace busbw {
namespace {

constexpr int kTryTicks = 2 * kTicksPerS;        // for one address
constexpr int kRetryTicks = 10 * kTicksPerS;     // while an earlier job may still be closing the same port
constexpr int kFirstSayTicks = 3 * kTicksPerS;
constexpr int kSayTicks = 10 * kTicksPerS;
constexpr int kGraceTicks = 5 * kTicksPerS;      // for the others to leave
constexpr int kBeatsATick = 200;                 // process 0 takes no more, however many processes there are
constexpr double kNoLimitS = 1e9;
constexpr double kLaterS = 2;
constexpr std::uint64_t kMostTicks = 1'000'000;

constexpr const char* kAddressKey = "address of process 0";

void wait_a_tick() { std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs)); }

int ticks_of(double seconds) { return static_cast<int>(std::min(seconds, 1e7) * kTicksPerS); }

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_here(const Endpoint& endpoint) {
  return std::ranges::any_of(interfaces(), [&](const Interface& one) { return one.address.host() == endpoint.host(); });
}

/// Where process 0 listens: at the addresses that its name stands for, and only there. A name that stands for no address
/// of this host, or for loopback alone as /etc/hosts often has it, says nothing about how others reach it.
std::vector<Descriptor> listen_for(const TcpStoreAddress& address) {
  std::vector<Endpoint> here;
  for (const std::string& host : address.hosts) {
    std::string ignored;
    for (const Endpoint& endpoint : resolve(host, address.port, ignored)) {
      if (!is_here(endpoint) || (endpoint.is_loopback() && !names_loopback(host))) continue;
      if (std::ranges::none_of(here, [&](const Endpoint& known) { return known.text() == endpoint.text(); }))
        here.push_back(endpoint);
    }
  }
  std::vector<Descriptor> listeners;
  for (const Endpoint& endpoint : here) listeners.push_back(listen_at(endpoint));
  if (listeners.empty()) listeners.push_back(listen_everywhere(address.port));
  return listeners;
}

/// The same, with patience for the port of a job that is just ending.
std::vector<Descriptor> listen_patiently(const TcpStoreAddress& address, const JoinCallbacks& callbacks, int ticks) {
  for (int tick = 0;; ++tick) {
    callbacks.look();
    try {
      return listen_for(address);
    } catch (const EnvironmentError&) {
      if (tick >= ticks) throw;
    }
    if (tick == kFirstSayTicks)
      callbacks.say(fmt::format("process 0 is waiting for port {}, which another program still uses", address.port));
    wait_a_tick();
  }
}

Endpoint reachable_from_here(const Endpoint& listening) {
  const std::string host = listening.host();
  if (host == "0.0.0.0" || host == "::") return endpoint_of("127.0.0.1", listening.port());
  return listening;
}

/// What a store, or whatever listens in its place, says to a greeting.
struct Welcome {
  bool is_welcome = false;
  bool is_another_job = false;   // perhaps
  std::optional<Exit> refused;   // and this is what it means
  std::string text = "what listens there is no store of busbw";  // process 0's host, or why not

  static Welcome from(const std::optional<TcpChannel::Received>& received) {
    Welcome welcome;
    if (!received) return welcome;
    try {
      MessageReader reader(received->body);
      if (received->kind == Frame::welcome) return {true, false, {}, reader.take_text()};
      if (received->kind != Frame::refused) return welcome;
      const bool is_another_job = reader.take<std::uint8_t>() != 0;
      const Failure why = unpack_failure(reader);
      // Who says this has not shown that it is process 0.
      const bool is_possible = why.exit == Exit::usage || why.exit == Exit::environment;
      return {false, is_another_job, is_possible ? why.exit : Exit::environment, why.message};
    } catch (const BrokenMessage&) {
      return welcome;
    }
  }
};

}  // namespace

LaunchedJob::LaunchedJob(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership),
      callbacks_(std::move(callbacks)),
      own_ranks_(static_cast<std::size_t>(membership.ranks_per_process)) {
  if (const auto* file = std::get_if<FileStoreAddress>(&membership_.store))
    folder_ =
        std::make_unique<FileStore>(file->folder, membership_.join_limit_s, callbacks_.look, membership_.process == 0);
  try {
    if (membership_.process == 0) serve();
    control_ = std::make_unique<TcpChannel>(connect(true));
    reached_at_ = control_->peer();
    thread_ = std::thread([this] { keep_in_touch(); });
    stores_.resize(own_ranks_.size());
    for (auto& store : stores_) store = new_store();
    std::vector<int> everybody(static_cast<std::size_t>(membership_.processes));
    std::iota(everybody.begin(), everybody.end(), 0);
    processes_ =
        std::make_unique<StoreTeam>(*stores_[0], MemberState{[this] { return aborted(); }, [](std::optional<Phase>) {}},
                                    std::move(everybody), membership_.process, "the processes");
    if (server_) wait_for_all();
    processes_->barrier();
  } catch (const Aborted&) {
    leave();
    throw Error(failure_->exit, failure_->message);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    abort(known ? known->exit() : Exit::environment, error.what());
    if (server_) server_->abort(*failure());  // the thread that would tell it may not have been started
    leave();
    throw;
  }
}

LaunchedJob::~LaunchedJob() { leave(); }

// ---- coming together ------------------------------------------------------------------------------------------------

void LaunchedJob::serve() {
  std::vector<Descriptor> listeners;
  if (folder_) {
    listeners.push_back(listen_everywhere(0));
    if (membership_.token.empty()) membership_.token = random_token();
    std::string addresses;
    for (const Interface& one : interfaces()) addresses += one.address.host() + " ";
    own_endpoint_ = reachable_from_here(local_endpoint(listeners[0]));
    folder_->set(kAddressKey, MessageWriter().add(addresses).add(own_endpoint_.port()).add(membership_.token).bytes());
  } else {
    listeners = listen_patiently(std::get<TcpStoreAddress>(membership_.store), callbacks_,
                                 std::min(kRetryTicks, ticks_of(membership_.join_limit_s)));
  }
  own_endpoint_ = reachable_from_here(local_endpoint(listeners[0]));
  const ServerSettings settings{membership_.token, membership_.processes, membership_.ranks_per_process,
                                std::max(kTicksPerS, ticks_of(membership_.silence_s)), host_name()};
  try {
    server_ = std::make_unique<TcpServer>(std::move(listeners), settings);
  } catch (...) {
    if (folder_) folder_->clear();  // nobody answers at what was just written down
    throw;
  }
}

/// Where the store may be. With a folder they are known once process 0 has written them down.
std::vector<Endpoint> LaunchedJob::endpoints(std::string& why) {
  if (server_) return {own_endpoint_};
  std::vector<Endpoint> all;
  if (folder_) {
    const auto message = folder_->find(kAddressKey);
    const std::string& folder = std::get<FileStoreAddress>(membership_.store).folder;
    if (!message) {
      why = fmt::format("it has not written its address to {}", folder);
      return all;
    }
    try {
      MessageReader reader(*message);
      std::string hosts = reader.take_text();
      const int port = reader.take<int>();
      membership_.token = reader.take_text();
      for (std::size_t end = hosts.find(' '); end != hosts.npos; end = hosts.find(' ')) {
        all.push_back(endpoint_of(hosts.substr(0, end), port));
        hosts.erase(0, end + 1);
      }
    } catch (const BrokenMessage&) {
      throw EnvironmentError(
          fmt::format("the address in {} is not what process 0 of this version writes; remove the folder "
                      "or name another one in BUSBW_RENDEZVOUS",
                      folder));
    }
    return all;
  }
  const auto& address = std::get<TcpStoreAddress>(membership_.store);
  for (const std::string& host : address.hosts)
    for (const Endpoint& endpoint : resolve(host, address.port, why)) all.push_back(endpoint);
  return all;
}

TcpChannel LaunchedJob::connect(bool is_process) {
  const Greeting greeting{
      membership_.token, is_process, membership_.process, membership_.processes, membership_.ranks_per_process,
      getpid(),          host_name()};
  const int limit = std::max(1, ticks_of(membership_.join_limit_s));
  const auto look = [this] {
    callbacks_.look();
    if (aborted()) throw Aborted();
    return false;
  };
  std::string why;
  int next_say = kFirstSayTicks;
  const Ticker ticker;
  int tick = 0;
  const auto count = [&] { tick += static_cast<int>(std::min<std::uint64_t>(ticker.passed(), kMostTicks)); };
  while (count(), tick < limit) {
    look();
    for (const Endpoint& endpoint : endpoints(why)) {
      Connected connected = connect_to(endpoint, std::min(kTryTicks, limit), look);
      if (!connected.socket.is_open()) {
        why = connected.why;
        continue;
      }
      TcpChannel channel(std::move(connected.socket));
      Greeting mine = greeting;
      mine.token = membership_.token;  // a folder may just have told it
      channel.send(Frame::greeting, mine.packed());
      std::optional<TcpChannel::Received> received;
      for (int looks = 0; looks < std::min(kRetryTicks, limit) && !received && !channel.ended(); ++looks) {
        look();
        received = channel.receive(kTickMs);
      }
      const Welcome welcome = Welcome::from(received);
      if (welcome.is_welcome) {
        first_host_ = welcome.text;
        return channel;
      }
      why = fmt::format("{}: {}", endpoint.text(), welcome.text);
      if (!welcome.refused) continue;
      // An earlier job on this port may be about to end.
      if (!welcome.is_another_job || tick >= kRetryTicks)
        throw Error(*welcome.refused, fmt::format("process {} was turned away by {}", membership_.process, why));
    }
    if (tick >= next_say) {
      callbacks_.say(fmt::format("process {} is waiting for process 0 ({})", membership_.process, why));
      next_say = tick + kSayTicks;
    }
    wait_a_tick();
  }
  throw Error(
      Exit::rank_lost,
      fmt::format("process {} on {} could not reach process 0 in {:g} s ({}); look whether process 0 runs, whether "
                  "a firewall is between the hosts, and whether BUSBW_RENDEZVOUS names an address of its host",
                  membership_.process, host_name(), membership_.join_limit_s, why));
}

void LaunchedJob::wait_for_all() {
  const int limit = ticks_of(membership_.join_limit_s);
  int next_say = kFirstSayTicks;
  for (int tick = 0;; ++tick) {
    const std::vector<int> missing = server_->missing();
    if (missing.empty()) return;
    callbacks_.look();
    if (aborted()) throw Aborted();
    // It has this job's token, so it is one of those that are missing, and will not come again.
    if (const auto refusal = server_->first_refusal()) throw Error(refusal->exit, refusal->message);
    const auto absent = [&] {
      return fmt::format("{} of {} processes {} not come: {}", missing.size(), membership_.processes,
                         missing.size() == 1 ? "has" : "have", list_of(missing));
    };
    const auto doubt = [&] {
      const std::string other_token = server_->other_token();
      return other_token.empty() ? other_token : "; " + other_token;
    };
    if (tick >= limit)
      throw Error(
          Exit::rank_lost,
          fmt::format("{} in {:g} s{}{}; look whether they run and reach {} (a firewall?), or allow more time with "
                      "BUSBW_JOIN_TIMEOUT_S and -T",
                      absent(), membership_.join_limit_s,
                      server_->strangers() > 0
                          ? fmt::format(", and {} connections were turned away", server_->strangers())
                          : std::string(),
                      doubt(), host_name()));
    if (tick >= next_say) {
      callbacks_.say(absent() + doubt());
      next_say = tick + kSayTicks;
    }
    wait_a_tick();
  }
}

Bytes LaunchedJob::agree(const Bytes& words, const std::function<Bytes(const std::vector<Bytes>&)>& decide) {
  try {
    const std::vector<Bytes> all = processes_->gather(words);
    return processes_->broadcast(server_ ? decide(all) : Bytes());
  } catch (const Aborted&) {
    const Failure why = *failure();
    throw Error(why.exit, why.message);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    abort(known ? known->exit() : Exit::environment, error.what());
    throw;
  }
}

// ---- while it runs --------------------------------------------------------------------------------------------------

std::unique_ptr<TcpStore> LaunchedJob::new_store() {
  const auto aborted = [this] {
    if (agrees_) callbacks_.look();
    return this->aborted();
  };
  return std::make_unique<TcpStore>(
      connect(false),
      JobState{aborted, [this](const Failure& why) { note(why); }, [this](const std::string& how) { lose_store(how); }},
      // Process 0 gives up first: it knows who is missing.
      std::min(membership_.step_limit_s + (server_ ? 0 : kLaterS), kNoLimitS));
}

std::unique_ptr<Team> LaunchedJob::team(int rank) {
  const auto own = static_cast<std::size_t>(rank % membership_.ranks_per_process);
  agrees_ = false;
  stores_[own]->limit(kNoLimitS);  // from here on there is the watch over progress
  std::vector<int> everybody(static_cast<std::size_t>(ranks()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto on_step = [this, own](std::optional<Phase> phase) {
    if (phase &&
        own_ranks_[own].phase.exchange(static_cast<int>(*phase), std::memory_order_relaxed) != static_cast<int>(*phase))
      stores_[own]->tell_phase(static_cast<int>(own), *phase);
    own_ranks_[own].steps.fetch_add(1, std::memory_order_relaxed);
    if (aborted()) throw Aborted();
  };
  const auto on_issue = [&rank_shown = own_ranks_[own]](std::uint64_t bytes) {
    rank_shown.operations.store(rank_shown.operations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    rank_shown.operation_bytes.store(bytes, std::memory_order_relaxed);
  };
  return std::make_unique<StoreTeam>(*stores_[own], MemberState{[this] { return aborted(); }, on_step, on_issue},
                                     std::move(everybody), rank, "the job");
}

void LaunchedJob::note(const Failure& why) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = why;
  aborted_.store(true, std::memory_order_release);
}

void LaunchedJob::abort(Exit exit, const std::string& message) noexcept {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ = Failure{exit, message};
  tell_ = true;
  aborted_.store(true, std::memory_order_release);
}

void LaunchedJob::lose_store(const std::string& how) noexcept {
  if (leaves_) return;
  // The store's own word on why it ends may be on its way over another connection.
  for (int tick = 0; tick < kTicksPerS && !aborted(); ++tick) wait_a_tick();
  const Rank& slowest = *std::ranges::min_element(
      own_ranks_, {}, [](const Rank& rank) { return rank.steps.load(std::memory_order_relaxed); });
  const std::string_view phase = name(static_cast<Phase>(slowest.phase.load()));
  if (hears_nothing_) {
    note({Exit::rank_lost,
          fmt::format("rank 0 (process 0 on {}) was lost in phase {}: {}; look at its own output, and at "
                      "its host",
                      first_host_, phase, how)});
  } else {
    abort(Exit::rank_lost,
          fmt::format(
              "{} lost its connection to process 0 on {} in phase {}: {}; another one to it is well, so look for a "
              "firewall between the hosts that closes connections",
              rank_name(membership_.process * membership_.ranks_per_process), first_host_, phase, how));
  }
}

std::optional<Failure> LaunchedJob::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

RankProgress LaunchedJob::progress(int rank) const {
  if (!is_mine(rank)) return server_ ? server_->progress(rank) : RankProgress{};
  const Rank& own = own_ranks_[static_cast<std::size_t>(rank % membership_.ranks_per_process)];
  return {static_cast<Phase>(own.phase.load(std::memory_order_relaxed)), own.steps.load(std::memory_order_relaxed),
          own.operations.load(std::memory_order_relaxed), own.operation_bytes.load(std::memory_order_relaxed)};
}

std::string LaunchedJob::rank_name(int rank) const {
  if (is_mine(rank)) return fmt::format("rank {} on {}", rank, host_name());
  if (!server_) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, server_->host_of_process(rank / membership_.ranks_per_process));
}

std::string LaunchedJob::told_by(int rank, const std::string& sentence) const {
  return fmt::format("{}: {}", rank_name(rank), sentence);
}

/// The thread's whole life.
void LaunchedJob::keep_in_touch() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    talk_to_store();
  } catch (const BrokenMessage&) {
    lose_store("what it said cannot be understood");
  } catch (const std::exception& error) {
    lose_store(fmt::format("it cannot be talked to any more: {}", error.what()));
  }
}

/// Tells the store how far the ranks are, and hears from it when the job is aborted.
void LaunchedJob::talk_to_store() {
  const int most_silent_ticks = std::max(kTicksPerS, ticks_of(membership_.silence_s));
  const int ticks_a_beat =
      std::clamp(most_silent_ticks / 8, 1, std::max(kTicksPerS / 2, membership_.processes / kBeatsATick));
  int silent_ticks = 0;
  int since_beat = ticks_a_beat;
  int leaving_ticks = 0;
  bool told = false;
  bool said_goodbye = false;
  while (leaving_ticks < kGraceTicks) {
    if (!told) {
      const std::scoped_lock lock(mutex_);
      if (tell_) {
        control_->send(Frame::abort, packed(*failure_));
        told = true;
      }
    }
    if (leaves_ && !std::exchange(said_goodbye, true)) control_->send(Frame::leave, {});
    if (!said_goodbye && since_beat++ >= ticks_a_beat) {
      since_beat = 1;
      MessageWriter beat;
      for (const Rank& rank : own_ranks_)
        beat.add(static_cast<std::uint8_t>(rank.phase.load(std::memory_order_relaxed)))
            .add(rank.steps.load(std::memory_order_relaxed))
            .add(rank.operations.load(std::memory_order_relaxed))
            .add(rank.operation_bytes.load(std::memory_order_relaxed));
      control_->send(Frame::beat, beat.bytes());
    }
    const auto received = control_->receive(kTickMs);
    if (!received) {
      if (control_->ended()) {
        hears_nothing_ = true;
        if (!said_goodbye) lose_store("its connection closed before the job had ended");
        return;
      }
      if (!control_->idle()) continue;
      if (said_goodbye) ++leaving_ticks;
      if (++silent_ticks <= most_silent_ticks) continue;
      hears_nothing_ = true;
      if (!said_goodbye)
        lose_store(fmt::format("nothing was heard from it for {:g} s; it is stopped, or the network to its host is cut",
                               most_silent_ticks * kTickMs * 1e-3));
      return;
    }
    silent_ticks = 0;
    if (received->kind == Frame::failure) {
      MessageReader reader(received->body);
      note(unpack_failure(reader));
    }
    if (received->kind == Frame::leave && said_goodbye) return;
  }
}

void LaunchedJob::leave() noexcept {
  if (leaves_.exchange(true)) return;
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  if (server_) server_->wait_until_all_left(kGraceTicks);
  if (server_ && folder_) folder_->clear();
}

}  // namespace busbw
