#pragma once
// Makes one connection from this rank to a higher rank.
#include <array>
#include <functional>
#include <span>
#include <string>

#include "common/os/network.hpp"

namespace busbw {

/// Limit of a connection attempt, by round, in ticks of 0.1 s. The short first round skips unreachable addresses
/// quickly. It is left out if there is only one address.
inline constexpr std::array kConnectTicks{3, 20, 50, 50};
inline constexpr int kPauseTicks = 5;  // after a round

/// Tries the addresses of a SocketAcceptor in turn until one proves that it has `token`. Calls `on_tick` ten times a
/// second; an exception of it ends the wait. If every address has failed in every round, the message lists the
/// outcomes: "192.0.2.3:4711: no answer in 5 s, 10.0.0.3:4711: Connection refused". Connections that are not to
/// loopback use `interface` only; empty: any.
ConnectResult connect_to_rank(std::span<const Endpoint> addresses, const std::string& token, int own_rank,
                              const std::function<void()>& on_tick, const std::string& interface = {});

}  // namespace busbw
