// Finds process 0 and connects to it: by an address that is known to all, by a file in a shared folder, or through the
// launcher's key-value store. Process 0 listens. It publishes its address in the last two cases.
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
#include "rendezvous/channel/handshake.hpp"
#include "rendezvous/launcher_store/shared_text.hpp"
#include "rendezvous/store/address_file.hpp"
#include "rendezvous/world/token.hpp"

namespace busbw {
namespace {

// Times in ticks of 0.1 s.
constexpr int kConnectTicks = 2 * kTicksPerS;  // for one connection attempt
// For an attempt at one of several addresses in the first round, because some may be unreachable.
constexpr int kFirstConnectTicks = 3;
constexpr int kStaleJobTicks = 10 * kTicksPerS;  // an earlier job that is ending may use the port for this time
constexpr std::uint64_t kMaxElapsedTicks = 1'000'000;  // bound of the ticker's value, so that it fits into an int

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_own_address(const Endpoint& endpoint) {
  return std::ranges::any_of(interfaces(),
                             [&](const Interface& local) { return local.address.host() == endpoint.host(); });
}

/// Listens at those addresses of `address.hosts` that belong to this host, or at all addresses if no address does.
/// Ignores loopback addresses of a host name, because /etc/hosts often maps the own host name to loopback.
std::vector<Descriptor> listen_at_own_addresses(const TcpStoreAddress& address) {
  std::vector<Endpoint> own_endpoints;
  for (const std::string& host : address.hosts) {
    for (const Endpoint& endpoint : resolve_host(host, address.port).endpoints) {
      const bool is_loopback_of_host_name = endpoint.is_loopback() && !is_loopback_name(host);
      if (is_loopback_of_host_name || !is_own_address(endpoint)) continue;
      if (std::ranges::none_of(own_endpoints, [&](const Endpoint& known) { return known.text() == endpoint.text(); }))
        own_endpoints.push_back(endpoint);
    }
  }
  std::vector<Descriptor> listeners;
  for (const Endpoint& endpoint : own_endpoints) listeners.push_back(listen_at(endpoint));
  if (listeners.empty()) listeners.push_back(listen_everywhere(address.port));
  return listeners;
}

/// Like listen_at_own_addresses. Retries for `limit_ticks`, because an ending job may still use the port.
std::vector<Descriptor> listen_with_retries(const TcpStoreAddress& address, const JoinCallbacks& callbacks,
                                            int limit_ticks) {
  for (int tick = 0;; ++tick) {
    callbacks.on_tick();
    try {
      return listen_at_own_addresses(address);
    } catch (const EnvironmentError&) {
      if (tick >= limit_ticks) throw;
    }
    if (tick == kFirstStatusTicks)
      callbacks.on_status(
          fmt::format("process 0 is waiting for port {}, which another program still uses", address.port));
    sleep_tick();
  }
}

/// Throws EnvironmentError with `source` and `remedy` if `bytes` are not an address.
PublishedAddress parse_address(const Bytes& bytes, std::string_view source, std::string_view remedy) {
  try {
    return MessageReader(bytes).take<PublishedAddress>();
  } catch (const BrokenMessage&) {
    throw EnvironmentError(
        fmt::format("the address in {} was not written by process 0 of this version; {}", source, remedy));
  }
}

/// True for the endpoint of a socket that listens on all addresses.
bool is_wildcard(const Endpoint& endpoint) { return endpoint.host() == "0.0.0.0" || endpoint.host() == "::"; }

/// Returns the endpoint at which process 0 itself connects to its listening socket.
Endpoint local_connect_endpoint(const Endpoint& listening) {
  if (is_wildcard(listening)) return endpoint_of("127.0.0.1", listening.port());
  return listening;
}

std::string listeners_text(const std::vector<Descriptor>& listeners) {
  std::string text;
  for (const Descriptor& listener : listeners) {
    const Endpoint endpoint = local_endpoint(listener);
    if (!text.empty()) text += ", ";
    text += is_wildcard(endpoint) ? fmt::format("port {} of every address", endpoint.port()) : endpoint.text();
  }
  return text;
}

}  // namespace

RendezvousPoint::RendezvousPoint(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership), callbacks_(std::move(callbacks)), has_own_token_(!membership.token.empty()) {
  if (const auto* file = std::get_if<FileStoreAddress>(&membership_.store)) address_file_.emplace(file->folder);
}

std::vector<Descriptor> RendezvousPoint::start_listening() {
  std::vector<Descriptor> listeners;
  const auto* known_address = std::get_if<TcpStoreAddress>(&membership_.store);
  if (known_address)
    listeners =
        listen_with_retries(*known_address, callbacks_, std::min(kStaleJobTicks, ticks_of(membership_.join_limit_s)));
  else
    listeners.push_back(listen_everywhere(0));  // on a port that the system selects
  own_endpoint_ = local_connect_endpoint(local_endpoint(listeners[0]));
  listen_address_text_ = listeners_text(listeners);
  if (known_address) return listeners;

  PublishedAddress published;
  for (const Interface& local : interfaces()) published.hosts += local.address.host() + " ";
  published.port = own_endpoint_.port();
  if (!has_own_token_) {
    membership_.token = random_token();
    published.token = membership_.token;
  }
  publish(published);
  return listeners;
}

void RendezvousPoint::withdraw_address() {
  if (address_file_) address_file_->withdraw();
}

void RendezvousPoint::publish(const PublishedAddress& address) {
  const Bytes bytes = MessageWriter().add(address).bytes();
  if (address_file_) {
    address_file_->publish(bytes);
  } else {
    share_through_launcher(hexadecimal(bytes));
  }
}

/// Shares the text of process 0 with all processes, and returns this text. Every process must call it once.
std::string RendezvousPoint::share_through_launcher(const std::string& text) const {
  int tick = 0;
  const StoreWait wait{
      std::max(1, ticks_of(membership_.join_limit_s)), [&] {
        callbacks_.on_tick();
        const bool is_status_due = ++tick % kStatusTicks == kFirstStatusTicks;  // after 3 s, then every 10 s
        if (is_status_due)
          callbacks_.on_status(fmt::format("process {} is waiting for all processes in the launcher's key-value store",
                                           membership_.process));
      }};
  return share_text(std::get<LauncherStoreChoice>(membership_.store).store, membership_.process, text, wait);
}

/// Returns the address that process 0 published, or nothing if the folder has no address yet.
std::optional<PublishedAddress> RendezvousPoint::read_published() {
  if (address_file_) {
    const auto bytes = address_file_->read();
    if (!bytes) return std::nullopt;
    return parse_address(*bytes, std::get<FileStoreAddress>(membership_.store).folder,
                         "remove the folder, or set another one in BUSBW_RENDEZVOUS");
  }
  if (!launcher_address_)
    launcher_address_ = parse_address(bytes_of_hexadecimal(share_through_launcher({})).value_or(Bytes()),
                                      "the launcher's key-value store", "install the same busbw everywhere");
  return launcher_address_;
}

/// Returns the addresses at which process 0 may listen. With an address file, the list is empty until process 0 has
/// published them.
RendezvousPoint::CandidateLookup RendezvousPoint::find_candidates() {
  CandidateLookup lookup;
  if (membership_.process == 0) {
    lookup.candidates.push_back({.endpoint = own_endpoint_, .message_prefix = {}});
    return lookup;
  }
  if (const auto* address = std::get_if<TcpStoreAddress>(&membership_.store)) {
    for (const std::string& host : address->hosts) {
      const Resolution resolution = resolve_host(host, address->port);
      if (!resolution.message.empty()) lookup.problem = resolution.message;
      for (const Endpoint& endpoint : resolution.endpoints) {
        const bool is_from_name = host != endpoint.host();
        lookup.candidates.push_back(
            {.endpoint = endpoint, .message_prefix = is_from_name ? host + " at " : std::string()});
      }
    }
    return lookup;
  }
  const auto published = read_published();
  if (!published) {
    lookup.problem =
        fmt::format("it has not written its address to {}", std::get<FileStoreAddress>(membership_.store).folder);
    return lookup;
  }
  if (!has_own_token_) membership_.token = published->token;
  std::string_view hosts = published->hosts;  // a blank follows each host
  for (std::size_t end = hosts.find(' '); end != hosts.npos; end = hosts.find(' ')) {
    lookup.candidates.push_back(
        {.endpoint = endpoint_of(std::string(hosts.substr(0, end)), published->port), .message_prefix = {}});
    hosts.remove_prefix(end + 1);
  }
  return lookup;
}

/// Runs the client's handshake. True if process 0 welcomes this process within `limit_ticks`, else sets the reason in
/// `attempt`. Throws Error if process 0 proves that it has the token and refuses this process.
bool RendezvousPoint::run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_control, int limit_ticks,
                                    JoinAttempt& attempt) {
  using Kind = ClientHandshake::HandshakeResult::Kind;
  const ClientInfo client{.is_control = is_control,
                          .process = membership_.process,
                          .processes = membership_.processes,
                          .ranks_per_process = membership_.ranks_per_process,
                          .pid = getpid(),
                          .host = host_name()};
  // Use the member itself: the last find_candidates() may have set the token.
  const ClientHandshake::HandshakeResult result =
      exchange_handshake(channel, membership_.token, client, limit_ticks, callbacks_.on_tick);
  const auto rejection_text = [&](const std::string& reason) {
    return fmt::format("process {} was rejected by {}: {}", membership_.process, endpoint.text(), reason);
  };
  switch (result.kind) {
    case Kind::welcome: process_0_host_ = result.host; return true;
    case Kind::refused: {
      // If the job has no token, any program can send this frame. So accept only the exit codes that a refusal can
      // have.
      const ExitCode exit = result.failure.exit;
      const bool is_plausible = exit == ExitCode::usage || exit == ExitCode::environment || exit == ExitCode::rank_lost;
      throw Error(is_plausible ? exit : ExitCode::environment, rejection_text(result.failure.message));
    }
    case Kind::other_token:
      // The answer has no proof, so it does not end the attempt. The sender may not belong to the job, and process 0
      // may listen at another address.
      attempt.rejection = rejection_text(
          "the token differs: another job listens there, or BUSBW_TOKEN is not the same in all processes");
      attempt.error = fmt::format("{}: the token differs", endpoint.text());
      return false;
    case Kind::other_version:
      attempt.rejection = rejection_text(
          fmt::format("it uses version {} of busbw's protocol, this process version {}; install the same busbw "
                      "everywhere",
                      result.version, kWireVersion));
      attempt.error = fmt::format("{}: another version of busbw", endpoint.text());
      return false;
    case Kind::not_authenticated:
      attempt.error = fmt::format("{}: the listener is not the store of this job", endpoint.text());
  }
  return false;
}

