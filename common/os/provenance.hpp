#pragma once
// Where and with what a run was made.
#include <string>
#include <utility>
#include <vector>

namespace busbw {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// The variables that tune collectives or launch jobs, by allow-list: prefixes such as NCCL_ and UCX_, never names that
/// speak of tokens, keys or passwords. The whole environment holds secrets and is never recorded.
NamedValues tuning_environment(char** environment);

/// Kernel, processor, cores and memory, as this machine's /proc tells; what cannot be read is left out.
NamedValues machine_facts();

/// The host's name up to the first dot.
std::string host_name();

/// Differs between any two hosts, also where two are called the same: the whole name, and which boot of which kernel.
std::string host_identity();

}  // namespace busbw
