#pragma once
// Facts that the processes of a launched job send to process 0 before anything is measured, and their comparison in
// process 0 (LaunchedJob::agree). Incompatible processes, such as two versions of a library, end the job.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/os/provenance.hpp"
#include "run/unsupported_types.hpp"

namespace busbw {

/// Facts about one process.
struct ProcessInfo {
  int number = 0;              // of the process; process 0 sets it after receiving, so `members` omits it
  std::string host;
  std::string host_identity;   // distinguishes hosts of the same name
  std::string arguments;       // command line as typed
  std::string version;         // version of busbw
  std::string backend;         // "host", "nccl"
  std::string trace;           // whether the process records a trace, and the hash of the replayed program
  std::string library_version;  // version of the library to measure
  std::string library_path;    // file of the library; empty if the library has no file
  std::string library_sha256;  // hash of that file; empty if unknown
  std::string store_address;   // address at which the process reached the rendezvous store
  std::vector<std::string> gpus;  // bus ids of the ranks' GPUs; empty for the host backend
  std::vector<int> processors;  // processors that the ranks may use; only for the host backend
  std::uint64_t max_bytes = 0;  // largest size that fits into the memory
  NamedValues tuning;  // environment variables that should be equal in all processes
  std::vector<UnsupportedType> unsupported;  // requested types that the process does not support

  /// Fields that are sent, as HasMembers requires.
  static auto members(auto& self) {
    return std::tie(self.host, self.host_identity, self.arguments, self.version, self.backend, self.trace,
                    self.library_version, self.library_path, self.library_sha256, self.store_address, self.gpus,
                    self.processors, self.max_bytes, self.tuning, self.unsupported);
  }
};

/// Settings and facts that hold for all processes together.
struct Agreement {
  std::uint64_t max_bytes = 0;  // minimum over processes
  int hosts = 0;
  NamedValues facts;                         // for the record
  std::vector<std::string> warnings;         // about different variables, and ranks that share processors
  std::vector<UnsupportedType> unsupported;  // types that at least one process does not support
};

/// Compares the processes of a job. `processes`: those that are not lost, beginning with process 0.
/// Throws UsageError or EnvironmentError if two processes are incompatible; the message names them or their ranks.
Agreement compare_processes(const std::vector<ProcessInfo>& processes, int ranks_per_process);

}  // namespace busbw
