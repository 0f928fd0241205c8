#pragma once
// Life of communicators on the host backend. A rendezvous splits the team, and the creation connects the ranks by
// sockets or shared memory.
#include <functional>
#include <memory>

#include "backends/backend.hpp"

namespace busbw {

/// Connects this rank to a team. `is_derived`: the communicator comes from a split, shrink or grow. The parent then
/// exists at the same time on some ranks.
using ConnectTeam = std::function<std::unique_ptr<Communicator>(Team& team, bool is_derived)>;

/// The lifecycle has no finalize and no abort.
std::unique_ptr<CommunicatorLifecycle> make_host_lifecycle(ConnectTeam connect);

}  // namespace busbw
