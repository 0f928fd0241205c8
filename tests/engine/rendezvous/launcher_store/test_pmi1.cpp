#include "rendezvous/launcher_store/shared_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/os/descriptor.hpp"
#include "common/os/ticker.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// Daemon of a job, with one connection for each process. Its replies are those of MPICH 5.0.2's Hydra.
class FakeDaemon {
 public:
  /// `changed_reply` may replace the reply to a request; an empty one closes the connection.
  using ChangedReply = std::function<std::string(const std::string& request, const std::string& reply)>;

  FakeDaemon(int processes, int max_value_bytes, ChangedReply changed_reply)
      : processes_(processes), max_value_bytes_(max_value_bytes), changed_reply_(std::move(changed_reply)) {
    for (int process = 0; process < processes; ++process) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
      clients_.emplace_back(ends[0]);
      threads_.emplace_back([this, end = ends[1]] { serve(Descriptor(end)); });
    }
  }
  ~FakeDaemon() {
    clients_.clear();
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    all_in_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int client(int process) const { return clients_[static_cast<std::size_t>(process)].number(); }
  std::size_t longest_value() const { return longest_value_; }

 private:
  void serve(const Descriptor& socket) {
    std::string received;
    char letter = 0;
    while (read(socket.number(), &letter, 1) == 1) {
      if (letter != '\n') {
        received += letter;
        continue;
      }
      const std::string reply = changed_reply_(received, reply_to(received));
      received.clear();
      if (reply.empty()) return;
      // In two parts, as a stream may deliver them.
      const std::string line = reply + "\n";
      for (const std::string& part : {line.substr(0, 5), line.substr(5)})
        if (send(socket.number(), part.data(), part.size(), MSG_NOSIGNAL) < 0) return;
    }
  }

  static std::string word_after(const std::string& request, const std::string& name) {
    const std::size_t begin = request.find(" " + name + "=");
    if (begin == request.npos) return {};
    const std::size_t text = begin + name.size() + 2;
    return request.substr(text, request.find(' ', text) - text);
  }

  std::string reply_to(const std::string& request) {
    std::unique_lock lock(mutex_);
    if (request.starts_with("cmd=init ")) return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1";
    if (request == "cmd=get_maxes")
      return fmt::format("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max={}", max_value_bytes_);
    if (request == "cmd=get_my_kvsname") return "cmd=my_kvsname rc=0 kvsname=kvs_5_0";
    if (request.starts_with("cmd=put ")) {
      const std::string value = word_after(request, "value");
      longest_value_ = std::max(longest_value_, value.size());
      values_[word_after(request, "key")] = value;
      return "cmd=put_result rc=0";
    }
    if (request == "cmd=barrier_in") {
      ++in_barrier_;
      all_in_.notify_all();
      all_in_.wait(lock, [this] { return in_barrier_ == processes_ || is_closing_; });
      return "cmd=barrier_out rc=0";
    }
    if (request.starts_with("cmd=get ")) {
      const auto value = values_.find(word_after(request, "key"));
      if (value == values_.end()) return "cmd=get_result rc=-1 msg=key_not_found";
      return "cmd=get_result rc=0 found=TRUE value=" + value->second;
    }
    return "cmd=finalize_ack rc=0";
  }

  const int processes_;
  const int max_value_bytes_;
  const ChangedReply changed_reply_;
  std::mutex mutex_;
  std::condition_variable all_in_;
  std::map<std::string, std::string> values_;
  std::size_t longest_value_ = 0;
  int in_barrier_ = 0;
  bool is_closing_ = false;
  std::vector<Descriptor> clients_;
  std::vector<std::thread> threads_;
};

std::string keep_reply(const std::string&, const std::string& reply) { return reply; }

constexpr int kReplyLimitS = 60;

StoreWait wait_of(int seconds) {
  return {seconds * kTicksPerS, [] {}};
}

/// Text that each process of a job receives.
std::vector<std::string> shared_texts(const FakeDaemon& daemon, int processes, const std::string& text) {
  std::vector<std::string> texts(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process)
    threads.emplace_back([&, process] {
      const StoreWait wait = wait_of(kReplyLimitS);
      texts[static_cast<std::size_t>(process)] =
          share_text_over(daemon.client(process), process, process == 0 ? text : "", wait);
    });
  for (auto& thread : threads) thread.join();
  return texts;
}

/// Message of process 1, alone with a daemon that replies `reply` to requests that begin with `request`.
std::string failure_of(const std::string& request, const std::string& reply) {
  const FakeDaemon daemon(1, 1024, [&](const std::string& received, const std::string& usual) {
    return received.starts_with(request) ? reply : usual;
  });
  const StoreWait wait = wait_of(kReplyLimitS);
  return sentence_of<EnvironmentError>([&] { share_text_over(daemon.client(0), 1, {}, wait); });
}

}  // namespace

TEST_CASE("PMI-1: every process receives the text of process 0, in parts that fit the daemon") {
  for (const int max_value_bytes : {64, 1024}) {
    const FakeDaemon daemon(3, max_value_bytes, keep_reply);
    const std::string text = std::string(1500, 'a') + "f00";
    CHECK(shared_texts(daemon, 3, text) == std::vector(3, text));
    CHECK(daemon.longest_value() == static_cast<std::size_t>(max_value_bytes - 1));
  }
}

TEST_CASE("PMI-1: errors of the daemon name the remedy") {
  check_names(failure_of("cmd=init ", "cmd=response_to_init rc=-1 pmi_version=2"),
              {"PMI-1", "rc=-1", "expected response_to_init", "busbw launch mpirun", "BUSBW_RENDEZVOUS"});
  check_names(failure_of("cmd=get ", "cmd=get_result rc=-1 msg=key_not_found"), {"key_not_found"});
  check_names(failure_of("cmd=get_my_kvsname", "nonsense \x1b[1m"), {"nonsense", "\\x1b", "expected my_kvsname"});
  check_names(failure_of("cmd=barrier_in", ""), {"closed the connection"});
}

TEST_CASE("PMI-1: a process that does not come, and a tick that throws, end the wait") {
  const FakeDaemon daemon(2, 1024, keep_reply);
  const StoreWait wait = wait_of(1);
  try {
    share_text_over(daemon.client(0), 0, "text", wait);
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit() == ExitCode::rank_lost);
    check_names(error.what(), {"PMI-1", "in 1 s", "BUSBW_JOIN_TIMEOUT_S"});
  }
  const FakeDaemon other(2, 1024, keep_reply);
  int ticks = 0;
  const StoreWait interrupted{kReplyLimitS * kTicksPerS, [&] {
                                if (++ticks == 3) throw Error(ExitCode::interrupted, "interrupted");
                              }};
  CHECK(sentence_of<Error>([&] { share_text_over(other.client(0), 0, "text", interrupted); }) == "interrupted");
}
