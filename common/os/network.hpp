#pragma once
// TCP between processes: addresses of this host, listening and connecting. Limits are counted in ticks of waiting
// (ticker.hpp), not with a clock.
#include <sys/socket.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "common/os/descriptor.hpp"

namespace busbw {

/// IP address with a port.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  /// Returns "10.0.0.1:4711" or "[fd00::1]:4711".
  std::string text() const;
  /// Returns the numeric address without brackets and port: "10.0.0.1".
  std::string host() const;
  int port() const;
  /// True for 127.0.0.0/8 and ::1.
  bool is_loopback() const;
};

/// One address of a network interface that is up.
struct Interface {
  std::string name;
  Endpoint address;  // port 0
  Endpoint mask;

  /// For messages between ranks, see HasMembers (engine/values/message.hpp).
  static auto members(auto& self) { return std::tie(self.name, self.address, self.mask); }
};

/// Returns the addresses of this host, loopback last, without IPv6 link-local addresses.
std::vector<Interface> interfaces();

/// Result of a name lookup.
struct Resolution {
  std::vector<Endpoint> endpoints;  // empty if the lookup failed
  std::string message;              // reason of a failure
};
/// Looks up the addresses of `host`, a name or a numeric address.
Resolution resolve_host(const std::string& host, int port);
/// Parses a numeric address such as "10.0.0.1". Throws EnvironmentError if `text` is anything else.
Endpoint endpoint_of(const std::string& text, int port);

/// Returns a non-blocking listening socket; port 0 means any free port. Throws EnvironmentError with endpoint and
/// remedy.
Descriptor listen_at(const Endpoint& endpoint);
/// Like `listen_at`, on all addresses of this host, with IPv6 if the host supports it.
Descriptor listen_everywhere(int port);
Endpoint local_endpoint(const Descriptor& socket);
/// Returns the address of the peer, or nothing if the socket is no longer connected.
std::optional<Endpoint> remote_endpoint(const Descriptor& socket);

/// Result of a connection attempt.
struct ConnectResult {
  Descriptor socket;    // non-blocking, TCP_NODELAY; closed if the attempt failed
  std::string message;  // reason of a failure
};
/// Tries to connect for at most `ticks`. Polls `should_stop` every tick and gives up if it returns true. Throws
/// EnvironmentError if this process has too many open files. `interface`: see bind_to_interface; empty: any.
ConnectResult connect_to(const Endpoint& endpoint, int ticks, const std::function<bool()>& should_stop,
                         const std::string& interface = {});

/// Makes a socket send and receive through one network interface only, also if the routes prefer another one. Throws
/// EnvironmentError if the system refuses.
void bind_to_interface(const Descriptor& socket, const std::string& name);

/// Throws the error of a process that has reached its limit on open files. `error`: EMFILE or ENFILE.
[[noreturn]] void throw_out_of_descriptors(int error);

/// Makes a socket non-blocking and sets TCP_NODELAY and keep-alive.
void set_nonblocking_nodelay(const Descriptor& socket);

}  // namespace busbw
