#pragma once
// Address at which the processes of a job find the rendezvous store, which runs in process 0. BUSBW_RENDEZVOUS sets the
// address, or job_address.cpp derives it. A folder, or the key-value store of a launcher, only publishes this address.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace busbw {

/// No store: a job of one process.
struct NoStore {
  bool operator==(const NoStore&) const = default;
};
/// Process 0 listens at this port of one of the hosts. The other processes try the hosts in order. A host is an
/// address, or a name that may have several addresses. IPv6 addresses have no brackets here.
struct TcpStoreAddress {
  std::vector<std::string> hosts;
  int port = 0;
  bool operator==(const TcpStoreAddress&) const = default;
};
/// Process 0 publishes its address (PublishedAddress) in this folder, which all processes can read.
struct FileStoreAddress {
  std::string folder;
  bool operator==(const FileStoreAddress&) const = default;
};
/// Interface to the key-value store of a launcher (rendezvous/launcher_store/), not to the rendezvous store.
enum class LauncherStore {
  pmix,  // Open MPI and PRRTE
  pmi1,  // Hydra: MPICH and Intel MPI
};
/// Process 0 publishes its address (PublishedAddress) in the launcher's key-value store, which only the job's processes
/// can read.
struct LauncherStoreChoice {
  LauncherStore store = LauncherStore::pmix;
  bool operator==(const LauncherStoreChoice&) const = default;
};
using StoreAddress = std::variant<NoStore, TcpStoreAddress, FileStoreAddress, LauncherStoreChoice>;

/// Parses "tcp://host:port", "tcp://[v6]:port" or "file:///folder". Throws UsageError on anything else.
StoreAddress parse_store_address(std::string_view text);

/// Parses a port from 1 to 65535. The UsageError for another text begins with `setting`: the name of a variable, or the
/// name with the value ("BUSBW_RENDEZVOUS=tcp://...").
int parse_port(std::string_view text, std::string_view setting);

/// Returns `host` if it can be a host name or an IP address. The UsageError for another text begins with `setting`, as
/// in parse_port.
std::string require_host(std::string_view host, std::string_view setting);

}  // namespace busbw
