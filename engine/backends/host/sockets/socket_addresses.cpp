#include "backends/host/sockets/socket_addresses.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

/// Address in network byte order: 4 or 16 bytes.
std::span<const std::uint8_t> bytes_of(const Endpoint& endpoint) {
  if (endpoint.address.ss_family == AF_INET6)
    return reinterpret_cast<const sockaddr_in6&>(endpoint.address).sin6_addr.s6_addr;
  const auto& ip = reinterpret_cast<const sockaddr_in&>(endpoint.address).sin_addr;
  return {reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip};
}

bool same_ip(const Endpoint& a, const Endpoint& b) { return std::ranges::equal(bytes_of(a), bytes_of(b)); }

bool in_subnet(const Endpoint& address, const Interface& of) {
  const auto peer_interfaces = bytes_of(address), own_interfaces = bytes_of(of.address), mask = bytes_of(of.mask);
  if (peer_interfaces.size() != own_interfaces.size()) return false;
  for (std::size_t i = 0; i < own_interfaces.size(); ++i) {
    if ((peer_interfaces[i] & mask[i]) != (own_interfaces[i] & mask[i])) return false;
  }
  return true;
}

/// Converts an IPv4-mapped address "::ffff:192.0.2.2" of a dual-stack socket to IPv4.
Endpoint without_mapping(const Endpoint& endpoint) {
  constexpr std::string_view kMapped = "::ffff:";
  const std::string host = endpoint.host();
  const bool mapped = host.starts_with(kMapped) && host.find('.') != std::string::npos;
  return mapped ? endpoint_of(host.substr(kMapped.size()), endpoint.port()) : endpoint;
}

std::string names_of(std::span<const Interface> interfaces) {
  std::vector<std::string> names;
  for (const Interface& interface : interfaces)
    if (std::ranges::find(names, interface.name) == names.end()) names.push_back(interface.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<Interface> select_interfaces(std::vector<Interface> all, std::string_view prefixes,
                                         std::string_view variable) {
  if (prefixes.empty()) return all;
  std::vector<Interface> selected;
  for (const Interface& interface : all) {
    const auto fits = [&](std::string_view prefix) { return !prefix.empty() && interface.name.starts_with(prefix); };
    std::string_view rest = prefixes;
    bool is_selected = false;
    for (bool more = true; more && !is_selected;) {
      const std::size_t comma = rest.find(',');
      is_selected = fits(rest.substr(0, comma));
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
    if (is_selected) selected.push_back(interface);
  }
  if (selected.empty())
    throw UsageError(
        fmt::format("{}={}: no interface that is up and has an address matches; "
                    "choose from: {}",
                    variable, printable_value(prefixes), names_of(all)));
  return selected;
}

std::vector<Endpoint> candidate_addresses(std::span<const Interface> peer_interfaces,
                                          std::span<const Interface> own_interfaces, bool same_host) {
  const auto is_ours = [&](const Endpoint& address) {
    return std::ranges::any_of(own_interfaces, [&](const Interface& own) { return same_ip(own.address, address); });
  };
  const auto is_near = [&](const Endpoint& address) {
    if (same_host) return address.is_loopback();
    return std::ranges::any_of(own_interfaces, [&](const Interface& own) { return in_subnet(address, own); });
  };
  std::vector<Endpoint> candidates;
  for (const bool near : {true, false}) {
    for (const Interface& peer_interface : peer_interfaces) {
      if (!same_host && (peer_interface.address.is_loopback() || is_ours(peer_interface.address))) continue;
      if (is_near(peer_interface.address) == near) candidates.push_back(peer_interface.address);
    }
  }
  return candidates;
}

std::string loopback_namespace_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::array<char, 64> network{};
  if (!std::getline(file, boot) || readlink("/proc/self/ns/net", network.data(), network.size() - 1) <= 0) return {};
  return boot + ' ' + network.data();
}

std::optional<Interface> local_interface(const Descriptor& connection, std::span<const Interface> own_interfaces) {
  const Endpoint local_end = without_mapping(local_endpoint(connection));
  const auto found =
      std::ranges::find_if(own_interfaces, [&](const Interface& own) { return same_ip(own.address, local_end); });
  return found == own_interfaces.end() ? std::nullopt : std::optional(*found);
}

}  // namespace busbw
