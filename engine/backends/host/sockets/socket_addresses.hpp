#pragma once
// Selects the addresses that this host offers to its peers, and the order in which to try a peer's addresses.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/network.hpp"

namespace busbw {

/// Returns the interfaces of `all` with names that begin with a prefix of the comma list `prefixes`, or all if the list
/// is empty. Throws UsageError if none matches; the message names `variable`, the source of the list.
std::vector<Interface> select_interfaces(std::vector<Interface> all, std::string_view prefixes,
                                         std::string_view variable);

/// Returns the names of the interfaces that carry traffic between hosts, without duplicates: those with hardware. If
/// none has hardware, as in a container, all except loopback.
std::vector<std::string> port_names(std::span<const Interface> interfaces);

/// Adds an interface, unless `interfaces` has one with the same address.
void add_unless_known(std::vector<Interface>& interfaces, const Interface& added);

/// Returns the addresses of a peer to try, in order:
/// - If the peer shares this process's loopback interface (`shares_loopback`), loopback comes first.
/// - Otherwise, addresses in a local subnet come first. Loopback is left out, and so are addresses that this host has
///   too: a container bridge, for example, has the same address on every host.
/// In both cases, addresses in a subnet of the `unreachable` interfaces of other peers come last.
std::vector<Endpoint> candidate_addresses(std::span<const Interface> peer_interfaces,
                                          std::span<const Interface> own_interfaces, bool shares_loopback,
                                          std::span<const Interface> unreachable = {});

/// Returns the interfaces of a peer that were tried without success. `reached`: the address that answered. The
/// addresses before it in `candidates` did not answer.
std::vector<Interface> unreachable_interfaces(std::span<const Interface> peer_interfaces,
                                              std::span<const Endpoint> candidates, const Endpoint& reached);

/// Returns the kernel's boot id and the network namespace. Two processes with equal ids reach each other over loopback.
/// Empty if the system does not report them.
std::string loopback_namespace_id();

/// Returns the local interface that has the address of this end of a connection, or nothing if none has it.
std::optional<Interface> local_interface(const Descriptor& connection, std::span<const Interface> own_interfaces);

}  // namespace busbw
