// Selects the addresses at which a rank tries to reach a peer, nearest first. Compares addresses only as bytes, without
// name lookups or connections.
#include "backends/host/sockets/socket_addresses.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <functional>

#include "common/support/comma_list.hpp"
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

bool is_same_ip(const Endpoint& a, const Endpoint& b) { return std::ranges::equal(bytes_of(a), bytes_of(b)); }

bool is_in_subnet(const Endpoint& address, const Interface& interface) {
  const auto address_bytes = bytes_of(address);
  const auto interface_bytes = bytes_of(interface.address);
  const auto mask = bytes_of(interface.mask);
  if (address_bytes.size() != interface_bytes.size()) return false;
  for (std::size_t i = 0; i < interface_bytes.size(); ++i) {
    if ((address_bytes[i] & mask[i]) != (interface_bytes[i] & mask[i])) return false;
  }
  return true;
}

/// Converts an IPv4-mapped address "::ffff:192.0.2.2" of a dual-stack socket to IPv4.
Endpoint without_mapping(const Endpoint& endpoint) {
  constexpr std::string_view kMapped = "::ffff:";
  const std::string host = endpoint.host();
  const bool is_mapped = host.starts_with(kMapped) && host.find('.') != std::string::npos;
  return is_mapped ? endpoint_of(host.substr(kMapped.size()), endpoint.port()) : endpoint;
}

/// True if `name` begins with a prefix of the comma list `prefixes`.
bool has_listed_prefix(std::string_view name, std::string_view prefixes) {
  return std::ranges::any_of(split_at_commas(prefixes),
                             [&](std::string_view prefix) { return !prefix.empty() && name.starts_with(prefix); });
}

/// Names of the interfaces, each once. An interface with several addresses occurs several times in `interfaces`.
std::vector<std::string> unique_names(std::span<const Interface> interfaces) {
  std::vector<std::string> names;
  for (const Interface& interface : interfaces)
    if (std::ranges::find(names, interface.name) == names.end()) names.push_back(interface.name);
  return names;
}

/// Names for messages: "eth0, ib0".
std::string names_text(std::span<const Interface> interfaces) {
  const std::vector<std::string> names = unique_names(interfaces);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<Interface> select_interfaces(std::vector<Interface> all, std::string_view prefixes,
                                         std::string_view variable) {
  if (prefixes.empty()) return all;
  std::vector<Interface> selected;
  for (const Interface& interface : all)
    if (has_listed_prefix(interface.name, prefixes)) selected.push_back(interface);
  if (selected.empty())
    throw UsageError(
        fmt::format("{}={}: no interface that is up and has an address matches; "
                    "choose from: {}",
                    variable, printable_value(prefixes), names_text(all)));
  return selected;
}

std::vector<std::string> port_names(std::span<const Interface> interfaces) {
  std::vector<Interface> outside_loopback;
  for (const Interface& interface : interfaces)
    if (!interface.address.is_loopback()) outside_loopback.push_back(interface);
  const std::vector<std::string> all_names = unique_names(outside_loopback);
  std::vector<std::string> hardware_names;
  for (const std::string& name : all_names)
    if (access(fmt::format("/sys/class/net/{}/device", name).c_str(), F_OK) == 0) hardware_names.push_back(name);
  return hardware_names.empty() ? all_names : hardware_names;
}

void add_unless_known(std::vector<Interface>& interfaces, const Interface& added) {
  const auto has_same_address = [&](const Interface& known) { return known.address.host() == added.address.host(); };
  if (std::ranges::none_of(interfaces, has_same_address)) interfaces.push_back(added);
}

std::vector<Endpoint> candidate_addresses(std::span<const Interface> peer_interfaces,
                                          std::span<const Interface> own_interfaces, bool shares_loopback,
                                          std::span<const Interface> unreachable) {
  const auto is_own_address = [&](const Endpoint& address) {
    return std::ranges::any_of(own_interfaces, [&](const Interface& own) { return is_same_ip(own.address, address); });
  };
  // Near addresses come first: loopback if the peer shares it, otherwise a local subnet.
  const auto is_near = [&](const Endpoint& address) {
    if (shares_loopback) return address.is_loopback();
    return std::ranges::any_of(own_interfaces, [&](const Interface& own) { return is_in_subnet(address, own); });
  };
  // Addresses of other peers in the same subnet did not answer.
  const auto is_in_unreachable_subnet = [&](const Endpoint& address) {
    return std::ranges::any_of(unreachable, [&](const Interface& other) { return is_in_subnet(address, other); });
  };
  std::vector<Endpoint> candidates;
  for (const Interface& peer_interface : peer_interfaces) {
    // An address that this host has as well, such as that of a bridge for containers, leads back to this host.
    const bool leads_to_this_host = peer_interface.address.is_loopback() || is_own_address(peer_interface.address);
    if (shares_loopback || !leads_to_this_host) candidates.push_back(peer_interface.address);
  }
  std::ranges::stable_partition(candidates, is_near);
  // The more important criterion comes last.
  std::ranges::stable_partition(candidates, std::not_fn(is_in_unreachable_subnet));
  return candidates;
}

std::vector<Interface> unreachable_interfaces(std::span<const Interface> peer_interfaces,
                                              std::span<const Endpoint> candidates, const Endpoint& reached) {
  std::vector<Interface> unreachable;
  for (const Endpoint& candidate : candidates) {
    if (is_same_ip(candidate, without_mapping(reached))) break;  // later candidates may not have been tried
    for (const Interface& interface : peer_interfaces)
      if (is_same_ip(interface.address, candidate)) unreachable.push_back(interface);
  }
  return unreachable;
}

std::string loopback_namespace_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::array<char, 64> network_namespace{};
  if (!std::getline(file, boot_id)) return {};
  if (readlink("/proc/self/ns/net", network_namespace.data(), network_namespace.size() - 1) <= 0) return {};
  return boot_id + ' ' + network_namespace.data();
}

std::optional<Interface> local_interface(const Descriptor& connection, std::span<const Interface> own_interfaces) {
  const Endpoint local_end = without_mapping(local_endpoint(connection));
  const auto match =
      std::ranges::find_if(own_interfaces, [&](const Interface& own) { return is_same_ip(own.address, local_end); });
  return match == own_interfaces.end() ? std::nullopt : std::optional(*match);
}

}  // namespace busbw
