// Wrappers of the socket API. Sockets are non-blocking, and each wait ends after at most one tick, so that the caller
// can stop it.
#include "common/os/network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/os/ticker.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr int kBacklog = 4096;  // connections waiting for accept: all ranks of a large job connect at once

const sockaddr* as_sockaddr(const Endpoint& endpoint) { return reinterpret_cast<const sockaddr*>(&endpoint.address); }
/// Views of the address as IPv4 or IPv6; ss_family decides which one is valid.
const sockaddr_in& v4(const Endpoint& endpoint) { return reinterpret_cast<const sockaddr_in&>(endpoint.address); }
const sockaddr_in6& v6(const Endpoint& endpoint) { return reinterpret_cast<const sockaddr_in6&>(endpoint.address); }

Endpoint make_endpoint(const sockaddr* address) {
  Endpoint endpoint;
  endpoint.length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&endpoint.address, address, endpoint.length);
  return endpoint;
}

/// True for an IPv4 or IPv6 address of an interface that is up, except IPv6 link-local addresses.
bool is_usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  return entry.ifa_addr->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

/// Result of getaddrinfo.
struct LookUp {
  int error = 0;  // EAI_...; 0 for success
  std::vector<Endpoint> endpoints;
};

/// Calls getaddrinfo with `flags` (AI_...).
LookUp look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  LookUp result;
  result.error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (result.error != 0) return result;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, freeaddrinfo);
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next)
    result.endpoints.push_back(make_endpoint(entry->ai_addr));
  return result;
}

/// Creates a listening socket. `both_families`: an IPv6 socket also accepts IPv4. On failure the descriptor is closed
/// and errno is set.
Descriptor open_listening_socket(const Endpoint& endpoint, bool both_families) {
  Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return socket;
  const int on = 1;
  const int only_v6 = both_families ? 0 : 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (endpoint.address.ss_family == AF_INET6)
    setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6));
  if (bind(socket.number(), as_sockaddr(endpoint), endpoint.length) == 0 && listen(socket.number(), kBacklog) == 0)
    return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return socket;
}

/// Throws the error for a failed listen; errno is the reason.
[[noreturn]] void throw_cannot_listen(const std::string& endpoint) {
  throw EnvironmentError(
      fmt::format("cannot listen at {}: {}; set another port (BUSBW_RENDEZVOUS=tcp://HOST:PORT), or stop "
                  "the program that uses it",
                  endpoint, std::strerror(errno)));
}

}  // namespace

std::string Endpoint::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &v6(*this).sin6_addr, text.data(), text.size());
  } else {
    inet_ntop(AF_INET, &v4(*this).sin_addr, text.data(), text.size());
  }
  return text.data();
}

int Endpoint::port() const { return ntohs(address.ss_family == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port); }

std::string Endpoint::text() const {
  if (address.ss_family == AF_INET6) return fmt::format("[{}]:{}", host(), port());
  return fmt::format("{}:{}", host(), port());
}

bool Endpoint::is_loopback() const {
  if (address.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
  return ntohl(v4(*this).sin_addr.s_addr) >> 24 == 127;
}

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Interface> usable;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
    if (is_usable(*entry) && entry->ifa_netmask != nullptr)
      usable.push_back({entry->ifa_name, make_endpoint(entry->ifa_addr), make_endpoint(entry->ifa_netmask)});
  std::ranges::stable_partition(usable, [](const Interface& interface) { return !interface.address.is_loopback(); });
  return usable;
}

Resolution resolve_host(const std::string& host, int port) {
  LookUp result = look_up(host, port, /*flags=*/0);
  if (result.error != 0) return {{}, fmt::format("{}: {}", host, gai_strerror(result.error))};
  return {std::move(result.endpoints), {}};
}

Endpoint endpoint_of(const std::string& text, int port) {
  const LookUp result = look_up(text, port, AI_NUMERICHOST);
  if (result.error != 0) throw EnvironmentError(fmt::format("{}: not a numeric IP address", text));
  return result.endpoints.front();
}

Descriptor listen_at(const Endpoint& endpoint) {
  Descriptor socket = open_listening_socket(endpoint, /*both_families=*/false);
  if (!socket.is_open()) throw_cannot_listen(endpoint.text());
  return socket;
}

Descriptor listen_everywhere(int port) {
  Descriptor socket = open_listening_socket(endpoint_of("::", port), /*both_families=*/true);
  if (!socket.is_open() && errno == EAFNOSUPPORT)
    socket = open_listening_socket(endpoint_of("0.0.0.0", port), /*both_families=*/false);
  if (!socket.is_open()) throw_cannot_listen(fmt::format("port {}", port));
  return socket;
}

Endpoint local_endpoint(const Descriptor& socket) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  getsockname(socket.number(), reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length);
  return endpoint;
}

std::optional<Endpoint> remote_endpoint(const Descriptor& socket) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (getpeername(socket.number(), reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) != 0)
    return std::nullopt;
  return endpoint;
}

void set_nonblocking_nodelay(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // Without keep-alive, firewalls drop idle connections.
  const int probe_period_s = 30;
  setsockopt(socket.number(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket.number(), IPPROTO_TCP, TCP_KEEPIDLE, &probe_period_s, sizeof(probe_period_s));
  setsockopt(socket.number(), IPPROTO_TCP, TCP_KEEPINTVL, &probe_period_s, sizeof(probe_period_s));
  fcntl(socket.number(), F_SETFL, fcntl(socket.number(), F_GETFL) | O_NONBLOCK);
}

void throw_out_of_descriptors(int error) {
  throw EnvironmentError(fmt::format(
      "cannot open a socket: {}; raise the limit on open files (ulimit -n), or use fewer ranks", std::strerror(error)));
}

void bind_to_interface(const Descriptor& socket, const std::string& name) {
  if (setsockopt(socket.number(), SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size())) == 0)
    return;
  throw EnvironmentError(fmt::format("cannot bind a connection to interface {}: {}; use Linux 5.7 or later, or root",
                                     name, std::strerror(errno)));
}

ConnectResult connect_to(const Endpoint& endpoint, int ticks, const std::function<bool()>& should_stop,
                         const std::string& interface) {
  const auto failure = [&](const std::string& reason) {
    return ConnectResult{Descriptor(), fmt::format("{}: {}", endpoint.text(), reason)};
  };
  Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open() && (errno == EMFILE || errno == ENFILE)) throw_out_of_descriptors(errno);
  if (!socket.is_open()) return failure(std::strerror(errno));
  set_nonblocking_nodelay(socket);
  if (!interface.empty()) bind_to_interface(socket, interface);
  if (connect(socket.number(), as_sockaddr(endpoint), endpoint.length) == 0) return {std::move(socket), {}};
  if (errno != EINPROGRESS) return failure(std::strerror(errno));
  for (int tick = 0; tick < ticks && !should_stop(); ++tick) {
    // A socket becomes writable when the attempt has ended, with success or with an error.
    pollfd writable{socket.number(), POLLOUT, 0};
    if (poll(&writable, 1, kTickMs) <= 0) continue;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return failure(std::strerror(error));
    return {std::move(socket), {}};
  }
  return failure(fmt::format("no answer in {:g} s", ticks * kTickMs * 1e-3));
}

}  // namespace busbw
