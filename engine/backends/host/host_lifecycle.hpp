#pragma once
// Life of communicators on the host backend: teams through the rendezvous, then connections or shared memory.
#include <functional>
#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace busbw {

/// Connects this rank to a team. `has_parent`: another communicator of the rank exists.
using ConnectTeam = std::function<std::unique_ptr<Communicator>(Team& team, bool has_parent)>;

std::unique_ptr<CommunicatorLifecycle> make_host_lifecycle(ConnectTeam connect);

/// Backend::missing_lifecycle_call of the host backend: only libraries have finalize and abort.
std::string missing_host_lifecycle_call(LifecycleCall call);

}  // namespace busbw
