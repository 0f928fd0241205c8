#include "rendezvous/store/tcp_store_server.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

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
  greeting.is_process = false;
  return greeting;
}

/// A server on the loopback interface.
class Served {
 public:
  explicit Served(const ServerSettings& settings) : Served(settings, listen_at(loopback())) {}
  Endpoint where;
  TcpStoreServer server;

 private:
  Served(const ServerSettings& settings, Descriptor listener)
      : where(local_endpoint(listener)), server(one(std::move(listener)), settings) {}
  static std::vector<Descriptor> one(Descriptor listener) {
    std::vector<Descriptor> listeners;
    listeners.push_back(std::move(listener));
    return listeners;
  }
};

std::unique_ptr<TcpStore> store_of(const Endpoint& where, const ClientInfo& greeting) {
  return std::make_unique<TcpStore>(welcomed(where, greeting),
                                    StoreCallbacks{[] { return false; }, [](const Failure&) {}, [](const std::string&) {}},
                                    kPatienceMs * 1e-3);
}

/// A job of two that is under way.
class Pair {
 public:
  Pair() : served_(settings(2)) {
    for (int process = 0; process < 2; ++process) {
      controls_.push_back(welcomed(served_.where, process_greeting(process, 2)));
      stores_.push_back(store_of(served_.where, rank_greeting(process, 2)));
    }
  }
  /// Values still go from one to the other, and nothing was made of whatever else happened.
  bool goes_on() {
    const std::string key = "check " + std::to_string(++checks_);
    stores_[0]->set(key, bytes_of("fine"), 1);
    return text_of(stores_[1]->get(key)) == "fine" && !server().attendance().failure() &&
           server().attendance().missing().empty();
  }
  const Endpoint& where() const { return served_.where; }
  TcpStoreServer& server() { return served_.server; }
  void close_rank_of(int process) { stores_[static_cast<std::size_t>(process)].reset(); }
  TcpStore& store(int process) { return *stores_[static_cast<std::size_t>(process)]; }

 private:
  Served served_;
  std::vector<TcpChannel> controls_;
  std::vector<std::unique_ptr<TcpStore>> stores_;
  int checks_ = 0;
};

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < kPatienceMs && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(condition());
}

std::string failure_sentence(TcpStoreServer& server) {
  wait_until([&] { return server.attendance().failure().has_value(); });
  CHECK(server.attendance().failure()->exit == ExitCode::rank_lost);
  return server.attendance().failure()->message;
}

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

// ---- strangers ------------------------------------------------------------------------------------------------------

