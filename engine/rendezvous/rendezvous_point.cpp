// Finds process 0 and connects to it: by an address that is known to all, by a file in a shared folder, or through the
// launcher's key-value store. Process 0 listens, and publishes its address unless all processes know it.
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
// For one of several addresses in the first round, because some may be unreachable.
constexpr int kFirstConnectTicks = 3;
constexpr int kStaleJobTicks = 10 * kTicksPerS;  // an earlier job that is ending may use the port for this time
constexpr std::uint64_t kMaxElapsedTicks = 1'000'000;  // bound of one step, so that an int does not overflow

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_own_address(const Endpoint& endpoint) {
  return std::ranges::any_of(interfaces(),
                             [&](const Interface& local) { return local.address.host() == endpoint.host(); });
}

/// Listens at those addresses of `address.hosts` that belong to this host, or on all addresses if no address does.
/// Loopback counts only if named, because /etc/hosts often maps the host name to it.
std::vector<Descriptor> listen_at_own_addresses(const TcpStoreAddress& address) {
  std::vector<Endpoint> own_endpoints;
  for (const std::string& host : address.hosts) {
    for (const Endpoint& endpoint : resolve_host(host, address.port).endpoints) {
      const bool is_unnamed_loopback = endpoint.is_loopback() && !is_loopback_name(host);
      if (is_unnamed_loopback || !is_own_address(endpoint)) continue;
      if (std::ranges::none_of(own_endpoints, [&](const Endpoint& known) { return known.text() == endpoint.text(); }))
        own_endpoints.push_back(endpoint);
    }
  }
  std::vector<Descriptor> listeners;
  for (const Endpoint& endpoint : own_endpoints) listeners.push_back(listen_at(endpoint));
  if (listeners.empty()) listeners.push_back(listen_everywhere(address.port));
  return listeners;
}

/// Like listen_at_own_addresses, but retries for `limit_ticks`, because an ending job may still use the port.
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

/// Returns the endpoint at which process 0 itself connects to its listening socket.
Endpoint local_connect_endpoint(const Endpoint& listening) {
  const std::string host = listening.host();
  if (host == "0.0.0.0" || host == "::") return endpoint_of("127.0.0.1", listening.port());
  return listening;
}

}  // namespace

RendezvousPoint::RendezvousPoint(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership), callbacks_(std::move(callbacks)), has_own_token_(!membership.token.empty()) {
  if (const auto* file = std::get_if<FileStoreAddress>(&membership_.store)) address_file_.emplace(file->folder);
}

std::vector<Descriptor> RendezvousPoint::start_listening() {
  std::vector<Descriptor> listeners;
  if (const auto* address = std::get_if<TcpStoreAddress>(&membership_.store)) {
    listeners = listen_with_retries(*address, callbacks_, std::min(kStaleJobTicks, ticks_of(membership_.join_limit_s)));
    own_endpoint_ = local_connect_endpoint(local_endpoint(listeners[0]));
  } else {
    listeners.push_back(listen_everywhere(0));
    own_endpoint_ = local_connect_endpoint(local_endpoint(listeners[0]));
    if (!has_own_token_) membership_.token = random_token();
    PublishedAddress published;
    for (const Interface& local : interfaces()) published.hosts += local.address.host() + " ";
    published.port = own_endpoint_.port();
    if (!has_own_token_) published.token = membership_.token;
    publish(published);
  }
  for (const Descriptor& listener : listeners) {
    const Endpoint endpoint = local_endpoint(listener);
    const bool is_everywhere = endpoint.host() == "0.0.0.0" || endpoint.host() == "::";
    listen_address_text_ +=
        (listen_address_text_.empty() ? "" : ", ") +
        (is_everywhere ? fmt::format("port {} of every address", endpoint.port()) : endpoint.text());
  }
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

/// Shares the text of process 0 with all processes, and returns it. Every process calls it once.
std::string RendezvousPoint::share_through_launcher(const std::string& text) const {
  int tick = 0;
  const StoreWait wait{
      std::max(1, ticks_of(membership_.join_limit_s)), [&] {
        callbacks_.on_tick();
        if (++tick % kStatusTicks == kFirstStatusTicks)
          callbacks_.on_status(fmt::format("process {} is waiting for all processes in the launcher's key-value store",
                                           membership_.process));
      }};
  return share_text(std::get<LauncherStoreChoice>(membership_.store).store, membership_.process, text, wait);
}

/// Returns the address that process 0 published, or nothing if it is not in the folder yet.
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
    lookup.candidates.push_back({own_endpoint_, {}});
    return lookup;
  }
  if (const auto* address = std::get_if<TcpStoreAddress>(&membership_.store)) {
    for (const std::string& host : address->hosts) {
      const Resolution resolution = resolve_host(host, address->port);
      if (!resolution.message.empty()) lookup.problem = resolution.message;
      for (const Endpoint& endpoint : resolution.endpoints)
        lookup.candidates.push_back({endpoint, host == endpoint.host() ? std::string() : host + " at "});
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
    lookup.candidates.push_back({endpoint_of(std::string(hosts.substr(0, end)), published->port), {}});
    hosts.remove_prefix(end + 1);
  }
  return lookup;
}

