#include "rendezvous/store/tcp_store.hpp"

#include <doctest/doctest.h>

#include <random>

#include "support_errors.hpp"
#include "support_stores.hpp"

using namespace busbw;
using namespace busbw::test;

// What holds for every store is in test_store.cpp.

namespace {

/// A store made by hand: the test is the other side.
class ByHand {
 public:
  explicit ByHand(double limit_s) : listener_(listen_at(loopback())) {
    Descriptor client = connected_to(local_endpoint(listener_));
    pollfd waiting{listener_.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kPatienceMs) == 1);
    Descriptor accepted(accept(listener_.number(), nullptr, nullptr));
    set_nonblocking_nodelay(accepted);
    server_ = std::make_unique<TcpChannel>(std::move(accepted));
    const StoreCallbacks job{[] { return false; }, [this](const Failure& why) { told = why; },
                       [this](const std::string&) { ++losses; }};
    store = std::make_unique<TcpStore>(TcpChannel(std::move(client)), job, limit_s);
  }

  StoreRequest next_request() {
    const auto received = next_frame(*server_);
    REQUIRE(received);
    REQUIRE(received->kind == FrameKind::request);
    return StoreRequest::unpack(received->body);
  }
  void answer(std::uint32_t number, std::string_view value) {
    server_->send(FrameKind::answer, MessageWriter()
                                     .add(number)
                                     .add(StoreReply::Kind::done)
                                     .add(std::span<const std::byte>(bytes_of(value)))
                                     .bytes());
  }
  TcpChannel& server() { return *server_; }
  void close() { server_.reset(); }

  std::unique_ptr<TcpStore> store;
  std::optional<Failure> told;
  int losses = 0;

 private:
  Descriptor listener_;
  std::unique_ptr<TcpChannel> server_;
};

constexpr double kPatient = 60;

}  // namespace

TEST_CASE("TcpStore: what comes late for a request that was given up is no answer to the next one") {
  ByHand hand(0.1);
  CHECK_THROWS_AS(hand.store->get("slow"), Error);
  const std::uint32_t slow = hand.next_request().number;
  hand.next_request();  // who is missing
  hand.store->limit(kPatient);
  std::thread other([&] {
    const std::uint32_t quick = hand.next_request().number;
    hand.answer(slow, "too late");
    hand.answer(quick, "in time");
  });
  CHECK(text_of(hand.store->get("quick")) == "in time");
  other.join();
}

TEST_CASE("TcpStore: a long value that comes in many parts is not waited for longer than it takes") {
  ByHand hand(1);
  const std::string value(Store::kMaxValueBytes, 'x');
  std::thread other([&] {
    const std::uint32_t number = hand.next_request().number;
    hand.answer(number, value);
    while (hand.server().receive(10)) {
    }
    for (int i = 0; i < 100; ++i) hand.server().receive(1);  // sends the rest as there is room
  });
  CHECK(text_of(hand.store->get("long")) == value);
  other.join();
}

TEST_CASE("TcpStore: the end of the connection ends a wait, once the job knows") {
  ByHand hand(kPatient);
  hand.close();
  CHECK_THROWS_AS(hand.store->get("k"), JobAborted);
  CHECK(hand.losses == 1);
}

TEST_CASE("TcpStore: what the store said before it closed is heard") {
  ByHand hand(kPatient);
  hand.server().send(FrameKind::failure, packed(Failure{ExitCode::rank_lost, "rank 5 is gone"}));
  hand.close();
  CHECK_THROWS_AS(hand.store->get("k"), JobAborted);
  CHECK(hand.losses == 0);
  REQUIRE(hand.told);
  CHECK(hand.told->message == "rank 5 is gone");
}

TEST_CASE("TcpStore: a server that talks nonsense is a server lost") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    ByHand hand(kPatient);
    Bytes body(random() % 40);
    for (std::byte& one : body) one = static_cast<std::byte>(random());
    hand.server().send(static_cast<FrameKind>(random() % 12), body);
    hand.close();
    CHECK_THROWS_AS(hand.store->get("k"), JobAborted);
  }
}

TEST_CASE("TcpStore: an abort and a phase are told") {
  ByHand hand(kPatient);
  hand.store->abort({ExitCode::interrupted, "stop"});
  hand.store->report_phase(3, Phase::check);
  auto received = next_frame(hand.server());
  REQUIRE(received);
  CHECK(received->kind == FrameKind::abort);
  MessageReader abort(received->body);
  CHECK(unpack_failure(abort).message == "stop");
  received = next_frame(hand.server());
  REQUIRE(received);
  CHECK(received->kind == FrameKind::phase);
  MessageReader phase(received->body);
  CHECK(phase.take<std::uint32_t>() == 3);
  CHECK(phase.take<std::uint8_t>() == static_cast<std::uint8_t>(Phase::check));
}
