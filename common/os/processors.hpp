#pragma once
// Which processors there are for a process, and what it means when ranks have to share them.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// Numbers of those that this thread, and what it starts, may use, as the kernel counts them on this host; empty where
/// it does not say.
std::vector<int> allowed_processors();

/// What to warn of where so many ranks run on so many processors; empty where each has its own. `where` names the host,
/// or is empty where there is but one.
std::optional<std::string> oversubscription_warning(int ranks, int processors, std::string_view where = {});

}  // namespace busbw
