#pragma once
// TCP between processes: where this host can be reached, who listens, who connects. Limits count ticks (ticker.hpp)
// spent waiting; no clock is read.
#include <sys/socket.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/os/descriptor.hpp"

namespace busbw {

/// A host's address with a port.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  /// "10.0.0.1:4711", "[fd00::1]:4711"
  std::string text() const;
  std::string host() const;
  int port() const;
  bool is_loopback() const;
};

/// One of this host's interfaces that are up, with one of its addresses.
struct Interface {
  std::string name;
  Endpoint address;  // port 0
  Endpoint mask;
};

/// The addresses under which this host may be reached, loopback last; no link-local ones.
std::vector<Interface> interfaces();
/// The addresses of `host` (a name, or an address in digits); empty where it is not known (yet), and `why` then says
/// so.
std::vector<Endpoint> resolve_host(const std::string& host, int port, std::string& why);
/// Throws EnvironmentError where `text` (digits alone) is no address.
Endpoint endpoint_of(const std::string& text, int port);

/// A listening socket that does not block. `port` 0: any. Throws EnvironmentError naming the endpoint and the remedy.
Descriptor listen_at(const Endpoint& where);
/// On every address, IPv4 and IPv6 where there is IPv6.
Descriptor listen_everywhere(int port);
/// Where a socket listens.
Endpoint local_endpoint(const Descriptor& socket);
/// Whom it is connected to; missing where it is not any more.
std::optional<Endpoint> remote_endpoint(const Descriptor& socket);

/// What became of an attempt to connect.
struct ConnectResult {
  Descriptor socket;  // does not block, sends at once; closed where it failed
  std::string why;    // it failed
};
/// Tries for at most `ticks`; `gave_up` is asked every tick and ends it early.
ConnectResult connect_to(const Endpoint& where, int ticks, const std::function<bool()>& gave_up);

/// Sockets that answer at once and do not block.
void set_nonblocking_nodelay(const Descriptor& socket);

}  // namespace busbw
