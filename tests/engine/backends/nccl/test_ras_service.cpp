#include "backends/nccl/ras_service.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support_environment.hpp"

using namespace busbw;

namespace {

constexpr const char* kHead =
    "OK\nNCCL version 2.28.9 compiled with CUDA 13.0\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n"
    "=============\n\n";
constexpr const char* kMismatch =
    "\nErrors\n======\n\nDEAD\n  1 job process is considered dead\n\nWarnings\n========\n\n"
    "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
    "  3 ranks have launched up to operation 41\n  Rank 2 has launched up to operation 40\n";

/// Something that listens in the service's place: what it says first, and then to the question.
class Listener {
 public:
  Listener(std::string greeting, std::string answer, bool closes = true)
      : socket_(listen_at(endpoint_of("127.0.0.1", 0))),
        greeting_(std::move(greeting)),
        answer_(std::move(answer)),
        closes_(closes),
        thread_([this] { serve(); }) {}
  ~Listener() {
    stops_ = true;
    thread_.join();
  }
  RasAddress where() const { return {"127.0.0.1", local_endpoint(socket_).port()}; }
  int visitors() const { return visitors_; }

 private:
  void serve() {
    std::vector<Descriptor> kept;
    while (!stops_) {
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, 10) != 1) continue;
      Descriptor visitor(accept(socket_.number(), nullptr, nullptr));
      ++visitors_;
      if (hear(visitor, "CLIENT PROTOCOL") && !greeting_.empty()) {
        say(visitor, greeting_);
        if (hear(visitor, "STATUS\n")) say(visitor, answer_);
      }
      if (!closes_) kept.push_back(std::move(visitor));
    }
  }
  bool hear(const Descriptor& visitor, std::string_view what) {
    std::string heard;
    char piece[256];
    while (heard.find(what) == heard.npos) {
      const ssize_t got = recv(visitor.number(), piece, sizeof(piece), 0);
      if (got <= 0) return false;
      heard.append(piece, static_cast<std::size_t>(got));
    }
    return true;
  }
  static void say(const Descriptor& visitor, const std::string& text) {
    static_cast<void>(!send(visitor.number(), text.data(), text.size(), MSG_NOSIGNAL));
  }

  Descriptor socket_;
  std::string greeting_;
  std::string answer_;
  bool closes_;
  std::atomic<bool> stops_{false};
  std::atomic<int> visitors_{0};
  std::thread thread_;
};

std::optional<RasAddress> address_with(const Variables& variables) {
  made_up_environment() = variables;
  const auto found = ras_address(look_up);
  made_up_environment().clear();
  return found;
}

}  // namespace

TEST_CASE("ask_ras: the lines of errors and warnings, without headings") {
  const Listener listener("SERVER PROTOCOL 2\n", std::string(kHead) + kMismatch);
  const auto lines = query_ras(listener.where());
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "DEAD");
  CHECK(lines[1] == "  1 job process is considered dead");
  CHECK(lines[5] == "  Rank 2 has launched up to operation 40");
}

TEST_CASE("ask_ras: nothing found is said, and so is an answer that did not come whole") {
  const Listener well("SERVER PROTOCOL 2\n", std::string(kHead) + "\nErrors\n======\n\nWarnings\n========\n\n");
  CHECK(query_ras(well.where()) == std::vector<std::string>{"no errors or warnings"});
  const Listener slow("SERVER PROTOCOL 2\n", kHead, false);
  CHECK(query_ras(slow.where(), 15) == std::vector<std::string>{"its answer did not come in time"});
}

TEST_CASE("ask_ras: a long answer is cut, and what is shown holds no commands to a terminal") {
  std::string many = "\nErrors\n======\n\n";
  for (int i = 0; i < 100; ++i) many += "\x1b[2J line " + std::to_string(i) + std::string(1000, 'x') + "\n";
  const Listener listener("SERVER PROTOCOL 2\n", kHead + many);
  const auto lines = query_ras(listener.where());
  REQUIRE(lines.size() == kMaxRasLines);
  CHECK(lines[0].starts_with("?[2J line 0x"));
  CHECK(lines[0].size() < 300);
  CHECK(lines.back() == "... and 77 lines more");
}

TEST_CASE("ask_ras: nobody there, and somebody else") {
  int port = 0;
  {
    const Descriptor closed = listen_at(endpoint_of("127.0.0.1", 0));
    port = local_endpoint(closed).port();
  }
  CHECK(query_ras({"127.0.0.1", port}).empty());
  const Listener stranger("HTTP/1.1 400 Bad Request\n", "");
  CHECK(query_ras(stranger.where()).empty());
  CHECK(query_ras({"no such host", 28028}, 5).empty());
}

TEST_CASE(
    "ask_ras: who says nothing is asked again, since another process may answer at the same port, and then left") {
  const Listener silent("", "", false);
  CHECK(query_ras(silent.where(), 25).empty());
  CHECK(silent.visitors() >= 2);
}

TEST_CASE("ask_ras: who hangs up at once is asked again, but once a tick") {
  const Listener rude("", "");
  CHECK(query_ras(rude.where(), 10).empty());
  CHECK(rude.visitors() >= 2);
  CHECK(rude.visitors() <= 11);
}

TEST_CASE("ras_address: NCCL's variables") {
  const auto usual = address_with({});
  REQUIRE(usual);
  CHECK(usual->host == "localhost");
  CHECK(usual->port == 28028);
  CHECK_FALSE(address_with({{"NCCL_RAS_ENABLE", "0"}}));
  CHECK(address_with({{"NCCL_RAS_ENABLE", "1"}}));
  const auto other = address_with({{"NCCL_RAS_ADDR", "10.0.0.1:4711"}});
  REQUIRE(other);
  CHECK(other->host == "10.0.0.1");
  CHECK(other->port == 4711);
  CHECK(address_with({{"NCCL_RAS_ADDR", "[::1]:4711"}})->host == "::1");
  for (const char* wrong :
       {"localhost", ":28028", "localhost:", "localhost:x", "localhost:0", "localhost:70000", "a:1x"})
    CHECK_FALSE(address_with({{"NCCL_RAS_ADDR", wrong}}));
}
