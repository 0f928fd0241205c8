#include "rendezvous/store/tcp_store_server.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <functional>
#include <random>

#include "rendezvous/store/tcp_store.hpp"
#include "support_errors.hpp"
#include "support_job.hpp"
#include "support_wire.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

ServerSettings settings(int processes, int ranks_per_process = 1, int silence_ticks = 300) {
  return {kToken, processes, ranks_per_process, silence_ticks, "first"};
}

ClientInfo process_greeting(int process, int processes, int ranks_per_process = 1) {
  return {true, process, processes, ranks_per_process, 1000 + process, "host" + std::to_string(process)};
}
ClientInfo rank_greeting(int process, int processes, int ranks_per_process = 1) {
  ClientInfo greeting = process_greeting(process, processes, ranks_per_process);
  greeting.is_control = false;
  return greeting;
}

Bytes packed(const StoreRequest& request) { return MessageWriter().add(request).bytes(); }

/// A server on the loopback interface.
class TestServer {
 public:
  explicit TestServer(const ServerSettings& settings) : TestServer(settings, listen_at(loopback())) {}
  Endpoint where;
  TcpStoreServer server;

 private:
  TestServer(const ServerSettings& settings, Descriptor listener)
      : where(local_endpoint(listener)), server(one(std::move(listener)), settings) {}
  static std::vector<Descriptor> one(Descriptor listener) {
    std::vector<Descriptor> listeners;
    listeners.push_back(std::move(listener));
    return listeners;
  }
};

std::unique_ptr<TcpStore> store_of(const Endpoint& where, const ClientInfo& greeting) {
  return std::make_unique<TcpStore>(
      welcomed(where, greeting), StoreCallbacks{[] { return false; }, [](const Failure&) {}, [](const std::string&) {}},
      kTimeoutMs * 1e-3);
}

/// A running job of two processes.
class RunningPair {
 public:
  RunningPair() : test_server_(settings(2)) {
    for (int process = 0; process < 2; ++process) {
      controls_.push_back(welcomed(test_server_.where, process_greeting(process, 2)));
      stores_.push_back(store_of(test_server_.where, rank_greeting(process, 2)));
    }
  }
  /// True if the two processes can still exchange a value and the job has no failure.
  bool still_works() {
    const std::string key = "check " + std::to_string(++checks_);
    stores_[0]->set(key, bytes_of("fine"), 1);
    return text_of(stores_[1]->get(key)) == "fine" && !server().tracker().failure() &&
           server().tracker().missing_processes().empty();
  }
  const Endpoint& where() const { return test_server_.where; }
  TcpStoreServer& server() { return test_server_.server; }
  void close_rank_of(int process) { stores_[static_cast<std::size_t>(process)].reset(); }
  TcpStore& store(int process) { return *stores_[static_cast<std::size_t>(process)]; }

 private:
  TestServer test_server_;
  std::vector<TcpChannel> controls_;
  std::vector<std::unique_ptr<TcpStore>> stores_;
  int checks_ = 0;
};

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < kTimeoutMs && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(condition());
}

std::string failure_sentence(TcpStoreServer& server) {
  wait_until([&] { return server.tracker().failure().has_value(); });
  CHECK(server.tracker().failure()->exit == ExitCode::rank_lost);
  return server.tracker().failure()->message;
}

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

// ---- raw clients ----------------------------------------------------------------------------------------------------

