#pragma once
// Processors that a process may use, and the warning for ranks that share processors.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// Returns the kernel's numbers of the processors that this thread and its children may use. Empty if unknown.
std::vector<int> allowed_processors();

/// Returns a warning if `ranks` exceeds `processors`, both on one host. Nothing if every rank has a processor, or if
/// `processors` is 0 (unknown). `host`: name for the message; empty if the job has only one host.
std::optional<std::string> oversubscription_warning(int ranks, int processors, std::string_view host = {});

}  // namespace busbw
