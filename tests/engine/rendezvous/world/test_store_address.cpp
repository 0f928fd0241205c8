#include "rendezvous/world/store_address.hpp"

#include <string>

#include "support_errors.hpp"

using namespace busbw;

namespace {

StoreAddress tcp(const char* host, int port) { return TcpStoreAddress{{host}, port}; }

}  // namespace

TEST_CASE("store address: host name or address with a port, or a folder") {
  CHECK(parse_store_address("tcp://n1:23456") == tcp("n1", 23456));
  CHECK(parse_store_address("tcp://job-0.service_a.ns.svc.cluster.local:1") ==
        tcp("job-0.service_a.ns.svc.cluster.local", 1));
  CHECK(parse_store_address("tcp://10.0.0.1:65535") == tcp("10.0.0.1", 65535));
  CHECK(parse_store_address("tcp://[fd00::1]:80") == tcp("fd00::1", 80));
  CHECK(parse_store_address("tcp://[::1]:80") == tcp("::1", 80));
  CHECK(parse_store_address("file:///shared/my folder") == StoreAddress(FileStoreAddress{"/shared/my folder"}));
}

TEST_CASE("store address: an invalid value is an error with variable, value and allowed forms") {
  for (const char* text : {"", "n1:23456", "http://n1:1", "tcp:/n1:1", "TCP://n1:1", "tcp://n1", "tcp://fd00::1:80",
                           "tcp://[n1]:80", "tcp://[fd00::1]", "tcp://[fd00::1]80", "tcp://fd00::1]:80",
                           "file://host/folder", "file:folder", "file://", "/shared"}) {
    CAPTURE(text);
    check_names(sentence_of<UsageError>([&] { parse_store_address(text); }),
                {std::string("BUSBW_RENDEZVOUS=") + text, "tcp://HOST:PORT", "file:///FOLDER"});
  }
  for (const char* port : {"", "0", "65536", "99999", "-1", "+1", "8x", " 8", "0x50", "99999999999999999999"}) {
    CAPTURE(port);
    check_names(sentence_of<UsageError>([&] { parse_store_address(std::string("tcp://n1:") + port); }),
                {"BUSBW_RENDEZVOUS=tcp://n1:", "is not a port", "1 to 65535"});
  }
  for (const char* host : {"", "a b", "user@n1", "n1/x", "n\n1", "[fe80::1%eth0]", "[:::]", "[::g]", "[]"}) {
    CAPTURE(host);
    check_names(sentence_of<UsageError>([&] { parse_store_address(std::string("tcp://") + host + ":80"); }),
                {"BUSBW_RENDEZVOUS=tcp://", "allowed is"});
  }
}

TEST_CASE("store address: require_host") {
  CHECK(require_host("n1.example.org", "MASTER_ADDR") == "n1.example.org");
  CHECK(require_host("fd00::1", "MASTER_ADDR") == "fd00::1");
  for (const char* host : {"", "n 1", "-x y", "fd00::1%eth0", "n1:80"})
    check_names(sentence_of<UsageError>([&] { require_host(host, "MASTER_ADDR"); }), {"MASTER_ADDR", "is not a host"});
  CHECK_THROWS_AS(require_host(std::string(256, 'n'), "MASTER_ADDR"), UsageError);
}
