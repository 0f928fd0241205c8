#include "rendezvous/rendezvous_point.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "common/support/printable.hpp"
#include "rendezvous/backoff.hpp"
#include "rendezvous/store/file_store.hpp"
#include "rendezvous/store/handshake.hpp"
#include "rendezvous/world/token.hpp"

namespace busbw {
namespace {

constexpr int kTryTicks = 2 * kTicksPerS;     // for one address
constexpr int kFirstTryTicks = 3;             // at first, where there are several, of which some may lead nowhere
constexpr int kRetryTicks = 10 * kTicksPerS;  // while an earlier job may still be closing the same port
constexpr int kFirstSayTicks = 3 * kTicksPerS;
constexpr int kSayTicks = 10 * kTicksPerS;
constexpr std::uint64_t kMaxTicks = 1'000'000;

constexpr const char* kAddressKey = "address of process 0";

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_here(const Endpoint& endpoint) {
  return std::ranges::any_of(interfaces(), [&](const Interface& one) { return one.address.host() == endpoint.host(); });
}

/// Where process 0 listens: at the addresses that its name stands for, and only there. A name that stands for no
/// address of this host, or for loopback alone as /etc/hosts often has it, says nothing about how others reach it.
std::vector<Descriptor> listen_for(const TcpStoreAddress& address) {
  std::vector<Endpoint> here;
  for (const std::string& host : address.hosts) {
    std::string ignored;
    for (const Endpoint& endpoint : resolve_host(host, address.port, ignored)) {
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
    callbacks.on_tick();
    try {
      return listen_for(address);
    } catch (const EnvironmentError&) {
      if (tick >= ticks) throw;
    }
    if (tick == kFirstSayTicks)
      callbacks.on_status(fmt::format("process 0 is waiting for port {}, which another program still uses", address.port));
    sleep_tick();
  }
}

Endpoint reachable_from_here(const Endpoint& listening) {
  const std::string host = listening.host();
  if (host == "0.0.0.0" || host == "::") return endpoint_of("127.0.0.1", listening.port());
  return listening;
}

}  // namespace

RendezvousPoint::RendezvousPoint(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership), callbacks_(std::move(callbacks)), has_own_token_(!membership.token.empty()) {
  if (const auto* file = std::get_if<FileStoreAddress>(&membership_.store))
    folder_ =
        std::make_unique<FileStore>(file->folder, membership_.join_limit_s, callbacks_.on_tick, membership_.process == 0);
}

RendezvousPoint::~RendezvousPoint() = default;

std::vector<Descriptor> RendezvousPoint::open() {
  std::vector<Descriptor> listeners;
  if (folder_) {
    listeners.push_back(listen_everywhere(0));
    own_endpoint_ = reachable_from_here(local_endpoint(listeners[0]));
    if (!has_own_token_) membership_.token = random_token();
    const std::string told = has_own_token_ ? std::string() : membership_.token;
    std::string addresses;
    for (const Interface& one : interfaces()) addresses += one.address.host() + " ";
    folder_->set(kAddressKey, MessageWriter().add(addresses).add(own_endpoint_.port()).add(told).bytes());
  } else {
    listeners = listen_patiently(std::get<TcpStoreAddress>(membership_.store), callbacks_,
                                 std::min(kRetryTicks, ticks_of(membership_.join_limit_s)));
    own_endpoint_ = reachable_from_here(local_endpoint(listeners[0]));
  }
  for (const Descriptor& listener : listeners) {
    const Endpoint endpoint = local_endpoint(listener);
    const bool is_everywhere = endpoint.host() == "0.0.0.0" || endpoint.host() == "::";
    listens_at_ += (listens_at_.empty() ? "" : ", ") +
                   (is_everywhere ? fmt::format("port {} of every address", endpoint.port()) : endpoint.text());
  }
  return listeners;
}

void RendezvousPoint::close() {
  if (folder_ && membership_.process == 0) folder_->clear();
}

/// Where the store may be. With a folder they are known once process 0 has written them down.
std::vector<RendezvousPoint::CandidateAddress> RendezvousPoint::places(std::string& why) {
  if (membership_.process == 0) return {{own_endpoint_, {}}};
  std::vector<CandidateAddress> all;
  if (folder_) {
    const auto message = folder_->try_get(kAddressKey);
    const std::string& folder = std::get<FileStoreAddress>(membership_.store).folder;
    if (!message) {
      why = fmt::format("it has not written its address to {}", folder);
      return all;
    }
    try {
      MessageReader reader(*message);
      std::string hosts = reader.take_text();
      const int port = reader.take<int>();
      const std::string told = reader.take_text();
      if (!has_own_token_) membership_.token = told;
      for (std::size_t end = hosts.find(' '); end != hosts.npos; end = hosts.find(' ')) {
        all.push_back({endpoint_of(hosts.substr(0, end), port), {}});
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
    for (const Endpoint& endpoint : resolve_host(host, address.port, why))
      all.push_back({endpoint, host == endpoint.host() ? std::string() : host + " at "});
  return all;
}

/// Whether process 0 answers there within `ticks` and takes this process in; else `tried` says what does. Throws Error
/// where process 0 says that this process does not fit in.
bool RendezvousPoint::run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_process, int ticks, JoinAttempt& tried) {
  using Kind = ClientHandshake::HandshakeResult::Kind;
  const ClientInfo who{is_process, membership_.process, membership_.processes, membership_.ranks_per_process,
                     getpid(),   host_name()};
  ClientHandshake handshake(membership_.token);  // a folder may just have told it
  channel.send(FrameKind::hello, handshake.hello());
  ClientHandshake::HandshakeResult verdict;
  // Who has greeted process 0 is in the job once that has been read, and lost where it goes away before the answer.
  bool has_greeted = false;
  for (int waited = 0; waited < (has_greeted ? ticks : std::min(kRetryTicks, ticks)) && !channel.ended();) {
    callbacks_.on_tick();
    const auto received = channel.receive(kTickMs);
    if (!received) {
      ++waited;
      continue;
    }
    if (received->kind != FrameKind::challenge) {
      verdict = handshake.result_of(received->kind, received->body);
      break;
    }
    try {
      channel.send(FrameKind::greeting, handshake.greeting(received->body, who));
      has_greeted = true;
    } catch (const BrokenMessage&) {
      break;
    }
  }
  const auto turned_away = [&](const std::string& reason) {
    return fmt::format("process {} was turned away by {}: {}", membership_.process, endpoint.text(), reason);
  };
  switch (verdict.kind) {
    case Kind::welcome: first_host_ = verdict.host; return true;
    case Kind::refused: {
      // In a job without a token anybody can say this.
      const bool is_possible = verdict.why.exit == ExitCode::usage || verdict.why.exit == ExitCode::environment;
      throw Error(is_possible ? verdict.why.exit : ExitCode::environment, turned_away(verdict.why.message));
    }
    case Kind::other_token:
      // Not proved: it may be a stranger, and process 0 at another address.
      tried.turned_away =
          turned_away("the token differs: another job listens there, or BUSBW_TOKEN is not the same in all processes");
      tried.why = fmt::format("{}: the token differs", endpoint.text());
      return false;
    case Kind::other_version:
      tried.turned_away = turned_away(
          fmt::format("it speaks version {} of busbw's protocol, this process version {}; install the same busbw "
                      "everywhere",
                      verdict.version, kWireVersion));
      tried.why = fmt::format("{}: another version of busbw", endpoint.text());
      return false;
    case Kind::stranger: tried.why = fmt::format("{}: what listens there is no store of this job", endpoint.text());
  }
  return false;
}

TcpChannel RendezvousPoint::join(bool is_process) {
  const int limit = std::max(1, ticks_of(membership_.join_limit_s));
  const auto look = [this] {
    callbacks_.on_tick();
    return false;
  };
  JoinAttempt tried;
  int next_say = kFirstSayTicks;
  // Where process 0 has been reached is known from then on, and where it is busy it may take its time there.
  int try_ticks = first_host_.empty() ? kFirstTryTicks : kTryTicks;
  Backoff pace(membership_.process, places_.empty(), limit);
  const Ticker ticker;
  int tick = 0;
  const auto count = [&] { tick += static_cast<int>(std::min<std::uint64_t>(ticker.take_elapsed(), kMaxTicks)); };
  while (count(), tick < limit) {
    look();
    const std::string said_before = std::exchange(tried.turned_away, {});
    const bool is_fresh = pace.is_due(tick);
    if (is_fresh)
      if (auto found = places(tried.why); !found.empty()) places_ = std::move(found);
    const int one_try = places_.size() > 1 ? try_ticks : kTryTicks;
    for (auto place = places_.begin(); place != places_.end(); ++place) {
      if (count(), tick >= limit) {
        if (tried.turned_away.empty()) tried.turned_away = said_before;
        break;
      }
      ConnectResult connected = connect_to(place->endpoint, std::min(one_try, limit - tick), look);
      if (!connected.socket.is_open()) {
        tried.why = place->name + connected.why;
        continue;
      }
      TcpChannel channel(std::move(connected.socket));
      if (count(); run_handshake(channel, place->endpoint, is_process, std::max(1, limit - tick), tried)) {
        std::rotate(places_.begin(), place, std::next(place));  // what comes next begins where this was welcomed
        return channel;
      }
    }
    if (!places_.empty()) try_ticks = std::min(2 * try_ticks, kTryTicks);
    // Before, an earlier job at this address may be about to end, and this one's be at another.
    if (is_fresh && tick >= kRetryTicks && !tried.turned_away.empty()) break;
    if (tick >= next_say) {
      callbacks_.on_status(fmt::format("process {} is waiting for process 0 ({})", membership_.process, tried.why));
      next_say = tick + kSayTicks;
    }
    sleep_tick();
  }
  if (!tried.turned_away.empty()) throw EnvironmentError(tried.turned_away);
  throw Error(
      ExitCode::rank_lost,
      fmt::format("process {} on {} could not reach process 0 in {:g} s ({}); look whether process 0 runs, whether "
                  "a firewall is between the hosts, and whether BUSBW_RENDEZVOUS names an address of its host",
                  membership_.process, host_name(), membership_.join_limit_s, tried.why));
}

}  // namespace busbw