TEST_CASE("TcpServer: strangers who talk are turned away, and the job goes on") {
  std::mt19937 random(7);
  std::string noise(65536, '\0');
  for (char& one : noise) one = static_cast<char>(random());
  Pair pair;
  const ClientInfo right = rank_greeting(1, 2);
  const auto say = [](const Bytes& bytes) { return [bytes](Stranger& it) { it.say(bytes); }; };
  const auto greet_with = [&](const std::string& token) {
    return [=](Stranger& it) { it.say(it.greeting(right, token)); };
  };
  Bytes wrong_magic;
  append_frame(wrong_magic, FrameKind::hello, ClientHandshake(kToken).hello());
  wrong_magic[kLengthBytes + 1] ^= std::byte{1};
  const Failure mine{ExitCode::wrong_data, "I say so"};
  std::string nearly = kToken;
  nearly[5] ^= 1;
  Stranger earlier(pair.where());
  const Bytes overheard = earlier.greeting(right);
  const std::vector<std::function<void(Stranger&)>> sayings{
      say(bytes_of("GET / HTTP/1.1\r\nHost: n1\r\n\r\n")),
      say(bytes_of("SSH-2.0-OpenSSH_9.2\r\n")),
      say(bytes_of(noise)),
      say(bytes_of(std::string(64, '\0'))),
      say(bytes_of(std::string(64, '\xff'))),
      say(MessageWriter().add(std::uint32_t{kMaxGreetingBytes + 1}).bytes()),
      say(MessageWriter().add(std::uint32_t{0}).bytes()),
      say(wrong_magic),
      greet_with(nearly),
      greet_with(kToken + "0"),
      greet_with(""),
      [&](Stranger& it) {  // and goes on as if it were in
        Bytes frames = it.greeting(right, "guess");
        append_frame(frames, FrameKind::abort, packed(mine));
        it.say(frames);
      },
      [&](Stranger& it) { it.say(overheard); },  // without a hello
      [&](Stranger& it) {  // what was right on another connection
        static_cast<void>(it.greeting(right));
        it.say(overheard);
      },
      [&](Stranger& it) {
        Bytes changed = it.greeting(right);
        changed.back() ^= std::byte{1};  // of its host's name
        it.say(changed);
      },
      [&](Stranger& it) {
        static_cast<void>(it.greeting(right));
        it.say(FrameKind::hello, ClientHandshake(kToken).hello());
      },
      [&](Stranger& it) {
        static_cast<void>(it.greeting(right));
        it.say(FrameKind::greeting, bytes_of("short"));
      },
      [&](Stranger& it) { it.say(FrameKind::hello, bytes_of("short")); },
      [&](Stranger& it) { it.say(FrameKind::abort, packed(mine)); },
      [&](Stranger& it) { it.say(static_cast<FrameKind>(200), bytes_of("x")); }};
  for (std::size_t i = 0; i < sayings.size(); ++i) {
    CAPTURE(i);
    Stranger stranger(pair.where());
    sayings[i](stranger);
    CHECK(stranger.is_turned_away());
    CHECK(pair.goes_on());
  }
  CHECK(pair.server().rejected_connections() == static_cast<int>(sayings.size()));
  CHECK_FALSE(pair.server().attendance().first_refusal());
}

TEST_CASE("TcpServer: a stranger learns nothing but that the token differs") {
  Pair pair;
  TcpChannel channel(connected_to(pair.where()));
  const ClientInfo wrong_in_other_ways = process_greeting(1, 3);
  CHECK(greet(channel, wrong_in_other_ways, "guess").kind == ClientHandshake::HandshakeResult::Kind::other_token);
  Stranger stranger(pair.where());
  stranger.say(stranger.greeting(wrong_in_other_ways, "guess"));
  const auto heard = stranger.hear();
  REQUIRE(heard.has_value());
  CHECK(heard->kind == FrameKind::refused);
  CHECK(heard->body.empty());
}

TEST_CASE("TcpServer: strangers who are silent, stop in the middle or go without a word disturb nobody") {
  Pair pair;
  Bytes hello;
  append_frame(hello, FrameKind::hello, ClientHandshake(kToken).hello());
  std::vector<Stranger> there;
  for (std::size_t length = 0; length < hello.size(); length += 5) {
    there.emplace_back(pair.where());
    there.back().say(std::span(hello).first(length));
  }
  for (std::size_t length = 0, all = 1; length < all; length += 9) {
    there.emplace_back(pair.where());
    const Bytes greeting = there.back().greeting(rank_greeting(1, 2));
    there.back().say(std::span(greeting).first(length));
    all = greeting.size();
  }
  CHECK(pair.goes_on());
  for (std::size_t i = 0; i < there.size(); i += 2) there[i].reset();
  CHECK(pair.goes_on());
  for (int i = 0; i < 300; ++i) Stranger(pair.where()).reset();  // a scan
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: more strangers than there is room for give way, and a late member is let in") {
  Pair pair;
  std::vector<Stranger> crowd;
  for (int i = 0; i < 600; ++i) crowd.emplace_back(pair.where());
  CHECK(pair.goes_on());
  const auto late = store_of(pair.where(), rank_greeting(1, 2));
  pair.store(0).set("for the late", bytes_of("x"));
  CHECK(text_of(late->get("for the late")) == "x");
  wait_until([&] { return pair.server().rejected_connections() >= 300; });
  CHECK(crowd.front().is_turned_away());  // the one that has been there longest
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: a rank whose connection breaks is lost, though its process goes on") {
  Pair pair;
  pair.close_rank_of(1);
  check_names(failure_sentence(pair.server()), {"rank 1 (process 1, pid 1001 on host1) was lost", "connection closed"});
}

