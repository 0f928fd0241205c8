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

// Of NCCL's documentation of the service: its address and the lines of its protocol.
constexpr int kDefaultPort = 28028;
constexpr const char* kDefaultHost = "localhost";
constexpr std::string_view kGreeting = "CLIENT PROTOCOL 2\n";
constexpr std::string_view kGreetingBack = "SERVER PROTOCOL ";
// How long it waits for each of its peers, so that its answer comes in our time.
constexpr std::string_view kQuestion = "TIMEOUT 1\nSTATUS\n";
// All processes of a host listen at one port, and one that is stopped may be asked: then another may answer.
constexpr int kGreetingTicks = kTicksPerS;
constexpr std::size_t kMaxBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxLineBytes = 240;

/// A conversation with what listens there, within a time that is given for all of it.
class RasConnection {
 public:
  explicit RasConnection(int ticks) : left_(ticks) {}

  bool is_over() {
    left_ -= static_cast<int>(std::min<std::uint64_t>(ticker_.take_elapsed(), 1000));
    return left_ <= 0;
  }
  int left() const { return std::max(left_, 0); }

  bool connect(const Endpoint& where) {
    socket_ = connect_to(where, std::min(left_, kGreetingTicks), [this] { return is_over(); }).socket;
    heard_.clear();
    return socket_.is_open();
  }
  bool say(std::string_view text) {
    return send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// Listens until `enough`, for `ticks` at most, or until the other side has said all. Whether it was enough.
  template <class Enough>
  bool listen(int ticks, Enough enough) {
    const int until = left_ - ticks;
    while (!is_over() && left_ > until && heard_.size() < kMaxBytes) {
      if (enough(heard_)) return true;
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kTickMs) <= 0) continue;
      char piece[4096];
      const ssize_t got = recv(socket_.number(), piece, sizeof(piece), 0);
      if (got <= 0) break;
      heard_.append(piece, static_cast<std::size_t>(got));
    }
    return enough(heard_);
  }
  const std::string& heard() const { return heard_; }

 private:
  Ticker ticker_;
  int left_;
  Descriptor socket_;
  std::string heard_;
};

bool is_greeted_back(const std::string& heard) { return heard.find('\n') != heard.npos; }

/// What comes from elsewhere is shown without anything that a terminal would take for a command.
std::string shown(std::string_view line) {
  std::string text(line.substr(0, kMaxLineBytes));
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return text;
}

bool is_ornament(std::string_view line) {
  return line.find_first_not_of("= \r") == line.npos || line == "Errors" || line == "Warnings";
}

/// The lines after the headings of errors and warnings, which are the last of a whole answer.
std::vector<std::string> findings(std::string_view answer) {
  const std::size_t start = answer.find("\nErrors\n");
  if (start == answer.npos) return {"its answer did not come in time"};
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (std::string_view left = answer.substr(start + 1); !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    if (is_ornament(line)) continue;
    if (lines.size() + 1 < kMaxRasLines) {
      lines.push_back(shown(line));
    } else {
      ++more;
    }
  }
  if (more > 0) lines.push_back(fmt::format("... and {} lines more", more));
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
  std::string why;
  const std::vector<Endpoint> endpoints = resolve_host(where.host, where.port, why);
  RasConnection conversation(ticks);
  while (!conversation.is_over()) {
    bool is_there = false;
    for (const Endpoint& endpoint : endpoints) {
      if (!conversation.connect(endpoint)) continue;
      is_there = true;
      if (!conversation.say(kGreeting) || !conversation.listen(kGreetingTicks, is_greeted_back)) continue;
      if (!conversation.heard().starts_with(kGreetingBack)) return {};
      if (!conversation.say(kQuestion)) return {};
      conversation.listen(conversation.left(), [](const std::string&) { return false; });
      return findings(conversation.heard());
    }
    if (!is_there) break;
    sleep_tick();  // who hangs up at once is not asked without a pause
  }
  return {};
}

}  // namespace busbw