TEST_CASE("TcpStoreServer: rejects clients without the token, and the job continues") {
  std::mt19937 random(7);
  std::string noise(65536, '\0');
  for (char& one : noise) one = static_cast<char>(random());
  RunningPair pair;
  const ClientInfo right = rank_greeting(1, 2);
  const auto send = [](const Bytes& bytes) { return [bytes](RawClient& client) { client.send(bytes); }; };
  const auto greet_with = [&](const std::string& token) {
    return [=](RawClient& client) { client.send(client.greeting(right, token)); };
  };
  Bytes wrong_magic;
  append_frame(wrong_magic, FrameKind::hello, ClientHandshake(kToken).hello());
  wrong_magic[kLengthBytes + 1] ^= std::byte{1};
  const Failure claimed{ExitCode::wrong_data, "I say so"};
  std::string almost_right = kToken;
  almost_right[5] ^= 1;
  RawClient earlier(pair.where());
  const Bytes recorded = earlier.greeting(right);
  const std::vector<std::function<void(RawClient&)>> scripts{
      send(bytes_of("GET / HTTP/1.1\r\nHost: n1\r\n\r\n")),
      send(bytes_of("SSH-2.0-OpenSSH_9.2\r\n")),
      send(bytes_of(noise)),
      send(bytes_of(std::string(64, '\0'))),
      send(bytes_of(std::string(64, '\xff'))),
      send(MessageWriter().add(std::uint32_t{kMaxGreetingBytes + 1}).bytes()),
      send(MessageWriter().add(std::uint32_t{0}).bytes()),
      send(wrong_magic),
      greet_with(almost_right),
      greet_with(kToken + "0"),
      greet_with(""),
      [&](RawClient& client) {  // and continues as if it were accepted
        Bytes frames = client.greeting(right, "guess");
        append_frame(frames, FrameKind::abort, busbw::packed(claimed));
        client.send(frames);
      },
      [&](RawClient& client) { client.send(recorded); },  // without a hello
      [&](RawClient& client) {  // replays a greeting of another connection
        static_cast<void>(client.greeting(right));
        client.send(recorded);
      },
      [&](RawClient& client) {
        Bytes changed = client.greeting(right);
        changed.back() ^= std::byte{1};  // the last byte of the host name
        client.send(changed);
      },
      [&](RawClient& client) {
        static_cast<void>(client.greeting(right));
        client.send(FrameKind::hello, ClientHandshake(kToken).hello());
      },
      [&](RawClient& client) {
        static_cast<void>(client.greeting(right));
        client.send(FrameKind::greeting, bytes_of("short"));
      },
      [&](RawClient& client) { client.send(FrameKind::hello, bytes_of("short")); },
      [&](RawClient& client) { client.send(FrameKind::abort, busbw::packed(claimed)); },
      [&](RawClient& client) { client.send(static_cast<FrameKind>(200), bytes_of("x")); }};
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    CAPTURE(i);
    RawClient client(pair.where());
    scripts[i](client);
    CHECK(client.is_rejected());
    CHECK(pair.still_works());
  }
  CHECK(pair.server().rejected_connections() == static_cast<int>(scripts.size()));
  CHECK_FALSE(pair.server().tracker().first_refusal());
}

TEST_CASE("TcpStoreServer: a client without the token learns only that the token differs") {
  RunningPair pair;
  TcpChannel channel(connected_to(pair.where()));
  const ClientInfo wrong_in_other_ways = process_greeting(1, 3);
  CHECK(greet(channel, wrong_in_other_ways, "guess").kind == ClientHandshake::HandshakeResult::Kind::other_token);
  RawClient client(pair.where());
  client.send(client.greeting(wrong_in_other_ways, "guess"));
  const auto answer = client.receive_frame();
  REQUIRE(answer.has_value());
  CHECK(answer->kind == FrameKind::refused);
  CHECK(answer->body.empty());
}

TEST_CASE("TcpStoreServer: silent, incomplete and reset connections do not disturb the job") {
  RunningPair pair;
  Bytes hello;
  append_frame(hello, FrameKind::hello, ClientHandshake(kToken).hello());
  std::vector<RawClient> clients;
  for (std::size_t length = 0; length < hello.size(); length += 5) {
    clients.emplace_back(pair.where());
    clients.back().send(std::span(hello).first(length));
  }
  for (std::size_t length = 0, all = 1; length < all; length += 9) {
    clients.emplace_back(pair.where());
    const Bytes greeting = clients.back().greeting(rank_greeting(1, 2));
    clients.back().send(std::span(greeting).first(length));
    all = greeting.size();
  }
  CHECK(pair.still_works());
  for (std::size_t i = 0; i < clients.size(); i += 2) clients[i].reset();
  CHECK(pair.still_works());
  for (int i = 0; i < 300; ++i) RawClient(pair.where()).reset();  // a port scan
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: rejects the oldest unknown connections at the bound, and accepts a late member") {
  RunningPair pair;
  std::vector<RawClient> clients;
  for (int i = 0; i < 600; ++i) clients.emplace_back(pair.where());
  CHECK(pair.still_works());
  const auto late = store_of(pair.where(), rank_greeting(1, 2));
  pair.store(0).set("for the late", bytes_of("x"));
  CHECK(text_of(late->get("for the late")) == "x");
  wait_until([&] { return pair.server().rejected_connections() >= 300; });
  CHECK(clients.front().is_rejected());  // the oldest connection
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: a closed rank connection marks the process as lost") {
  RunningPair pair;
  pair.close_rank_of(1);
  check_names(failure_sentence(pair.server()), {"rank 1 (process 1, pid 1001 on host1) was lost", "connection closed"});
}