TEST_CASE("TcpServer: a process of many ranks that dies costs one loss and little stack") {
  constexpr int kRanks = 200;
  ChildProcess child([]() -> std::string {
    pthread_attr_t small;
    pthread_attr_init(&small);
    // Less than a sixth of what a read inside each read would take; sanitizers need some of it for themselves.
    pthread_attr_setstacksize(&small, std::size_t{2} << 20);
    pthread_setattr_default_np(&small);
    Served served(settings(1, kRanks));
    {
      std::vector<TcpChannel> all;
      all.push_back(welcomed(served.where, process_greeting(0, 1, kRanks)));
      for (int i = 0; i < kRanks; ++i) all.push_back(welcomed(served.where, rank_greeting(0, 1, kRanks)));
    }
    return failure_sentence(served.server);
  });
  check_names(child.said(), {"ranks 0 to 199 (process 0, pid 1000 on host0) was lost"});
}

TEST_CASE("TcpServer: who came with another token is named, but nothing follows from it") {
  Served served(settings(2));
  const ProcessTracker& attendance = served.server.attendance();
  CHECK(attendance.other_token().empty());
  ClientInfo wrong = process_greeting(1, 2);
  wrong.host = "\x1b[2Jhost1";
  Stranger stranger(served.where);
  stranger.say(stranger.greeting(wrong, "another"));
  CHECK(stranger.is_turned_away());
  check_names(attendance.other_token(), {"process 1 on \\x1b[2Jhost1", "another token", "BUSBW_TOKEN_FILE"});
  CHECK(attendance.missing() == std::vector<int>{0, 1});
  CHECK_FALSE(attendance.failure());
  const TcpChannel one = welcomed(served.where, process_greeting(1, 2));
  CHECK(attendance.other_token().empty());
}

TEST_CASE("TcpServer: one of another version hears this one, is named once, and the job goes on") {
  Pair pair;
  for (int i = 0; i < 2; ++i) {
    Stranger stranger(pair.where());
    stranger.say(FrameKind::hello, bytes_of("bswbrol1 and a number"));
    const auto answer = stranger.hear();
    REQUIRE(answer);
    CHECK(answer->kind == FrameKind::hello);
    CHECK(text_of(answer->body) == "bswbrol2");
    CHECK(stranger.is_turned_away());
    CHECK(pair.goes_on());
  }
  CHECK(pair.server().rejected_connections() == 1);
  check_names(pair.server().attendance().other_version(), {"127.0.0.1", "version 1 ", "version 2;"});
  Stranger hostile(pair.where());
  hostile.say(FrameKind::hello, bytes_of("bswbrol\x1b[2J"));
  CHECK(text_of(hostile.hear_to_the_end().value_or(bytes_of("?"))).empty());
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: a greeting may come one byte at a time") {
  Pair pair;
  Stranger slow(pair.where());
  for (const std::byte one : slow.greeting(rank_greeting(0, 2))) slow.say(std::span(&one, 1));
  slow.say(FrameKind::request, StoreRequest{StoreRequest::Op::set, 0, "slow", bytes_of("but sure"), 0, 0}.packed());
  CHECK(text_of(pair.store(1).get("slow")) == "but sure");
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: a member whose words make no sense any more is cut off; as a rank's it costs nobody else") {
  Pair pair;
  std::vector<std::function<void(Stranger&)>> sayings{
      [](Stranger& it) { it.say("what is this"); },
      [](Stranger& it) { it.say(FrameKind::request, bytes_of("short")); },
      [](Stranger& it) { it.say(FrameKind::phase, MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{99}).bytes()); },
      [](Stranger& it) { it.say(FrameKind::phase, MessageWriter().add(std::uint32_t{1}).add(std::uint8_t{0}).bytes()); },
      [](Stranger& it) { it.say(FrameKind::heartbeat, {}); },
      [](Stranger& it) { it.say(FrameKind::abort, bytes_of("x")); },
      [](Stranger& it) { it.say(FrameKind::abort, packed(Failure{ExitCode::good, "all is well"})); },
      [](Stranger& it) { it.say(FrameKind::abort, packed(Failure{static_cast<ExitCode>(77), "no such end"})); },
      [](Stranger& it) { it.say(FrameKind::abort, packed(Failure{static_cast<ExitCode>(256), "0 to a shell"})); },
      [](Stranger& it) { it.say(FrameKind::leave, {}); },
      [](Stranger& it) { it.say(FrameKind::welcome, {}); },
      [](Stranger& it) { it.say(FrameKind::greeting, {}); },
      [](Stranger& it) { it.say(MessageWriter().add(std::uint32_t{kMaxFrameBytes + 1}).bytes()); }};
  for (std::size_t i = 0; i < sayings.size(); ++i) {
    CAPTURE(i);
    Stranger member(pair.where());
    member.say(member.greeting(rank_greeting(1, 2)));
    sayings[i](member);
    CHECK(member.is_turned_away());
    CHECK(pair.goes_on());
  }
}