int RendezvousPoint::JoinAttempt::take_ticks_left() {
  tick += static_cast<int>(std::min(ticker.take_elapsed(), kMaxElapsedTicks));
  return std::max(0, limit_ticks - tick);
}

/// Tries each candidate once, at most `max_connect_ticks` per connection. Returns the connection that process 0 has
/// accepted, if there is one.
std::optional<TcpChannel> RendezvousPoint::try_candidates(bool is_control, int max_connect_ticks,
                                                          JoinAttempt& attempt) {
  const auto should_stop = [this] {
    callbacks_.on_tick();
    return false;  // only an exception of on_tick() ends the attempt
  };
  // The error message has only a rejection of the last complete round.
  const std::string previous_rejection = std::exchange(attempt.rejection, {});
  for (auto candidate = candidates_.begin(); candidate != candidates_.end(); ++candidate) {
    const int ticks_left = attempt.take_ticks_left();
    if (ticks_left == 0) {
      // This round is incomplete. If it has no rejection, keep that of the previous round.
      if (attempt.rejection.empty()) attempt.rejection = previous_rejection;
      return std::nullopt;
    }
    ConnectResult connected = connect_to(candidate->endpoint, std::min(max_connect_ticks, ticks_left), should_stop);
    if (!connected.socket.is_open()) {
      attempt.error = candidate->message_prefix + connected.message;
      continue;
    }
    TcpChannel channel(std::move(connected.socket));
    const int handshake_ticks = std::max(1, attempt.take_ticks_left());
    if (run_handshake(channel, candidate->endpoint, is_control, handshake_ticks, attempt)) {
      std::rotate(candidates_.begin(), candidate, std::next(candidate));  // the next join starts with this address
      return channel;
    }
  }
  return std::nullopt;
}