TEST_CASE("TcpStoreServer: the loss of a process with many ranks is reported once, without deep recursion") {
  constexpr int kRanks = 200;
  ChildProcess child([]() -> std::string {
    pthread_attr_t small;
    pthread_attr_init(&small);
    // Less than a sixth of what recursive reads would need. Sanitizers need part of it.
    pthread_attr_setstacksize(&small, std::size_t{2} << 20);
    pthread_setattr_default_np(&small);
    TestServer test_server(settings(1, kRanks));
    {
      std::vector<TcpChannel> all;
      all.push_back(welcomed(test_server.where, process_greeting(0, 1, kRanks)));
      for (int i = 0; i < kRanks; ++i) all.push_back(welcomed(test_server.where, rank_greeting(0, 1, kRanks)));
    }
    return failure_sentence(test_server.server);
  });
  check_names(child.said(), {"ranks 0 to 199 (process 0, pid 1000 on host0) was lost"});
}

TEST_CASE("TcpStoreServer: names a client with another token, without any effect on the job") {
  TestServer test_server(settings(2));
  const ProcessTracker& tracker = test_server.server.tracker();
  CHECK(tracker.token_mismatch_message().empty());
  ClientInfo wrong = process_greeting(1, 2);
  wrong.host = "\x1b[2Jhost1";
  RawClient client(test_server.where);
  client.send(client.greeting(wrong, "another"));
  CHECK(client.is_rejected());
  check_names(tracker.token_mismatch_message(), {"process 1 on \\x1b[2Jhost1", "another token", "BUSBW_TOKEN_FILE"});
  CHECK(tracker.missing_processes() == std::vector<int>{0, 1});
  CHECK_FALSE(tracker.failure());
  const TcpChannel one = welcomed(test_server.where, process_greeting(1, 2));
  CHECK(tracker.token_mismatch_message().empty());
}

TEST_CASE("TcpStoreServer: answers another version with its own, names the client once, and the job continues") {
  RunningPair pair;
  for (int i = 0; i < 2; ++i) {
    RawClient client(pair.where());
    client.send(FrameKind::hello, bytes_of("bswbrol1 and a number"));
    const auto answer = client.receive_frame();
    REQUIRE(answer);
    CHECK(answer->kind == FrameKind::hello);
    CHECK(text_of(answer->body) == "bswbrol4");
    CHECK(client.is_rejected());
    CHECK(pair.still_works());
  }
  CHECK(pair.server().rejected_connections() == 1);
  check_names(pair.server().tracker().version_mismatch_message(), {"127.0.0.1", "version 1 ", "version 4;"});
  RawClient malicious(pair.where());
  malicious.send(FrameKind::hello, bytes_of("bswbrol\x1b[2J"));
  CHECK(text_of(malicious.receive_all().value_or(bytes_of("?"))).empty());
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: accepts a greeting that arrives byte by byte") {
  RunningPair pair;
  RawClient slow(pair.where());
  for (const std::byte one : slow.greeting(rank_greeting(0, 2))) slow.send(std::span(&one, 1));
  slow.send(FrameKind::request, packed(StoreRequest{StoreRequest::Op::set, 0, "slow", bytes_of("but sure"), 0, 0}));
  CHECK(text_of(pair.store(1).get("slow")) == "but sure");
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: disconnects a surplus rank connection that sends invalid frames, and the job continues") {
  RunningPair pair;
  std::vector<std::function<void(RawClient&)>> scripts{
      [](RawClient& client) { client.send("what is this"); },
      [](RawClient& client) { client.send(FrameKind::request, bytes_of("short")); },
      [](RawClient& client) {
        client.send(FrameKind::phase, MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{99}).bytes());
      },
      [](RawClient& client) {
        client.send(FrameKind::phase, MessageWriter().add(std::uint32_t{1}).add(std::uint8_t{0}).bytes());
      },
      [](RawClient& client) { client.send(FrameKind::heartbeat, {}); },
      [](RawClient& client) { client.send(FrameKind::abort, bytes_of("x")); },
      [](RawClient& client) { client.send(FrameKind::abort, busbw::packed(Failure{ExitCode::good, "all is well"})); },
      [](RawClient& client) {
        client.send(FrameKind::abort, busbw::packed(Failure{static_cast<ExitCode>(77), "no such end"}));
      },
      [](RawClient& client) {
        client.send(FrameKind::abort, busbw::packed(Failure{static_cast<ExitCode>(256), "0 to a shell"}));
      },
      [](RawClient& client) { client.send(FrameKind::leave, {}); },
      [](RawClient& client) { client.send(FrameKind::welcome, {}); },
      [](RawClient& client) { client.send(FrameKind::greeting, {}); },
      [](RawClient& client) { client.send(MessageWriter().add(std::uint32_t{kMaxFrameBytes + 1}).bytes()); }};
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    CAPTURE(i);
    RawClient member(pair.where());
    member.send(member.greeting(rank_greeting(1, 2)));
    scripts[i](member);
    CHECK(member.is_rejected());
    CHECK(pair.still_works());
  }
}