TEST_CASE("TcpServer: random changes of a right greeting never disturb the job") {
  std::mt19937 random(11);
  Pair pair;
  for (int round = 0; round < 300; ++round) {
    Stranger stranger(pair.where());
    Bytes frame = stranger.greeting(rank_greeting(1, 2));
    for (unsigned i = 0; i <= random() % 4; ++i) frame[random() % frame.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    stranger.say(frame);
    if (round % 20 == 0) REQUIRE(pair.goes_on());
  }
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: random words of one that knows the token never disturb the job") {
  std::mt19937 random(13);
  Pair pair;
  const auto changed = [&](Bytes body) {
    for (unsigned i = 0; i <= random() % 4; ++i) body[random() % body.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) body.resize(random() % body.size());
    return body;
  };
  const std::vector<std::pair<FrameKind, Bytes>> known{
      {FrameKind::request, StoreRequest{StoreRequest::Op::get, 0, "a key", {}, 0, 0}.packed()},
      {FrameKind::request, StoreRequest{StoreRequest::Op::set, 0, "another key", bytes_of("value"), 1, 0}.packed()},
      {FrameKind::phase, MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{1}).bytes()},
      {FrameKind::answer, bytes_of("it is not for a member to answer")},
      {FrameKind::welcome, bytes_of("nor to welcome")}};
  for (int round = 0; round < 300; ++round) {
    Stranger member(pair.where());
    member.say(member.greeting(rank_greeting(1, 2)));
    const auto& [kind, body] = known[static_cast<std::size_t>(round) % known.size()];
    member.say(kind, changed(body));
    if (round % 20 == 0) REQUIRE(pair.goes_on());
  }
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: a member that asks and never reads costs only itself") {
  Pair pair;
  const std::string big(Store::kMaxValueBytes, 'x');
  pair.store(0).set("big", bytes_of(big));
  Stranger lazy(pair.where());
  lazy.say(lazy.greeting(rank_greeting(1, 2)));
  for (std::uint32_t i = 0; i < 40; ++i)
    lazy.say(FrameKind::request, StoreRequest{StoreRequest::Op::get, i, "big", {}, 0, 0}.packed());
  CHECK(text_of(pair.store(1).get("big")) == big);
  CHECK(pair.goes_on());
}

TEST_CASE("TcpServer: without files to open, strangers make room and members still come in") {
  const Descriptor listener = listen_at(loopback());
  const Endpoint where = local_endpoint(listener);
  int go_on[2];
  REQUIRE(pipe(go_on) == 0);
  ChildProcess child([&]() -> std::string {
    std::vector<Descriptor> listeners;
    listeners.emplace_back(dup(listener.number()));
    TcpStoreServer server(std::move(listeners), settings(1));
    rlimit few{};
    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = open_files() + 8;
    setrlimit(RLIMIT_NOFILE, &few);
    char word = 0;
    if (read(go_on[0], &word, 1) != 1) return "nobody said that it is over";
    return server.attendance().failure() ? server.attendance().failure()->message : "";
  });
  std::vector<Stranger> crowd;
  for (int i = 0; i < 40; ++i) crowd.emplace_back(where);
  const TcpChannel member = welcomed(where, process_greeting(0, 1));
  CHECK(write(go_on[1], "x", 1) == 1);
  CHECK(child.said() == "");
  close(go_on[0]);
  close(go_on[1]);
}

