// Tries the addresses of a peer in turn, until one leads to the peer.
#include "backends/host/sockets/socket_connector.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/os/ticker.hpp"
#include "rendezvous/channel/handshake.hpp"

namespace busbw {
namespace {

using HandshakeResult = ClientHandshake::HandshakeResult;

/// Limit for the answer to a greeting, longer than the acceptor waits for the greeting. An address may lead to a wrong
/// host, which may stop in the middle of the handshake; then the next address is tried.
constexpr int kAnswerTicks = 10 * kTicksPerS;

std::string_view failure_text(const TcpChannel& channel, const HandshakeResult& result) {
  if (result.kind != HandshakeResult::Kind::not_authenticated) return "it does not belong to this job";
  return channel.ended() ? "it closed the connection; it may belong to another job" : "it gave no valid answer";
}

}  // namespace

ConnectResult connect_to_rank(std::span<const Endpoint> addresses, const std::string& token, int own_rank,
                              const std::function<void()>& on_tick, const std::string& interface) {
  if (addresses.empty()) return {Descriptor(), "no address to try"};
  ClientInfo client;
  client.process = own_rank;
  const auto should_stop = [&] {
    on_tick();
    return false;
  };
  std::vector<std::string> outcomes(addresses.size());
  const std::size_t first_round = addresses.size() == 1 ? 1 : 0;  // kConnectTicks explains the short first round
  for (std::size_t round = first_round; round < kConnectTicks.size(); ++round) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      ConnectResult connected = connect_to(addresses[i], kConnectTicks[round], should_stop,
                                           addresses[i].is_loopback() ? std::string() : interface);
      outcomes[i] = std::move(connected.message);
      if (!connected.socket.is_open()) continue;
      TcpChannel channel(std::move(connected.socket));
      const auto result = exchange_handshake(channel, token, client, kAnswerTicks, on_tick);
      if (result.kind == HandshakeResult::Kind::welcome) return {channel.take_socket(), {}};
      outcomes[i] = fmt::format("{}: connected, but {}", addresses[i].text(), failure_text(channel, result));
    }
    for (int tick = 0; tick < kPauseTicks; ++tick) {
      on_tick();
      sleep_tick();
    }
  }
  return {Descriptor(), fmt::format("{}", fmt::join(outcomes, ", "))};
}

}  // namespace busbw