TEST_CASE("TcpStoreServer: random changes of a valid greeting never disturb the job") {
  std::mt19937 random(11);
  RunningPair pair;
  for (int round = 0; round < 300; ++round) {
    RawClient client(pair.where());
    Bytes frame = client.greeting(rank_greeting(1, 2));
    for (unsigned i = 0; i <= random() % 4; ++i) frame[random() % frame.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    client.send(frame);
    if (round % 20 == 0) REQUIRE(pair.still_works());
  }
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: random frames of an authenticated client never disturb the job") {
  std::mt19937 random(13);
  RunningPair pair;
  const auto changed = [&](Bytes body) {
    for (unsigned i = 0; i <= random() % 4; ++i) body[random() % body.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) body.resize(random() % body.size());
    return body;
  };
  const std::vector<std::pair<FrameKind, Bytes>> known{
      {FrameKind::request, packed(StoreRequest{StoreRequest::Op::get, 0, "a key", {}, 0, 0})},
      {FrameKind::request, packed(StoreRequest{StoreRequest::Op::set, 0, "another key", bytes_of("value"), 1, 0})},
      {FrameKind::phase, MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{1}).bytes()},
      {FrameKind::reply, bytes_of("it is not for a member to answer")},
      {FrameKind::welcome, bytes_of("nor to welcome")}};
  for (int round = 0; round < 300; ++round) {
    RawClient member(pair.where());
    member.send(member.greeting(rank_greeting(1, 2)));
    const auto& [kind, body] = known[static_cast<std::size_t>(round) % known.size()];
    member.send(kind, changed(body));
    if (round % 20 == 0) REQUIRE(pair.still_works());
  }
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: a member that never reads replies does not disturb the others") {
  RunningPair pair;
  const std::string big(StoreState::kMaxValueBytes, 'x');
  pair.store(0).set("big", bytes_of(big));
  RawClient lazy(pair.where());
  lazy.send(lazy.greeting(rank_greeting(1, 2)));
  for (std::uint32_t i = 0; i < 40; ++i)
    lazy.send(FrameKind::request, packed(StoreRequest{StoreRequest::Op::get, i, "big", {}, 0, 0}));
  CHECK(text_of(pair.store(1).get("big")) == big);
  CHECK(pair.still_works());
}

