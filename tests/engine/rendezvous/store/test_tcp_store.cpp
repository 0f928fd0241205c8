#include "rendezvous/store/tcp_store.hpp"

#include <doctest/doctest.h>

#include <random>

#include "support_errors.hpp"
#include "support_stores.hpp"

using namespace busbw;
using namespace busbw::test;

// Tests for all kinds of stores are in test_store.cpp.

namespace {

/// A TcpStore with a test as its server.
class ManualStore {
 public:
  explicit ManualStore(double limit_s) : listener_(listen_at(loopback())) {
    Descriptor client = connected_to(local_endpoint(listener_));
    pollfd waiting{listener_.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kTimeoutMs) == 1);
    Descriptor accepted(accept(listener_.number(), nullptr, nullptr));
    set_nonblocking_nodelay(accepted);
    server_ = std::make_unique<TcpChannel>(std::move(accepted));
    const StoreCallbacks callbacks{[] { return false; }, [this](const Failure& reported) { failure = reported; },
                                   [this](const std::string&) { ++losses; }};
    store = std::make_unique<TcpStore>(TcpChannel(std::move(client)), callbacks, limit_s);
  }

  StoreRequest next_request() {
    const auto received = next_frame(*server_);
    REQUIRE(received);
    REQUIRE(received->kind == FrameKind::request);
    return MessageReader(received->body).take<StoreRequest>();
  }
  void answer(std::uint32_t number, std::string_view value) {
    server_->send(FrameKind::reply, MessageWriter()
                                        .add(number)
                                        .add(StoreReply::Kind::done)
                                        .add(std::span<const std::byte>(bytes_of(value)))
                                        .bytes());
  }
  TcpChannel& server() { return *server_; }
  void close() { server_.reset(); }

  std::unique_ptr<TcpStore> store;
  std::optional<Failure> failure;
  int losses = 0;

 private:
  Descriptor listener_;
  std::unique_ptr<TcpChannel> server_;
};

}  // namespace

TEST_CASE("TcpStore: ignores a late reply to a request that timed out") {
  ManualStore manual(0.1);
  CHECK_THROWS_AS(manual.store->get("slow"), Error);
  const std::uint32_t slow = manual.next_request().number;
  manual.next_request();  // the request for missing members
  manual.store->set_limit_s(kSafetyLimitS);
  std::thread other([&] {
    const std::uint32_t quick = manual.next_request().number;
    manual.answer(slow, "too late");
    manual.answer(quick, "in time");
  });
  CHECK(text_of(manual.store->get("quick")) == "in time");
  other.join();
}

TEST_CASE("TcpStore: the limit does not count while parts of a long value arrive") {
  ManualStore manual(1);
  const std::string value(StoreState::kMaxValueBytes, 'x');
  std::thread other([&] {
    const std::uint32_t number = manual.next_request().number;
    manual.answer(number, value);
    while (manual.server().receive(10)) {
    }
    for (int i = 0; i < 100; ++i) manual.server().receive(1);  // sends the rest as the socket buffer allows
  });
  CHECK(text_of(manual.store->get("long")) == value);
  other.join();
}

TEST_CASE("TcpStore: a closed connection ends a wait after on_lost_store") {
  ManualStore manual(kSafetyLimitS);
  manual.close();
  CHECK_THROWS_AS(manual.store->get("k"), JobAborted);
  CHECK(manual.losses == 1);
}

TEST_CASE("TcpStore: receives frames sent before the store closed the connection") {
  ManualStore manual(kSafetyLimitS);
  manual.server().send(FrameKind::failure, packed(Failure{ExitCode::rank_lost, "rank 5 is gone"}));
  manual.close();
  CHECK_THROWS_AS(manual.store->get("k"), JobAborted);
  CHECK(manual.losses == 0);
  REQUIRE(manual.failure);
  CHECK(manual.failure->message == "rank 5 is gone");
}

TEST_CASE("TcpStore: an invalid frame counts as a lost store") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    ManualStore manual(kSafetyLimitS);
    Bytes body(random() % 40);
    for (std::byte& one : body) one = static_cast<std::byte>(random());
    manual.server().send(static_cast<FrameKind>(random() % 12), body);
    manual.close();
    CHECK_THROWS_AS(manual.store->get("k"), JobAborted);
  }
}

TEST_CASE("TcpStore: sends phases") {
  ManualStore manual(kSafetyLimitS);
  manual.store->report_phase(3, Phase::check);
  const auto received = next_frame(manual.server());
  REQUIRE(received);
  CHECK(received->kind == FrameKind::phase);
  MessageReader phase(received->body);
  CHECK(phase.take<std::uint32_t>() == 3);
  CHECK(phase.take<std::uint8_t>() == static_cast<std::uint8_t>(Phase::check));
}
