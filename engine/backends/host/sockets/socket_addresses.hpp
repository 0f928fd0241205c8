#pragma once
// Under which addresses ranks on other hosts may reach this one, and which of a peer's addresses to try first.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/network.hpp"

namespace busbw {

/// Those of `all` whose name begins with a prefix in the comma list `prefixes`; all for an empty list. Throws
/// UsageError where none does, naming `variable`, which holds the list.
std::vector<Interface> select_interfaces(std::vector<Interface> all, std::string_view prefixes,
                                         std::string_view variable);

/// Of the addresses of a peer those worth trying, in that order: on the same host loopback first; on another one what
/// lies in a subnet of ours, then the others, but no loopback, and no address that we have ourselves (that of a bridge
/// for containers is the same on every host).
std::vector<Endpoint> candidate_addresses(std::span<const Interface> theirs, std::span<const Interface> ours, bool same_host);

/// Equal for two processes exactly if a loopback address of one reaches the other: which boot of which kernel, and
/// which network namespace. Empty where the system does not say.
std::string loopback_namespace_id();

/// The interface of `ours` whose address this end of a connection has; missing where there is none.
std::optional<Interface> local_interface(const Descriptor& connection, std::span<const Interface> ours);

}  // namespace busbw
