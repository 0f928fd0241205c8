#include "backends/nccl/ras_service.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace busbw {
namespace {

// Address and protocol lines from NCCL's documentation of the service.
constexpr int kDefaultPort = 28028;
constexpr const char* kDefaultHost = "localhost";
constexpr std::string_view kGreeting = "CLIENT PROTOCOL 2\n";
constexpr std::string_view kGreetingReply = "SERVER PROTOCOL ";
// The service waits 1 s for each of its peers, so that its answer arrives within our limit.
constexpr std::string_view kStatusRequest = "TIMEOUT 1\nSTATUS\n";
// All processes of a host listen on one port. If a stopped process was asked, another one may answer a second attempt.
constexpr int kGreetingTicks = kTicksPerS;
constexpr std::size_t kMaxBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxLineBytes = 240;

/// A connection to the service, with one time limit for all its steps.
class RasConnection {
 public:
  explicit RasConnection(int ticks) : ticks_left_(ticks) {}

  bool is_expired() {
    ticks_left_ -= static_cast<int>(std::min<std::uint64_t>(ticker_.take_elapsed(), 1000));
    return ticks_left_ <= 0;
  }
  int ticks_left() const { return std::max(ticks_left_, 0); }

  bool connect(const Endpoint& where) {
    socket_ = connect_to(where, std::min(ticks_left_, kGreetingTicks), [this] { return is_expired(); }).socket;
    received_.clear();
    return socket_.is_open();
  }
  bool send_text(std::string_view text) {
    return send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// Receives until `is_complete` holds, the other side closes or `ticks` have passed. Returns the last `is_complete`.
  template <class IsComplete>
  bool receive_until(int ticks, IsComplete is_complete) {
    const int until = ticks_left_ - ticks;
    while (!is_expired() && ticks_left_ > until && received_.size() < kMaxBytes) {
      if (is_complete(received_)) return true;
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kTickMs) <= 0) continue;
      char piece[4096];
      const ssize_t bytes = recv(socket_.number(), piece, sizeof(piece), 0);
      if (bytes <= 0) break;
      received_.append(piece, static_cast<std::size_t>(bytes));
    }
    return is_complete(received_);
  }
  const std::string& received() const { return received_; }

 private:
  Ticker ticker_;
  int ticks_left_;
  Descriptor socket_;
  std::string received_;
};

bool has_greeting_reply(const std::string& received) { return received.find('\n') != received.npos; }

/// Text from outside, without characters that a terminal could interpret as a command.
std::string printable(std::string_view line) {
  std::string text(line.substr(0, kMaxLineBytes));
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return text;
}

bool is_heading(std::string_view line) {
  return line.find_first_not_of("= \r") == line.npos || line == "Errors" || line == "Warnings";
}

/// Lines after the headings "Errors" and "Warnings", the last sections of a complete answer.
std::vector<std::string> findings(std::string_view answer) {
  const std::size_t start = answer.find("\nErrors\n");
  if (start == answer.npos) return {"its answer did not come in time"};
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (std::string_view rest = answer.substr(start + 1); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (is_heading(line)) continue;
    if (lines.size() + 1 < kMaxRasLines) {
      lines.push_back(printable(line));
    } else {
      ++more;
    }
  }
  if (more > 0) lines.push_back(fmt::format("... and {} more lines", more));
  if (lines.empty()) lines.emplace_back("no errors or warnings");
  return lines;
}

}  // namespace

std::optional<RasAddress> ras_address(Environment environment) {
  if (environment("NCCL_RAS_ENABLE").value_or("1") == "0") return std::nullopt;
  const std::string address = environment("NCCL_RAS_ADDR").value_or("");
  if (address.empty()) return RasAddress{kDefaultHost, kDefaultPort};
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) return std::nullopt;
  RasAddress where{address.substr(0, colon), 0};
  if (where.host.starts_with('[') && where.host.ends_with(']'))
    where.host = where.host.substr(1, where.host.size() - 2);
  const char* const end = address.data() + address.size();
  const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, where.port);
  if (where.host.empty() || error != std::errc() || rest != end || where.port < 1 || where.port > 65535)
    return std::nullopt;
  return where;
}

std::vector<std::string> query_ras(const RasAddress& where, int ticks) {
  std::string error;
  const std::vector<Endpoint> endpoints = resolve_host(where.host, where.port, error);
  RasConnection connection(ticks);
  while (!connection.is_expired()) {
    bool is_reachable = false;
    for (const Endpoint& endpoint : endpoints) {
      if (!connection.connect(endpoint)) continue;
      is_reachable = true;
      if (!connection.send_text(kGreeting) || !connection.receive_until(kGreetingTicks, has_greeting_reply)) continue;
      if (!connection.received().starts_with(kGreetingReply)) return {};
      if (!connection.send_text(kStatusRequest)) return {};
      connection.receive_until(connection.ticks_left(), [](const std::string&) { return false; });
      return findings(connection.received());
    }
    if (!is_reachable) break;
    sleep_tick();  // do not reconnect at once to a service that closes each connection
  }
  return {};
}

}  // namespace busbw
