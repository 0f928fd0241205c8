#include "backends/host/sockets/socket_addresses.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/support/error.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

Interface interface(const std::string& name, const std::string& address, const std::string& mask) {
  return {name, endpoint_of(address, 0), endpoint_of(mask, 0)};
}

std::vector<std::string> hosts(const std::vector<Endpoint>& all) {
  std::vector<std::string> texts;
  for (const Endpoint& endpoint : all) texts.push_back(endpoint.host());
  return texts;
}

using Texts = std::vector<std::string>;

const Interface kLoopback = interface("lo", "127.0.0.1", "255.0.0.0");
const Interface kLoopback6 = interface("lo", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
const Interface kEthernet = interface("eth0", "192.0.2.2", "255.255.255.0");

}  // namespace

TEST_CASE("candidate_addresses: loopback first on the same host") {
  const std::vector<Interface> theirs{kEthernet, kLoopback, kLoopback6};
  CHECK(hosts(candidate_addresses(theirs, theirs, true)) == Texts{"127.0.0.1", "::1", "192.0.2.2"});
}

TEST_CASE("candidate_addresses: on another host the local subnets first, never loopback or own addresses") {
  const std::vector<Interface> ours{interface("docker0", "172.17.0.1", "255.255.0.0"),
                                    interface("eth0", "10.0.1.1", "255.255.255.0"),
                                    interface("eth1", "10.0.32.1", "255.255.240.0"),
                                    interface("eth1", "2001:db8:0:4::1", "ffff:ffff:ffff:fffc::"), kLoopback};
  const std::vector<Interface> theirs{interface("docker0", "172.17.0.1", "255.255.0.0"),
                                      interface("eth3", "203.0.113.9", "255.255.255.0"),
                                      interface("eth2", "10.0.48.2", "255.255.240.0"),
                                      interface("eth1", "10.0.47.2", "255.255.240.0"),
                                      interface("eth0", "2001:db8:0:8::2", "ffff:ffff:ffff:fffc::"),
                                      interface("eth1", "2001:db8:0:7::2", "ffff:ffff:ffff:fffc::"),
                                      interface("eth0", "10.0.1.2", "255.255.255.0"),
                                      kLoopback,
                                      kLoopback6};
  CHECK(hosts(candidate_addresses(theirs, ours, false)) ==
        Texts{"10.0.47.2", "2001:db8:0:7::2", "10.0.1.2", "203.0.113.9", "10.0.48.2", "2001:db8:0:8::2"});
  CHECK(candidate_addresses(std::vector{kLoopback}, ours, false).empty());
}

TEST_CASE("candidate_addresses: a network that did not answer for one peer comes last for the others") {
  const auto peer = [](const std::string& last) {
    return std::vector{interface("eth0", "192.0.2." + last, "255.255.255.0"),
                       interface("ib0", "10.0.0." + last, "255.255.0.0"),
                       interface("eth1", "203.0.113." + last, "255.255.255.0")};
  };
  const auto ours = peer("1");
  const auto first = candidate_addresses(peer("2"), ours, false);
  CHECK(hosts(first) == Texts{"192.0.2.2", "10.0.0.2", "203.0.113.2"});
  const auto unreachable = unreachable_interfaces(peer("2"), first, endpoint_of("::ffff:10.0.0.2", 4711));
  REQUIRE(unreachable.size() == 1);
  CHECK(unreachable.front().name == "eth0");
  CHECK(hosts(candidate_addresses(peer("3"), ours, false, unreachable)) ==
        Texts{"10.0.0.3", "203.0.113.3", "192.0.2.3"});
  CHECK(unreachable_interfaces(peer("2"), first, first.front()).empty());
}

TEST_CASE("select_interfaces: by prefix of the name; no match is an error that lists all") {
  const std::vector<Interface> all{interface("ib0", "10.0.0.1", "255.0.0.0"), interface("ib1", "10.0.0.2", "255.0.0.0"),
                                   kEthernet, kLoopback};
  const auto names = [&](std::string_view prefixes) {
    Texts chosen;
    for (const Interface& one : select_interfaces(all, prefixes, "VARIABLE")) chosen.push_back(one.name);
    return chosen;
  };
  CHECK(names("") == Texts{"ib0", "ib1", "eth0", "lo"});
  CHECK(names("ib") == Texts{"ib0", "ib1"});
  CHECK(names("lo,ib1") == Texts{"ib1", "lo"});
  CHECK(names(",nothing,eth0,") == Texts{"eth0"});
  const auto sentence = sentence_of<UsageError>([&] { names("eth1,,"); });
  check_names(sentence, {"VARIABLE=eth1,,", "ib0, ib1, eth0, lo"});
  CHECK_THROWS_AS(names(","), UsageError);
}

TEST_CASE("loopback_namespace_id: stable, and contains the network namespace") {
  CHECK(loopback_namespace_id() == loopback_namespace_id());
  CHECK(loopback_namespace_id().find("net:[") != std::string::npos);
}

TEST_CASE("local_interface: found by the address, also of an IPv4 connection to a socket for both families") {
  const Descriptor listener = listen_everywhere(0);
  const auto called = connect_to(endpoint_of("127.0.0.1", local_endpoint(listener).port()), 50, [] { return false; });
  REQUIRE(called.socket.is_open());
  const Descriptor accepted(accept(listener.number(), nullptr, nullptr));
  const std::vector<Interface> ours{kEthernet, kLoopback};
  for (const Descriptor* end : {&called.socket, &accepted}) {
    REQUIRE(local_interface(*end, ours).has_value());
    CHECK(local_interface(*end, ours)->name == "lo");
    CHECK_FALSE(local_interface(*end, std::vector{kEthernet}).has_value());
  }
}
