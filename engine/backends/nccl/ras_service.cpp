// Client of NCCL's RAS service: connects, sends the protocol lines, and extracts errors and warnings from the answer.
#include "backends/nccl/ras_service.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

// Address and protocol lines from NCCL's documentation of the service.
constexpr int kDefaultPort = 28028;
constexpr const char* kDefaultHost = "localhost";
constexpr std::string_view kGreeting = "CLIENT PROTOCOL 2\n";
constexpr std::string_view kGreetingReply = "SERVER PROTOCOL ";
// TIMEOUT 1: the service waits at most 1 s for each of its peers, so that its answer arrives within the caller's limit.
constexpr std::string_view kStatusRequest = "TIMEOUT 1\nSTATUS\n";
// Limit for one greeting. All processes of a host listen on one port: if a stopped process got the connection, another
// process may answer the next attempt.
constexpr int kGreetingTicks = kTicksPerS;
constexpr std::size_t kMaxAnswerBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxLineBytes = 240;

/// A connection to the service, with one time limit for all its steps. Time is counted in ticks (common/os/ticker.hpp).
class RasConnection {
 public:
  explicit RasConnection(int ticks) : ticks_left_(ticks) {}

  /// Subtracts the ticks since the last call. Returns true if none are left.
  bool is_expired() {
    constexpr std::uint64_t kMaxElapsedTicks = 1000;  // keeps the subtraction within int
    ticks_left_ -= static_cast<int>(std::min(ticker_.take_elapsed(), kMaxElapsedTicks));
    return ticks_left_ <= 0;
  }
  int ticks_left() const { return std::max(ticks_left_, 0); }

  bool connect(const Endpoint& endpoint) {
    socket_ = connect_to(endpoint, std::min(ticks_left_, kGreetingTicks), [this] { return is_expired(); }).socket;
    received_.clear();
    return socket_.is_open();
  }
  bool send_text(std::string_view text) {
    return send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// Receives until is_complete(received()) is true, the other side closes or `ticks` have passed. Returns true in the
  /// first case.
  template <class IsComplete>
  bool receive_until(int ticks, IsComplete is_complete) {
    const int min_ticks_left = ticks_left_ - ticks;
    while (!is_expired() && ticks_left_ > min_ticks_left && received_.size() < kMaxAnswerBytes) {
      if (is_complete(received_)) return true;
      pollfd readable{socket_.number(), POLLIN, 0};
      if (poll(&readable, 1, kTickMs) <= 0) continue;
      char chunk[4096];
      const ssize_t bytes = recv(socket_.number(), chunk, sizeof(chunk), 0);
      if (bytes <= 0) break;
      received_.append(chunk, static_cast<std::size_t>(bytes));
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

bool is_heading(std::string_view line) {
  return line.find_first_not_of("= \r") == line.npos || line == "Errors" || line == "Warnings";
}

/// Returns the lines after the headings "Errors" and "Warnings", the last sections of a complete answer.
std::vector<std::string> parse_findings(std::string_view answer) {
  const std::size_t start = answer.find("\nErrors\n");
  if (start == answer.npos) return {"its answer did not come in time"};
  std::vector<std::string> lines;
  std::size_t omitted = 0;
  for (std::string_view remaining = answer.substr(start + 1); !remaining.empty();) {
    const std::string_view line = remaining.substr(0, remaining.find('\n'));
    remaining.remove_prefix(std::min(line.size() + 1, remaining.size()));
    if (is_heading(line)) continue;
    if (lines.size() + 1 < kMaxRasLines) {
      lines.push_back(printable(line.substr(0, kMaxLineBytes)));
    } else {
      ++omitted;
    }
  }
  if (omitted > 0) lines.push_back(fmt::format("... and {} more lines", omitted));
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
  const auto port = parse_digits(std::string_view(address).substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  RasAddress ras{address.substr(0, colon), static_cast<int>(*port)};
  if (ras.host.starts_with('[') && ras.host.ends_with(']')) ras.host = ras.host.substr(1, ras.host.size() - 2);
  return ras.host.empty() ? std::nullopt : std::optional(ras);
}

std::vector<std::string> query_ras(const RasAddress& address, int ticks) {
  const std::vector<Endpoint> endpoints = resolve_host(address.host, address.port).endpoints;
  RasConnection connection(ticks);
  while (!connection.is_expired()) {
    bool is_reachable = false;
    for (const Endpoint& endpoint : endpoints) {
      if (!connection.connect(endpoint)) continue;
      is_reachable = true;
      if (!connection.send_text(kGreeting) || !connection.receive_until(kGreetingTicks, has_greeting_reply)) continue;
      if (!connection.received().starts_with(kGreetingReply)) return {};
      if (!connection.send_text(kStatusRequest)) return {};
      // Only the end of the connection marks the end of the answer.
      const auto is_complete = [](const std::string&) { return false; };
      connection.receive_until(connection.ticks_left(), is_complete);
      return parse_findings(connection.received());
    }
    if (!is_reachable) break;
    sleep_tick();  // do not reconnect at once to a service that closes each connection
  }
  return {};
}

}  // namespace busbw
