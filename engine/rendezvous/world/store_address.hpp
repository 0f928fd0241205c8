#pragma once
// Address of the rendezvous store, the key-value store of process 0. BUSBW_RENDEZVOUS sets it, or world.cpp derives it.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace busbw {

/// No store: a job of one process.
struct NoStore {
  bool operator==(const NoStore&) const = default;
};
/// Process 0 listens at this port of one of the hosts, which are tried in order. A host is an address, or a name that
/// may have several addresses. IPv6 addresses have no brackets here.
struct TcpStoreAddress {
  std::vector<std::string> hosts;
  int port = 0;
  bool operator==(const TcpStoreAddress&) const = default;
};
/// Process 0 writes its addresses, port and token to this folder, which all processes can read.
struct FileStoreAddress {
  std::string folder;
  bool operator==(const FileStoreAddress&) const = default;
};
/// Interface to the key-value store of a launcher (rendezvous/launcher_store/).
enum class LauncherStore {
  pmix,  // Open MPI, PRRTE
  pmi1,  // Hydra: MPICH, Intel MPI
};
/// Process 0 writes its addresses, port and token to the launcher's key-value store, which only the job's processes can
/// read.
struct LauncherStoreAddress {
  LauncherStore store = LauncherStore::pmix;
  bool operator==(const LauncherStoreAddress&) const = default;
};
using StoreAddress = std::variant<NoStore, TcpStoreAddress, FileStoreAddress, LauncherStoreAddress>;

/// Parses "tcp://host:port", "tcp://[v6]:port" or "file:///folder". Throws UsageError on anything else.
StoreAddress parse_store_address(std::string_view text);

/// Parses a port from 1 to 65535. Throws UsageError that begins with `variable`, the name of the setting.
int parse_port(std::string_view text, std::string_view variable);

/// Returns `host` if it can be a host name or an IP address, else throws UsageError that begins with `variable`.
std::string require_host(std::string_view host, std::string_view variable);

}  // namespace busbw