TEST_CASE("TcpStoreServer: without free file descriptors, unknown connections are rejected and members accepted") {
  const Descriptor listener = listen_at(loopback());
  const Endpoint where = local_endpoint(listener);
  int finish_pipe[2];
  REQUIRE(pipe(finish_pipe) == 0);
  ChildProcess child([&]() -> std::string {
    std::vector<Descriptor> listeners;
    listeners.emplace_back(dup(listener.number()));
    TcpStoreServer server(std::move(listeners), settings(1));
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = open_files() + 8;
    setrlimit(RLIMIT_NOFILE, &limit);
    char byte = 0;
    if (read(finish_pipe[0], &byte, 1) != 1) return "the parent did not finish";
    return server.tracker().failure() ? server.tracker().failure()->message : "";
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 40; ++i) clients.emplace_back(where);
  const TcpChannel member = welcomed(where, process_greeting(0, 1));
  CHECK(write(finish_pipe[1], "x", 1) == 1);
  CHECK(child.said() == "");
  close(finish_pipe[0]);
  close(finish_pipe[1]);
}

// ---- refused members ------------------------------------------------------------------------------------------------

TEST_CASE("TcpStoreServer: a member with another size, number or layout gets the reason, and the job continues") {
  {
    RunningPair pair;
    const Failure failure = refused(pair.where(), process_greeting(1, 3));
    CHECK(failure.exit == ExitCode::environment);
    check_names(failure.message, {"process 1 on host1", "expects 3 processes", "process 0 expects 2", "BUSBW_SIZE"});
    CHECK(pair.still_works());
    REQUIRE(pair.server().tracker().first_refusal());
    CHECK(pair.server().tracker().first_refusal()->message == failure.message);
    CHECK(refused(pair.where(), process_greeting(1, 4)).message != failure.message);
    CHECK(pair.server().tracker().first_refusal()->message == failure.message);
    CHECK(pair.server().rejected_connections() == 0);
  }
  RunningPair pair;
  const Failure layout = refused(pair.where(), process_greeting(1, 2, 8));
  CHECK(layout.exit == ExitCode::usage);
  check_names(layout.message, {"process 1 on host1", "8 ranks", "process 0 has 1", "-t"});
  for (const int number : {-1, 2, 1 << 30})
    check_names(refused(pair.where(), process_greeting(number, 2)).message,
                {"no process " + std::to_string(number), "job of 2", "BUSBW_RANK"});
  ClientInfo duplicate = process_greeting(1, 2);
  duplicate.host = "elsewhere";
  check_names(refused(pair.where(), duplicate).message,
              {"rank 1 (process 1, pid 1001 on host1)", "already joined", "elsewhere", "BUSBW_RANK"});
  CHECK(pair.still_works());
}

// ---- states of members ----------------------------------------------------------------------------------------------

TEST_CASE("TcpStoreServer: knows the missing processes") {
  TestServer test_server(settings(4));
  CHECK(test_server.server.tracker().missing_processes() == std::vector<int>{0, 1, 2, 3});
  const TcpChannel two = welcomed(test_server.where, process_greeting(2, 4));
  const TcpChannel zero = welcomed(test_server.where, process_greeting(0, 4));
  const TcpChannel only_a_rank = welcomed(test_server.where, rank_greeting(1, 4));
  CHECK(test_server.server.tracker().missing_processes() == std::vector<int>{1, 3});
  CHECK(test_server.server.tracker().host_of_process(2) == "host2");
}

TEST_CASE("TcpStoreServer: reports a lost process with host and phase to all others, in every phase") {
  for (const Phase phase : kPhases) {
    CAPTURE(name(phase));
    TestServer test_server(settings(3, 2));
    TcpChannel zero = welcomed(test_server.where, process_greeting(0, 3, 2));
    TcpChannel one = welcomed(test_server.where, process_greeting(1, 3, 2));
    auto rank = store_of(test_server.where, rank_greeting(1, 3, 2));
    auto waiting = store_of(test_server.where, rank_greeting(0, 3, 2));
    rank->report_phase(0, phase);
    rank->report_phase(1, phase);
    rank.reset();
    {
      const TcpChannel closing = std::move(one);
    }
    const std::string sentence = failure_sentence(test_server.server);
    check_names(sentence, {"ranks 2 to 3 (process 1, pid 1001 on host1) was lost in phase " + std::string(name(phase)),
                           "its connection closed", "host1"});
    const auto received = next_frame(zero);
    REQUIRE(received);
    CHECK(received->kind == FrameKind::failure);
    MessageReader reader(received->body);
    CHECK(unpack_failure(reader).message == sentence);
    CHECK_THROWS_AS(waiting->get("never set"), JobAborted);
    // A client that connects later also receives the failure.
    TcpChannel late = welcomed(test_server.where, rank_greeting(2, 3, 2));
    const auto received_late = next_frame(late);
    REQUIRE(received_late);
    CHECK(received_late->kind == FrameKind::failure);
  }
}

TEST_CASE("TcpStoreServer: a silent process is lost, a process with heartbeats is not") {
  TestServer test_server(settings(2, 1, 20));
  TcpChannel active = welcomed(test_server.where, process_greeting(0, 2));
  const TcpChannel silent = welcomed(test_server.where, process_greeting(1, 2));
  const Bytes heartbeat = MessageWriter()
                              .add(static_cast<std::uint8_t>(Phase::timing))
                              .add(std::uint64_t{42})
                              .add(std::uint64_t{7})
                              .add(std::uint64_t{1024})
                              .bytes();
  for (int i = 0; i < 600 && !test_server.server.tracker().failure(); ++i) {
    active.send(FrameKind::heartbeat, heartbeat);
    active.receive(kTickMs);
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
  check_names(failure_sentence(test_server.server),
              {"rank 1 (process 1, pid 1001 on host1) was lost in phase rendezvous", "it sent nothing for 2 s"});
  CHECK(test_server.server.tracker().progress(0).phase == Phase::timing);
  CHECK(test_server.server.tracker().progress(0).steps == 42);
  CHECK(test_server.server.tracker().progress(0).operations == 7);
  CHECK(test_server.server.tracker().progress(0).operation_bytes == 1024);
}

TEST_CASE("TcpStoreServer: a process that left is not lost when its connection closes") {
  TestServer test_server(settings(2));
  TcpChannel zero = welcomed(test_server.where, process_greeting(0, 2));
  TcpChannel one = welcomed(test_server.where, process_greeting(1, 2));
  CHECK_FALSE(test_server.server.wait_until_all_left(0));
  one.send(FrameKind::leave, {});
  const auto answer = next_frame(one);
  REQUIRE(answer);
  CHECK(answer->kind == FrameKind::leave);
  {
    const TcpChannel ends = std::move(one);
  }
  zero.send(FrameKind::leave, {});
  CHECK(test_server.server.wait_until_all_left(kTimeoutMs / kTickMs));
  CHECK_FALSE(test_server.server.tracker().failure());
}

TEST_CASE("TcpStoreServer: an abort reaches every client once; the first failure is kept") {
  TestServer test_server(settings(2));
  TcpChannel zero = welcomed(test_server.where, process_greeting(0, 2));
  TcpChannel one = welcomed(test_server.where, process_greeting(1, 2));
  one.send(FrameKind::abort, busbw::packed(Failure{ExitCode::wrong_data, "process 1 gives up"}));
  for (TcpChannel* channel : {&zero, &one}) {
    const auto received = next_frame(*channel);
    REQUIRE(received);
    CHECK(received->kind == FrameKind::failure);
    MessageReader reader(received->body);
    const Failure failure = unpack_failure(reader);
    CHECK(failure.exit == ExitCode::wrong_data);
    CHECK(failure.message == "process 1 gives up");
  }
  test_server.server.abort({ExitCode::interrupted, "too late"});
  zero.send(FrameKind::leave, {});
  const auto next = next_frame(zero);
  REQUIRE(next);
  CHECK(next->kind == FrameKind::leave);
  CHECK(test_server.server.tracker().failure()->message == "process 1 gives up");
}

TEST_CASE("TcpStoreServer: a lost process that still lives receives the reason, and its connections end") {
  TestServer test_server(settings(3));
  test_server.server.tolerate_losses(true);
  TcpChannel control = welcomed(test_server.where, process_greeting(1, 3));
  TcpChannel rank = welcomed(test_server.where, rank_greeting(1, 3));
  TcpChannel other = welcomed(test_server.where, process_greeting(2, 3));
  CHECK(test_server.server.lose_processes({1}, "was left out: rank 1 hangs"));
  CHECK(test_server.server.lose_processes({2}, "was left out: rank 2 hangs"));
  const std::array<std::string, 3> names{"rank 1 (process 1", "rank 1 (process 1", "rank 2 (process 2"};
  for (std::size_t i = 0; TcpChannel* channel : {&control, &rank, &other}) {
    const auto received = next_frame(*channel);
    REQUIRE(received);
    CHECK(received->kind == FrameKind::failure);
    MessageReader reader(received->body);
    const Failure failure = unpack_failure(reader);
    CHECK(failure.exit == ExitCode::rank_lost);
    check_names(failure.message, {names[i++], "was left out: rank", "hangs; the job continues without it"});
    CHECK_FALSE(next_frame(*channel));
    CHECK(channel->ended());
  }
  CHECK_FALSE(test_server.server.tracker().failure());
}

TEST_CASE("TcpStoreServer: a lost process with unread replies cannot continue, and next reads the reason once") {
  TestServer test_server(settings(3));
  test_server.server.tolerate_losses(true);
  auto zero = store_of(test_server.where, rank_greeting(0, 3));
  TcpChannel control = welcomed(test_server.where, process_greeting(1, 3));
  TcpChannel rank = welcomed(test_server.where, rank_greeting(1, 3));
  TcpChannel other = welcomed(test_server.where, process_greeting(2, 3));
  zero->set("large", Bytes(StoreState::kMaxValueBytes), 0);
  constexpr int kReplies = 16;  // more than the system's buffers of a connection
  for (int i = 0; i < kReplies; ++i)
    rank.send(FrameKind::request, packed(StoreRequest{.op = StoreRequest::Op::get, .key = "large"}));
  rank.send(FrameKind::request, packed(StoreRequest{.op = StoreRequest::Op::set, .key = "sent", .amount = 0}));
  zero->get("sent");
  CHECK(test_server.server.lose_processes({1}, "was left out: rank 1 hangs"));
  CHECK(next_frame(control));
  CHECK(test_server.server.lose_processes({2}, "was left out: rank 2 hangs"));
  CHECK(next_frame(other));  // process 1 was handled again before
  rank.send(FrameKind::request, packed(StoreRequest{.op = StoreRequest::Op::set, .key = "too late", .amount = 0}));
  FrameKind last = FrameKind::reply;
  int failures = 0;
  while (const auto received = next_frame(rank)) {
    last = received->kind;
    if (last == FrameKind::failure) ++failures;
  }
  CHECK(last == FrameKind::failure);
  CHECK(failures == 1);
  CHECK(rank.ended());
  zero->set("too late", bytes_of("accepted"), 0);
  CHECK(text_of(zero->get("too late")) == "accepted");
}

TEST_CASE("TcpStoreServer: a process that withdraws receives only the answer to that") {
  TestServer test_server(settings(2));
  test_server.server.tolerate_losses(true);
  TcpChannel control = welcomed(test_server.where, process_greeting(1, 2));
  TcpChannel rank = welcomed(test_server.where, rank_greeting(1, 2));
  control.send(FrameKind::withdraw, MessageWriter().add(std::string("cannot start: no GPU")).bytes());
  const auto answer = next_frame(control);
  REQUIRE(answer);
  CHECK(answer->kind == FrameKind::leave);
  for (TcpChannel* channel : {&control, &rank}) {
    CHECK_FALSE(next_frame(*channel));
    CHECK(channel->ended());
  }
  check_names(test_server.server.tracker().lost_processes().at(1).reason, {"cannot start: no GPU"});
}

TEST_CASE("TcpStoreServer: can be destroyed at any time, and leaves no files open") {
  const std::size_t before = open_files();
  for (int round = 0; round < 20; ++round) {
    auto test_server = std::make_unique<TestServer>(settings(2));
    TcpChannel member = welcomed(test_server->where, process_greeting(0, 2));
    RawClient client(test_server->where);
    if (round % 2 == 0) test_server->server.abort({ExitCode::interrupted, "stop"});
    test_server.reset();
    CHECK(client.is_rejected());
    while (next_frame(member)) {
    }
    CHECK(member.ended());
  }
  CHECK(open_files() == before);
}

TEST_CASE("TcpStoreServer: a job that needs too many open files is an error with a remedy") {
  check_names(sentence_of<EnvironmentError>([] { const TestServer test_server(settings(1000, 10000)); }),
              {"open files", "ulimit -n"});
}