TcpChannel RendezvousPoint::join(bool is_control) {
  JoinAttempt attempt{.limit_ticks = std::max(1, ticks_of(membership_.join_limit_s))};
  int next_status_tick = kFirstStatusTicks;
  // Each round doubles the time for one of several candidates. After the first join, the address is known, and a busy
  // process 0 gets the full time at once.
  int ticks_per_candidate = process_0_host_.empty() ? kFirstConnectTicks : kConnectTicks;
  // Lookups load a DNS server or the shared folder. Without candidates, the first lookup is due at once.
  Backoff lookups(membership_.process, /*is_due_at_once=*/candidates_.empty(), attempt.limit_ticks);
  while (attempt.take_ticks_left() > 0) {
    callbacks_.on_tick();
    const bool is_lookup_due = lookups.start_if_due(attempt.tick);
    if (is_lookup_due) {
      CandidateLookup lookup = find_candidates();
      if (!lookup.problem.empty()) attempt.error = lookup.problem;
      if (!lookup.candidates.empty()) candidates_ = std::move(lookup.candidates);
    }
    const int max_connect_ticks = candidates_.size() > 1 ? ticks_per_candidate : kConnectTicks;
    if (auto channel = try_candidates(is_control, max_connect_ticks, attempt)) return std::move(*channel);
    if (!candidates_.empty()) ticks_per_candidate = std::min(2 * ticks_per_candidate, kConnectTicks);
    // Until kStaleJobTicks, the rejection may come from an ending job. In a round without a lookup, the candidates may
    // be out of date. In both cases a later round may find process 0.
    const bool is_rejection_final = is_lookup_due && attempt.tick >= kStaleJobTicks;
    if (is_rejection_final && !attempt.rejection.empty()) break;
    if (attempt.tick >= next_status_tick) {
      callbacks_.on_status(fmt::format("process {} is waiting for process 0 ({})", membership_.process, attempt.error));
      next_status_tick = attempt.tick + kStatusTicks;
    }
    sleep_tick();
  }
  if (!attempt.rejection.empty()) throw EnvironmentError(attempt.rejection);
  throw Error(
      ExitCode::rank_lost,
      fmt::format("process {} on {} could not reach process 0 in {:g} s ({}); check that process 0 runs, that no "
                  "firewall blocks it, and that BUSBW_RENDEZVOUS names an address of its host",
                  membership_.process, host_name(), membership_.join_limit_s, attempt.error));
}

}  // namespace busbw