// ---- members that do not fit in -------------------------------------------------------------------------------------

TEST_CASE("TcpServer: a member of another size, number or layout is told why; the job goes on and knows") {
  {
    Pair pair;
    const Failure why = refused(pair.where(), process_greeting(1, 3));
    CHECK(why.exit == ExitCode::environment);
    check_names(why.message, {"process 1 on host1", "told of 3 processes", "process 0 of 2", "BUSBW_SIZE"});
    CHECK(pair.goes_on());
    REQUIRE(pair.server().attendance().first_refusal());
    CHECK(pair.server().attendance().first_refusal()->message == why.message);
    CHECK(refused(pair.where(), process_greeting(1, 4)).message != why.message);
    CHECK(pair.server().attendance().first_refusal()->message == why.message);
    CHECK(pair.server().rejected_connections() == 0);
  }
  Pair pair;
  const Failure layout = refused(pair.where(), process_greeting(1, 2, 8));
  CHECK(layout.exit == ExitCode::usage);
  check_names(layout.message, {"process 1 on host1", "8 ranks", "process 0 has 1", "-t"});
  for (const int number : {-1, 2, 1 << 30})
    check_names(refused(pair.where(), process_greeting(number, 2)).message,
                {"no process " + std::to_string(number), "job of 2", "BUSBW_RANK"});
  ClientInfo twin = process_greeting(1, 2);
  twin.host = "elsewhere";
  check_names(refused(pair.where(), twin).message,
              {"rank 1 (process 1, pid 1001 on host1)", "here already", "elsewhere", "BUSBW_RANK"});
  CHECK(pair.goes_on());
}

// ---- what becomes of members ----------------------------------------------------------------------------------------

TEST_CASE("TcpServer: who has not come is known") {
  Served served(settings(4));
  CHECK(served.server.attendance().missing() == std::vector<int>{0, 1, 2, 3});
  const TcpChannel two = welcomed(served.where, process_greeting(2, 4));
  const TcpChannel zero = welcomed(served.where, process_greeting(0, 4));
  const TcpChannel only_a_rank = welcomed(served.where, rank_greeting(1, 4));
  CHECK(served.server.attendance().missing() == std::vector<int>{1, 3});
  CHECK(served.server.attendance().host_of_process(2) == "host2");
}

TEST_CASE("TcpServer: a process that dies is named with its host and phase, to all others, in every phase") {
  for (const Phase phase : kPhases) {
    CAPTURE(name(phase));
    Served served(settings(3, 2));
    TcpChannel zero = welcomed(served.where, process_greeting(0, 3, 2));
    TcpChannel one = welcomed(served.where, process_greeting(1, 3, 2));
    auto rank = store_of(served.where, rank_greeting(1, 3, 2));
    auto waits = store_of(served.where, rank_greeting(0, 3, 2));
    rank->report_phase(0, phase);
    rank->report_phase(1, phase);
    rank.reset();
    {
      const TcpChannel dies = std::move(one);
    }
    const std::string sentence = failure_sentence(served.server);
    check_names(sentence, {"ranks 2 to 3 (process 1, pid 1001 on host1) was lost in phase " + std::string(name(phase)),
                           "its connection closed", "host1"});
    const auto told = next_frame(zero);
    REQUIRE(told);
    CHECK(told->kind == FrameKind::failure);
    MessageReader reader(told->body);
    CHECK(unpack_failure(reader).message == sentence);
    CHECK_THROWS_AS(waits->get("never set"), JobAborted);
    REQUIRE(waits->failure());
    CHECK(waits->failure()->message == sentence);
    // Who comes only now is told, too.
    TcpChannel late = welcomed(served.where, rank_greeting(2, 3, 2));
    const auto told_late = next_frame(late);
    REQUIRE(told_late);
    CHECK(told_late->kind == FrameKind::failure);
  }
}

