// Shares a text of process 0 through the PMI-1 daemon of a launcher such as MPICH's mpiexec. Requests and replies are
// lines of text on a socket that the launcher opened (PMI_FD).
#include "rendezvous/launcher_store/shared_text.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

#include "common/os/environment.hpp"
#include "common/os/ticker.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "rendezvous/launcher_store/store_errors.hpp"

namespace busbw {
namespace {

constexpr std::string_view kPmi1 = "PMI-1";
constexpr std::uint64_t kMaxDescriptor = 1'000'000;  // bound of PMI_FD, so that it fits into an int
constexpr std::size_t kMaxLineBytes = 65536;
/// Assumption: a daemon that states no maximum length of a value, or a smaller one, accepts this length. MPICH states
/// 1024.
constexpr std::size_t kMinValueBytes = 64;
/// The daemon's maximum includes a terminating zero byte.
constexpr std::size_t kTerminatorBytes = 1;
constexpr const char* kPartCountKey = "busbw-parts";

std::string part_key(std::size_t part) { return fmt::format("busbw-part-{}", part); }

/// Words "key=value" of one line: "cmd=get_result rc=0 value=3" has the keys cmd, rc and value.
using Reply = std::map<std::string, std::string, std::less<>>;

Reply parse_reply(std::string_view line) {
  Reply reply;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    const std::size_t equals = word.find('=');
    if (equals != word.npos) reply[std::string(word.substr(0, equals))] = word.substr(equals + 1);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return reply;
}

/// Requests to the daemon, and its replies. The socket is not closed.
class Pmi1Connection {
 public:
  Pmi1Connection(int descriptor, const StoreWait& wait) : descriptor_(descriptor), wait_(wait) {}

  /// Sends a request and returns the reply. Throws EnvironmentError if the reply's `cmd` is not `expected`, or if its
  /// result code `rc` reports an error.
  Reply request(const std::string& request_line, std::string_view expected) {
    send_line(request_line);
    const std::string line = receive_line();
    Reply reply = parse_reply(line);
    const auto result_code = reply.find("rc");
    const bool has_failed = result_code != reply.end() && result_code->second != "0";
    if (reply["cmd"] != expected || has_failed)
      throw unusable_store_error(
          kPmi1, fmt::format("the launcher answered \"{}\", expected {}", printable_value(line), expected));
    return reply;
  }

 private:
  void send_line(std::string line) {
    line += '\n';
    std::string_view unsent = line;
    while (!unsent.empty()) {
      const ssize_t sent = send(descriptor_, unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        unsent.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EINTR) {
        wait_until_ready(POLLOUT);
      } else {
        throw unusable_store_error(kPmi1, std::strerror(errno));
      }
    }
  }

  std::string receive_line() {
    for (;;) {
      if (const std::size_t end = received_.find('\n'); end != received_.npos) {
        std::string line = received_.substr(0, end);
        received_.erase(0, end + 1);
        return line;
      }
      if (received_.size() > kMaxLineBytes) throw unusable_store_error(kPmi1, "its line is too long");
      char buffer[4096];
      const ssize_t received_bytes = recv(descriptor_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (received_bytes > 0) {
        received_.append(buffer, static_cast<std::size_t>(received_bytes));
      } else if (received_bytes == 0) {
        throw unusable_store_error(kPmi1, "the launcher closed the connection");
      } else if (errno == EAGAIN || errno == EINTR) {
        wait_until_ready(POLLIN);
      } else {
        throw unusable_store_error(kPmi1, std::strerror(errno));
      }
    }
  }

  /// Waits until the socket is ready or a tick has passed.
  void wait_until_ready(short event) {
    wait_.on_tick();
    pollfd poll_entry{descriptor_, event, 0};
    if (poll(&poll_entry, 1, kTickMs) < 0 && errno != EINTR) throw unusable_store_error(kPmi1, std::strerror(errno));
    waited_ticks_ += ticker_.take_elapsed();
    if (waited_ticks_ >= static_cast<std::uint64_t>(wait_.limit_ticks))
      throw store_timeout_error(kPmi1, wait_.limit_ticks);
  }

  const int descriptor_;
  const StoreWait& wait_;
  std::string received_;  // bytes after the last returned line
  const Ticker ticker_;
  std::uint64_t waited_ticks_ = 0;
};

/// Returns the maximum length of a value that the daemon accepts, in bytes.
std::size_t max_value_bytes(const Reply& maxima) {
  const auto stated = maxima.find("vallen_max");
  const auto bytes = stated == maxima.end() ? std::nullopt : parse_digits(stated->second);
  return std::max(kMinValueBytes, static_cast<std::size_t>(bytes.value_or(0))) - kTerminatorBytes;
}

}  // namespace

std::string share_text_over(int descriptor, int process, const std::string& text, const StoreWait& wait) {
  Pmi1Connection daemon(descriptor, wait);
  daemon.request("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  const std::size_t part_bytes = max_value_bytes(daemon.request("cmd=get_maxes", "maxes"));
  const std::string store_name = daemon.request("cmd=get_my_kvsname", "my_kvsname")["kvsname"];
  const auto put = [&](const std::string& key, std::string_view value) {
    daemon.request(fmt::format("cmd=put kvsname={} key={} value={}", store_name, key, value), "put_result");
  };
  const auto get = [&](const std::string& key) {
    return daemon.request(fmt::format("cmd=get kvsname={} key={}", store_name, key), "get_result")["value"];
  };
  if (process == 0) {
    std::size_t parts = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += part_bytes)
      put(part_key(parts++), std::string_view(text).substr(begin, part_bytes));
    put(kPartCountKey, std::to_string(parts));
  }
  daemon.request("cmd=barrier_in", "barrier_out");
  std::string shared;
  if (process == 0) {
    shared = text;
  } else {
    const auto parts = parse_digits(get(kPartCountKey));
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts.value_or(0)); ++part)
      shared += get(part_key(part));
  }
  // Without this request, Hydra takes the end of the process for a failure of the job.
  daemon.request("cmd=finalize", "finalize_ack");
  return shared;
}

std::string share_text_by_pmi1(int process, const std::string& text, const StoreWait& wait) {
  const std::string number = nonempty_variable(process_environment, "PMI_FD").value_or("");
  const auto descriptor = parse_digits(number);
  if (!descriptor || *descriptor > kMaxDescriptor)
    throw unusable_store_error(kPmi1, fmt::format("PMI_FD={} is not a descriptor", printable_value(number)));
  return share_text_over(static_cast<int>(*descriptor), process, text, wait);
}

}  // namespace busbw
