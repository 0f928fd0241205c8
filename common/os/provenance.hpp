#pragma once
// Host, hardware and environment in which a run was made. The engine writes them to the record.
#include <string>
#include <utility>
#include <vector>

namespace busbw {

/// Pairs of name and value.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// Returns variables that tune collectives or launch jobs, from an allow-list of prefixes such as NCCL_ and UCX_. Names
/// that contain TOKEN, _KEY, AUTH or similar are excluded, because the environment can hold secrets. Passwords in URLs
/// are replaced by "(redacted)". `environment`: array of "NAME=value" that ends with null, as `environ`.
NamedValues tuning_environment(char** environment);

/// Returns host, kernel, processor, cores and memory of this machine. Values that cannot be read are left out.
NamedValues machine_facts();

/// Returns the host name up to the first dot, or "unknown".
std::string host_name();

/// Returns the host name with its domain as far as the kernel knows it, or an empty string.
std::string full_host_name();

/// Returns the full host name and the kernel's boot id. The boot id distinguishes two hosts with equal names.
std::string host_identity();

}  // namespace busbw
