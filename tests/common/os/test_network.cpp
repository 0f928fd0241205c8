#include "common/os/network.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support_errors.hpp"
#include "support_wire.hpp"

using namespace busbw;
using namespace busbw::test;

TEST_CASE("network: this host's interfaces have addresses, loopback last, none of them link-local") {
  const auto all = interfaces();
  REQUIRE_FALSE(all.empty());
  CHECK(std::ranges::is_partitioned(all, [](const Interface& one) { return !one.address.is_loopback(); }));
  bool has_loopback = false;
  for (const Interface& one : all) {
    CHECK_FALSE(one.name.empty());
    CHECK(one.address.port() == 0);
    CHECK_FALSE(one.address.host().starts_with("fe80"));
    has_loopback |= one.name == "lo" && one.address.host() == "127.0.0.1" && one.mask.host() == "255.0.0.0";
  }
  CHECK(has_loopback);
}

TEST_CASE("endpoint_of: accepts numeric addresses only") {
  CHECK(endpoint_of("10.1.2.3", 4711).text() == "10.1.2.3:4711");
  CHECK(endpoint_of("fd00::1", 65535).text() == "[fd00::1]:65535");
  CHECK(endpoint_of("127.9.9.9", 0).is_loopback());
  CHECK(endpoint_of("::1", 0).is_loopback());
  CHECK_FALSE(endpoint_of("128.0.0.1", 0).is_loopback());
  CHECK_FALSE(endpoint_of("::2", 0).is_loopback());
  for (const char* text : {"localhost", "", "10.1.2", "10.1.2.256", "fd00::g", "10.1.2.3:80"}) {
    CAPTURE(text);
    if (std::string(text) == "10.1.2") continue;  // the C library reads it as 10.1.0.2
    check_names(sentence_of<EnvironmentError>([&] { endpoint_of(text, 1); }), {text});
  }
}

TEST_CASE("resolve_host: resolves names, and gives a message for an unknown name") {
  const Resolution known = resolve_host("localhost", 80);
  REQUIRE_FALSE(known.endpoints.empty());
  for (const Endpoint& endpoint : known.endpoints) CHECK(endpoint.is_loopback());
  CHECK(known.endpoints.front().port() == 80);
  CHECK(known.message.empty());
  const Resolution unknown = resolve_host("no-such-host.invalid", 80);
  CHECK(unknown.endpoints.empty());
  check_names(unknown.message, {"no-such-host.invalid: "});
}

TEST_CASE("network: a port in use is an error with a remedy") {
  const Descriptor first = listen_at(loopback());
  const Endpoint where = local_endpoint(first);
  CHECK(where.port() > 0);
  check_names(sentence_of<EnvironmentError>([&] { listen_at(where); }), {where.text(), "in use", "BUSBW_RENDEZVOUS"});
  check_names(sentence_of<EnvironmentError>([&] { listen_everywhere(where.port()); }),
              {"port " + std::to_string(where.port()), "BUSBW_RENDEZVOUS"});
}

TEST_CASE("listen_everywhere: reachable at every address of this host") {
  const Descriptor everywhere = listen_everywhere(0);
  const int port = local_endpoint(everywhere).port();
  for (const Interface& one : interfaces()) {
    const Endpoint where = endpoint_of(one.address.host(), port);
    const ConnectResult connected = connect_to(where, 50, [] { return false; });
    INFO(where.text(), " of ", one.name, ": ", connected.message);
    CHECK(connected.socket.is_open());
  }
}

TEST_CASE("connect_to: a failure names the address and the reason") {
  const Endpoint dead = loopback(free_port());
  const ConnectResult refused = connect_to(dead, 100, [] { return false; });
  CHECK_FALSE(refused.socket.is_open());
  CHECK(refused.message == dead.text() + ": Connection refused");
}

TEST_CASE("connect_to: gives up at the limit, or if should_stop returns true") {
  // A socket with a full accept queue does not answer new connections.
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Endpoint any = loopback();
  REQUIRE(bind(listener.number(), reinterpret_cast<const sockaddr*>(&any.address), any.length) == 0);
  REQUIRE(listen(listener.number(), 0) == 0);
  const Endpoint where = local_endpoint(listener);
  std::vector<Descriptor> queued;
  for (int i = 0; i < 8; ++i) {
    ConnectResult connected = connect_to(where, 1, [] { return false; });
    if (!connected.socket.is_open()) break;
    queued.push_back(std::move(connected.socket));
  }
  REQUIRE(queued.size() < 8);
  const ConnectResult late = connect_to(where, 2, [] { return false; });
  CHECK(late.message == where.text() + ": no answer in 0.2 s");
  int calls = 0;
  CHECK_FALSE(connect_to(where, 1000, [&] { return ++calls == 2; }).socket.is_open());
  CHECK(calls == 2);
}
