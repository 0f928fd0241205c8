// Parses BUSBW_RENDEZVOUS, hosts and ports.
#include "rendezvous/world/store_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kFileScheme = "file://";
constexpr std::string_view kVariable = "BUSBW_RENDEZVOUS";
constexpr std::size_t kMaxHostBytes = 255;

UsageError invalid_address_error(std::string_view text) {
  return UsageError(fmt::format(
      "{}={}: allowed is tcp://HOST:PORT, HOST being the host of process 0, or file:///FOLDER on a shared file system",
      kVariable, printable_value(text)));
}

bool is_ipv6_address(const std::string& text) {
  in6_addr address{};
  // A zone ("fe80::1%eth0") is valid only on its own host, so inet_pton's rejection is correct.
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

int parse_port(std::string_view text, std::string_view setting) {
  constexpr int kMaxPort = 65535;
  const auto port = parse_digits(text);
  if (!port || *port < 1 || *port > kMaxPort)
    throw UsageError(fmt::format("{}: \"{}\" is not a port; allowed is a number from 1 to {}", setting,
                                 printable_value(text), kMaxPort));
  return static_cast<int>(*port);
}

std::string require_host(std::string_view host, std::string_view setting) {
  const auto is_name_character = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '-' || letter == '.' || letter == '_';
  };
  const std::string text(host);
  const bool has_valid_length = !text.empty() && text.size() <= kMaxHostBytes;
  const bool is_name_or_ipv4 = std::ranges::all_of(text, is_name_character);
  if (!has_valid_length || !(is_name_or_ipv4 || is_ipv6_address(text)))
    throw UsageError(fmt::format("{}: \"{}\" is not a host; allowed is a host's name or its IPv4 or IPv6 address",
                                 setting, printable_value(text)));
  return text;
}

StoreAddress parse_store_address(std::string_view text) {
  if (text.starts_with(kFileScheme)) {
    const std::string_view folder = text.substr(kFileScheme.size());
    if (!folder.starts_with('/')) throw invalid_address_error(text);
    return FileStoreAddress{std::string(folder)};
  }
  if (!text.starts_with(kTcpScheme)) throw invalid_address_error(text);
  const std::string_view host_and_port = text.substr(kTcpScheme.size());
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == host_and_port.npos) throw invalid_address_error(text);
  const std::string_view port = host_and_port.substr(colon + 1);
  std::string_view host = host_and_port.substr(0, colon);
  const bool has_brackets = host.starts_with('[') && host.ends_with(']') && host.size() >= 2;
  if (has_brackets) host = host.substr(1, host.size() - 2);
  // Only IPv6 addresses have brackets. They need them, because the end of the address is ambiguous otherwise.
  const bool is_ipv6 = host.find(':') != host.npos;
  if (has_brackets != is_ipv6) throw invalid_address_error(text);
  const std::string setting = fmt::format("{}={}", kVariable, printable_value(text));
  return TcpStoreAddress{.hosts = {require_host(host, setting)}, .port = parse_port(port, setting)};
}

}  // namespace busbw
