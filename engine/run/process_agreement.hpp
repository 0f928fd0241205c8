#pragma once
// What the processes of a launched job tell process 0 of themselves before anything is measured, and what it makes of
// it.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/os/provenance.hpp"
#include "run/unsupported_types.hpp"
#include "values/message.hpp"

namespace busbw {

/// One process's words.
struct ProcessInfo {
  std::string host;
  std::string host_identity;  // tells hosts apart that are called the same
  std::string arguments;   // of the command line, as a person would type them
  std::string version;     // of busbw
  std::string backend;     // "host", "nccl", "mpi"
  std::string library;     // what it measures: its version
  std::string library_path;    // of its file; empty where it has none
  std::string library_sha256;  // of that file; empty where it is not known
  std::string store_address;
  std::vector<std::string> gpus;  // bus ids of the GPUs of its ranks
  std::vector<int> processors;    // on which its ranks run, where they are what is measured; else empty
  std::uint64_t max_bytes = 0;    // the largest size that it has memory for
  NamedValues tuning;             // variables that change what is measured
  std::vector<UnsupportedType> lacked;  // types that were asked for and that it cannot do

  Bytes packed() const;
  /// Throws BrokenMessage.
  static ProcessInfo unpack(const Bytes& bytes);
};

/// What all processes together are. Throws UsageError or EnvironmentError naming two that do not fit together, and
/// `ranks_per_process` tells their ranks.
struct Agreement {
  std::uint64_t max_bytes = 0;        // the least of all
  int hosts = 0;
  NamedValues facts;                  // for the record
  std::vector<std::string> warnings;  // about variables that differ, and processors that ranks share
  std::vector<UnsupportedType> lacked;     // types that one of them cannot do
};
Agreement compare_processes(const std::vector<ProcessInfo>& processes, int ranks_per_process);

}  // namespace busbw
