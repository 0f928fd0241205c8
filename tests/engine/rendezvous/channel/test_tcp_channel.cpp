#include "rendezvous/channel/tcp_channel.hpp"

#include <doctest/doctest.h>

#include "support_wire.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

struct ConnectedPair {
  ConnectedPair() : listener(listen_at(loopback())), client(local_endpoint(listener)), channel(accepted()) {}
  Descriptor accepted() {
    pollfd waiting{listener.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kTimeoutMs) == 1);
    Descriptor socket(accept(listener.number(), nullptr, nullptr));
    set_nonblocking_nodelay(socket);
    return socket;
  }
  Descriptor listener;
  RawClient client;
  TcpChannel channel;
};

}  // namespace

TEST_CASE("TcpChannel: frames arrive whole and in order, however they are split") {
  ConnectedPair pair;
  Bytes frames;
  append_frame(frames, FrameKind::heartbeat, {});
  append_frame(frames, FrameKind::reply, bytes_of("hello"));
  append_frame(frames, FrameKind::leave, bytes_of(std::string(100'000, 'x')));
  std::thread sender([&] {
    for (std::size_t i = 0; i < 30; ++i) pair.client.send(std::span(frames).subspan(i, 1));
    pair.client.send(std::span(frames).subspan(30));
  });
  auto received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(received->kind == FrameKind::heartbeat);
  CHECK(received->body.empty());
  received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(received->kind == FrameKind::reply);
  CHECK(text_of(received->body) == "hello");
  received = next_frame(pair.channel);
  REQUIRE(received);
  CHECK(text_of(received->body) == std::string(100'000, 'x'));
  sender.join();
}

TEST_CASE("TcpChannel: idle only if no byte arrived") {
  ConnectedPair pair;
  CHECK_FALSE(pair.channel.receive(1));
  CHECK(pair.channel.idle());
  pair.client.send("\x05");
  while (pair.channel.idle()) CHECK_FALSE(pair.channel.receive(100));
  CHECK_FALSE(pair.channel.ended());
}

TEST_CASE("TcpChannel: an empty or too long frame ends the channel") {
  for (const std::uint32_t length : {0U, static_cast<std::uint32_t>(kMaxFrameBytes) + 1, 0xffffffffU}) {
    ConnectedPair pair;
    pair.client.send(MessageWriter().add(length).bytes());
    CHECK_FALSE(next_frame(pair.channel));
    CHECK(pair.channel.ended());
  }
}

TEST_CASE("TcpChannel: detects the end of the connection after the last frame") {
  ConnectedPair pair;
  pair.client.send(FrameKind::leave, {});
  pair.client.reset();
  while (pair.channel.receive(100)) {
  }
  CHECK_FALSE(next_frame(pair.channel));
  CHECK(pair.channel.ended());
  pair.channel.send(FrameKind::heartbeat, {});  // no signal, no error
}

TEST_CASE("TcpChannel: buffers frames for a slow reader") {
  ConnectedPair pair;
  const Bytes part(kMaxFrameBytes - 1);
  constexpr int kFrames = 16;
  for (int i = 0; i < kFrames; ++i) pair.channel.send(FrameKind::reply, part);
  std::thread flusher([&] {
    // Ends when the other side has read everything and closed the connection.
    while (!pair.channel.ended()) pair.channel.receive(100);
  });
  std::size_t heard = 0;
  std::byte some[65536];
  while (heard < kFrames * (part.size() + 1 + kLengthBytes)) {
    pollfd waiting{pair.client.socket().number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kTimeoutMs) == 1);
    const ssize_t got = recv(pair.client.socket().number(), some, sizeof some, 0);
    REQUIRE(got > 0);
    heard += static_cast<std::size_t>(got);
  }
  CHECK(heard == kFrames * (part.size() + 1 + kLengthBytes));
  pair.client.reset();
  flusher.join();
}
