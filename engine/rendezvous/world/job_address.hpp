#pragma once
// Determines the address of process 0, and the identity that distinguishes the job from others on the same nodes.
#include <optional>
#include <string>

#include "common/os/environment.hpp"
#include "common/os/process_status.hpp"
#include "rendezvous/world/launcher_claim.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

inline constexpr const char* kRendezvousVariable = "BUSBW_RENDEZVOUS";

/// Address of process 0, and the identity of the job.
struct JobAddress {
  StoreAddress store;
  std::string identity;  // text that differs between jobs: "slurm-cluster1-4711-0"; empty if unknown
};

/// Returns the address from BUSBW_RENDEZVOUS or from the launcher's variables, and the job's identity. Throws
/// UsageError if no address is known. `local_size`: number of processes on this node, or nothing if unknown.
/// `ancestors`: returns the ancestors of this process, to find the launcher's daemon if its variables do not name the
/// job (detect_world).
JobAddress find_job_address(Environment environment, const LauncherClaim& claim, std::optional<int> local_size,
                            Ancestors (*ancestors)());

}  // namespace busbw