/// Runs the client's handshake. True if process 0 welcomes this process within `limit_ticks`, else sets the reason in
/// `attempt`. Throws Error if process 0 proves that it has the token and refuses this process.
bool RendezvousPoint::run_handshake(TcpChannel& channel, const Endpoint& endpoint, bool is_control, int limit_ticks,
                                    JoinAttempt& attempt) {
  using Kind = ClientHandshake::HandshakeResult::Kind;
  const ClientInfo client{is_control, membership_.process, membership_.processes, membership_.ranks_per_process,
                          getpid(),   host_name()};
  // Use the member itself: the last find_candidates() may have set the token.
  const ClientHandshake::HandshakeResult result =
      exchange_handshake(channel, membership_.token, client, limit_ticks, callbacks_.on_tick);
  const auto rejection_text = [&](const std::string& reason) {
    return fmt::format("process {} was rejected by {}: {}", membership_.process, endpoint.text(), reason);
  };
  switch (result.kind) {
    case Kind::welcome: process_0_host_ = result.host; return true;
    case Kind::refused: {
      // If the job has no token, any program can send this frame, so other exit codes are not trusted.
      const ExitCode exit = result.failure.exit;
      const bool is_plausible = exit == ExitCode::usage || exit == ExitCode::environment || exit == ExitCode::rank_lost;
      throw Error(is_plausible ? exit : ExitCode::environment, rejection_text(result.failure.message));
    }
    case Kind::other_token:
      // Not authenticated: the sender may not belong to the job, and process 0 may listen at another address.
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

TcpChannel RendezvousPoint::join(bool is_control) {
  const int limit_ticks = std::max(1, ticks_of(membership_.join_limit_s));
  const auto on_tick = [this] {
    callbacks_.on_tick();
    return false;  // continue to connect
  };
  JoinAttempt attempt;
  int next_status_tick = kFirstStatusTicks;
  // After the first join the address is known, and a busy process 0 gets more time.
  int ticks_per_candidate = process_0_host_.empty() ? kFirstConnectTicks : kConnectTicks;
  Backoff backoff(membership_.process, candidates_.empty(), limit_ticks);
  const Ticker ticker;
  int tick = 0;
  const auto update_tick = [&] { tick += static_cast<int>(std::min(ticker.take_elapsed(), kMaxElapsedTicks)); };
  const auto is_time_left = [&] {
    update_tick();
    return tick < limit_ticks;
  };
  while (is_time_left()) {
    on_tick();
    // Each round tries all candidates. Only a rejection of the last complete round counts for the error message.
    const std::string previous_rejection = std::exchange(attempt.rejection, {});
    const bool is_lookup_due = backoff.is_due(tick);
    if (is_lookup_due) {
      CandidateLookup lookup = find_candidates();
      if (!lookup.problem.empty()) attempt.error = lookup.problem;
      if (!lookup.candidates.empty()) candidates_ = std::move(lookup.candidates);
    }
    const int connect_ticks = candidates_.size() > 1 ? ticks_per_candidate : kConnectTicks;
    for (auto candidate = candidates_.begin(); candidate != candidates_.end(); ++candidate) {
      if (!is_time_left()) {
        // This round is incomplete. Without a rejection of its own, that of the previous round counts.
        if (attempt.rejection.empty()) attempt.rejection = previous_rejection;
        break;
      }
      ConnectResult connected = connect_to(candidate->endpoint, std::min(connect_ticks, limit_ticks - tick), on_tick);
      if (!connected.socket.is_open()) {
        attempt.error = candidate->name + connected.message;
        continue;
      }
      TcpChannel channel(std::move(connected.socket));
      update_tick();
      if (run_handshake(channel, candidate->endpoint, is_control, std::max(1, limit_ticks - tick), attempt)) {
        std::rotate(candidates_.begin(), candidate, std::next(candidate));  // the next join starts with this address
        return channel;
      }
    }
    if (!candidates_.empty()) ticks_per_candidate = std::min(2 * ticks_per_candidate, kConnectTicks);
    // Until kStaleJobTicks, the rejection may come from an ending job. In a round without a lookup, the candidates may
    // be out of date. In both cases a later round may find process 0.
    const bool is_rejection_final = is_lookup_due && tick >= kStaleJobTicks;
    if (is_rejection_final && !attempt.rejection.empty()) break;
    if (tick >= next_status_tick) {
      callbacks_.on_status(fmt::format("process {} is waiting for process 0 ({})", membership_.process, attempt.error));
      next_status_tick = tick + kStatusTicks;
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