TEST_CASE("TcpServer: a process that is silent for too long is lost, one that beats is not") {
  Served served(settings(2, 1, 20));
  TcpChannel beats = welcomed(served.where, process_greeting(0, 2));
  const TcpChannel silent = welcomed(served.where, process_greeting(1, 2));
  const Bytes beat = MessageWriter()
                         .add(static_cast<std::uint8_t>(Phase::timing))
                         .add(std::uint64_t{42})
                         .add(std::uint64_t{7})
                         .add(std::uint64_t{1024})
                         .bytes();
  for (int i = 0; i < 600 && !served.server.attendance().failure(); ++i) {
    beats.send(FrameKind::heartbeat, beat);
    beats.receive(kTickMs);
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
  check_names(failure_sentence(served.server), {"rank 1 (process 1, pid 1001 on host1) was lost in phase rendezvous",
                                                "nothing was heard from it for 2 s"});
  CHECK(served.server.attendance().progress(0).phase == Phase::timing);
  CHECK(served.server.attendance().progress(0).steps == 42);
  CHECK(served.server.attendance().progress(0).operations == 7);
  CHECK(served.server.attendance().progress(0).operation_bytes == 1024);
}

TEST_CASE("TcpServer: a process that leaves is not lost when its connection ends") {
  Served served(settings(2));
  TcpChannel zero = welcomed(served.where, process_greeting(0, 2));
  TcpChannel one = welcomed(served.where, process_greeting(1, 2));
  CHECK_FALSE(served.server.wait_until_all_left(0));
  one.send(FrameKind::leave, {});
  const auto goodbye = next_frame(one);
  REQUIRE(goodbye);
  CHECK(goodbye->kind == FrameKind::leave);
  {
    const TcpChannel ends = std::move(one);
  }
  zero.send(FrameKind::leave, {});
  CHECK(served.server.wait_until_all_left(kPatienceMs / kTickMs));
  CHECK_FALSE(served.server.attendance().failure());
}

TEST_CASE("TcpServer: an abort reaches everyone once, whoever says it; the first reason stands") {
  Served served(settings(2));
  TcpChannel zero = welcomed(served.where, process_greeting(0, 2));
  TcpChannel one = welcomed(served.where, process_greeting(1, 2));
  one.send(FrameKind::abort, packed(Failure{ExitCode::wrong_data, "process 1 gives up"}));
  for (TcpChannel* channel : {&zero, &one}) {
    const auto told = next_frame(*channel);
    REQUIRE(told);
    CHECK(told->kind == FrameKind::failure);
    MessageReader reader(told->body);
    const Failure why = unpack_failure(reader);
    CHECK(why.exit == ExitCode::wrong_data);
    CHECK(why.message == "process 1 gives up");
  }
  served.server.abort({ExitCode::interrupted, "too late"});
  zero.send(FrameKind::leave, {});
  const auto next = next_frame(zero);
  REQUIRE(next);
  CHECK(next->kind == FrameKind::leave);
  CHECK(served.server.attendance().failure()->message == "process 1 gives up");
}

TEST_CASE("TcpServer: it may end at any time, and leaves no files open") {
  const std::size_t before = open_files();
  for (int round = 0; round < 20; ++round) {
    auto served = std::make_unique<Served>(settings(2));
    TcpChannel member = welcomed(served->where, process_greeting(0, 2));
    Stranger stranger(served->where);
    if (round % 2 == 0) served->server.abort({ExitCode::interrupted, "stop"});
    served.reset();
    CHECK(stranger.is_turned_away());
    while (next_frame(member)) {
    }
    CHECK(member.ended());
  }
  CHECK(open_files() == before);
}

TEST_CASE("TcpServer: a job that needs more files than may be opened is refused with the remedy") {
  check_names(sentence_of<EnvironmentError>([] { const Served served(settings(1000, 10000)); }),
              {"open files", "ulimit -n"});
}
