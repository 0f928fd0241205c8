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

/// A fake RAS service: sends a greeting, and an answer to the status request.
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
  int connection_count() const { return connection_count_; }

 private:
  void serve() {
    std::vector<Descriptor> kept;
    while (!stops_) {
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, 10) != 1) continue;
      Descriptor connection(accept(socket_.number(), nullptr, nullptr));
      ++connection_count_;
      if (receive_until(connection, "CLIENT PROTOCOL") && !greeting_.empty()) {
        send_text(connection, greeting_);
        if (receive_until(connection, "STATUS\n")) send_text(connection, answer_);
      }
      if (!closes_) kept.push_back(std::move(connection));
    }
  }
  bool receive_until(const Descriptor& connection, std::string_view end) {
    std::string received;
    char piece[256];
    while (received.find(end) == received.npos) {
      const ssize_t bytes = recv(connection.number(), piece, sizeof(piece), 0);
      if (bytes <= 0) return false;
      received.append(piece, static_cast<std::size_t>(bytes));
    }
    return true;
  }
  static void send_text(const Descriptor& connection, const std::string& text) {
    static_cast<void>(!send(connection.number(), text.data(), text.size(), MSG_NOSIGNAL));
  }

  Descriptor socket_;
  std::string greeting_;
  std::string answer_;
  bool closes_;
  std::atomic<bool> stops_{false};
  std::atomic<int> connection_count_{0};
  std::thread thread_;
};

std::optional<RasAddress> address_with(const Variables& variables) {
  made_up_environment() = variables;
  const auto found = ras_address(look_up);
  made_up_environment().clear();
  return found;
}

}  // namespace

TEST_CASE("query_ras: the lines of errors and warnings, without headings") {
  const Listener listener("SERVER PROTOCOL 2\n", std::string(kHead) + kMismatch);
  const auto lines = query_ras(listener.where());
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "DEAD");
  CHECK(lines[1] == "  1 job process is considered dead");
  CHECK(lines[5] == "  Rank 2 has launched up to operation 40");
}

TEST_CASE("query_ras: reports no findings, and an incomplete answer") {
  const Listener well("SERVER PROTOCOL 2\n", std::string(kHead) + "\nErrors\n======\n\nWarnings\n========\n\n");
  CHECK(query_ras(well.where()) == std::vector<std::string>{"no errors or warnings"});
  const Listener slow("SERVER PROTOCOL 2\n", kHead, false);
  CHECK(query_ras(slow.where(), 15) == std::vector<std::string>{"its answer did not come in time"});
}

TEST_CASE("query_ras: a long answer is truncated, and terminal commands are removed") {
  std::string many = "\nErrors\n======\n\n";
  for (int i = 0; i < 100; ++i) many += "\x1b[2J line " + std::to_string(i) + std::string(1000, 'x') + "\n";
  const Listener listener("SERVER PROTOCOL 2\n", kHead + many);
  const auto lines = query_ras(listener.where());
  REQUIRE(lines.size() == kMaxRasLines);
  CHECK(lines[0].starts_with("\\x1b[2J line 0x"));
  CHECK(lines[0].size() < 300);
  CHECK(lines.back() == "... and 77 more lines");
}

TEST_CASE("query_ras: no service, and another service") {
  int port = 0;
  {
    const Descriptor closed = listen_at(endpoint_of("127.0.0.1", 0));
    port = local_endpoint(closed).port();
  }
  CHECK(query_ras({"127.0.0.1", port}).empty());
  const Listener other_service("HTTP/1.1 400 Bad Request\n", "");
  CHECK(query_ras(other_service.where()).empty());
  CHECK(query_ras({"no such host", 28028}, 5).empty());
}

TEST_CASE(
    "query_ras: a silent service is asked again, because another process may answer at the same port, until the "
    "limit") {
  const Listener silent("", "", false);
  CHECK(query_ras(silent.where(), 25).empty());
  CHECK(silent.connection_count() >= 2);
}

TEST_CASE("query_ras: a service that closes at once is asked again, at most once per tick") {
  const Listener closing("", "");
  CHECK(query_ras(closing.where(), 10).empty());
  CHECK(closing.connection_count() >= 2);
  CHECK(closing.connection_count() <= 11);
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
