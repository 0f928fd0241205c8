#include "rendezvous/store/tcp_channel.hpp"

#include <doctest/doctest.h>

#include "support_wire.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

struct Pair {
  Pair() : listener(listen_at(loopback())), stranger(local_endpoint(listener)), channel(accepted()) {}
  Descriptor accepted() {
    pollfd waiting{listener.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kPatienceMs) == 1);
    Descriptor socket(accept(listener.number(), nullptr, nullptr));
    set_nonblocking_nodelay(socket);
    return socket;
  }
  Descriptor listener;
  Stranger stranger;
  TcpChannel channel;
};

}  // namespace

TEST_CASE("TcpChannel: frames come whole and in order, however they are cut on the way") {
  Pair pair;
  Bytes frames;
  append_frame(frames, FrameKind::heartbeat, {});
  append_frame(frames, FrameKind::answer, bytes_of("hello"));
  append_frame(frames, FrameKind::leave, bytes_of(std::string(100'000, 'x')));
  std::thread sender([&] {
    for (std::size_t i = 0; i < 30; ++i) pair.stranger.say(std::span(frames).subspan(i, 1));
    pair.stranger.say(std::span(frames).subspan(30));
  });
  auto received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(received->kind == FrameKind::heartbeat);
  CHECK(received->body.empty());
  received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(received->kind == FrameKind::answer);
  CHECK(text_of(received->body) == "hello");
  received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(text_of(received->body) == std::string(100'000, 'x'));
  sender.join();
}

TEST_CASE("TcpChannel: idle says that nothing came, which part of a frame is not") {
  Pair pair;
  CHECK_FALSE(pair.channel.receive(1));
  CHECK(pair.channel.idle());
  pair.stranger.say("\x05");
  while (pair.channel.idle()) CHECK_FALSE(pair.channel.receive(100));
  CHECK_FALSE(pair.channel.ended());
}

TEST_CASE("TcpChannel: a frame too long, or of no length, ends it, whatever else may come") {
  for (const std::uint32_t length : {0U, static_cast<std::uint32_t>(kMaxFrameBytes) + 1, 0xffffffffU}) {
    Pair pair;
    pair.stranger.say(MessageWriter().add(length).bytes());
    CHECK_FALSE(next_frame(pair.channel));
    CHECK(pair.channel.ended());
  }
}

TEST_CASE("TcpChannel: the other side's end is seen, after what it said") {
  Pair pair;
  pair.stranger.say(FrameKind::leave, {});
  pair.stranger.reset();
  while (pair.channel.receive(100)) {
  }
  CHECK_FALSE(next_frame(pair.channel));
  CHECK(pair.channel.ended());
  pair.channel.send(FrameKind::heartbeat, {});  // no signal, no error
}

TEST_CASE("TcpChannel: what is sent faster than it is read is kept and comes") {
  Pair pair;
  const Bytes part(kMaxFrameBytes - 1);
  constexpr int kFrames = 16;
  for (int i = 0; i < kFrames; ++i) pair.channel.send(FrameKind::answer, part);
  std::thread flusher([&] {
    // The other side reads, then closes: only then this ends.
    while (!pair.channel.ended()) pair.channel.receive(100);
  });
  std::size_t heard = 0;
  std::byte some[65536];
  while (heard < kFrames * (part.size() + 1 + kLengthBytes)) {
    pollfd waiting{pair.stranger.socket().number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kPatienceMs) == 1);
    const ssize_t got = recv(pair.stranger.socket().number(), some, sizeof some, 0);
    REQUIRE(got > 0);
    heard += static_cast<std::size_t>(got);
  }
  CHECK(heard == kFrames * (part.size() + 1 + kLengthBytes));
  pair.stranger.reset();
  flusher.join();
}
