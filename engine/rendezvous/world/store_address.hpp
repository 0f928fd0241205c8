#pragma once
// Where the processes of a job meet, as BUSBW_RENDEZVOUS says it.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace busbw {

/// This process is alone.
struct NoStore {
  bool operator==(const NoStore&) const = default;
};
/// Process 0 listens at this port of one of these hosts: names (each may have several addresses) or addresses, those of
/// version 6 without brackets. They are tried in turn.
struct TcpStoreAddress {
  std::vector<std::string> hosts;
  int port = 0;
  bool operator==(const TcpStoreAddress&) const = default;
};
/// Process 0 leaves its addresses, port and token in this folder, which all processes see.
struct FileStoreAddress {
  std::string folder;
  bool operator==(const FileStoreAddress&) const = default;
};
using StoreAddress = std::variant<NoStore, TcpStoreAddress, FileStoreAddress>;

/// From "tcp://host:port", "tcp://[v6]:port" or "file:///folder". Throws UsageError on anything else.
StoreAddress parse_store_address(std::string_view text);

/// A port from 1 to 65535; `variable` and what else is named in the UsageError.
int parse_port(std::string_view text, std::string_view variable);

/// `host` as it may stand in an address: throws UsageError on what can be neither name nor address.
std::string require_host(std::string_view host, std::string_view variable);

}  // namespace busbw
