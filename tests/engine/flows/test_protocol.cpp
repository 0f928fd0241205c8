// Requests and answers of the protocol between a search and the program that measures for it.
#include "flows/protocol.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support_errors.hpp"

using namespace busbw;
using nlohmann::json;

TEST_CASE("flows protocol: a measurement with its flows; unknown fields are ignored") {
  const Request request =
      parse_request(R"({"ask":"measure","id":-7,"size_bytes":67108864,"iterations":10,"later":1,)"
                    R"("flows":[{"from":{"node":"n0","gpu":3,"x":0},"to":{"node":"n1","gpu":0}}]})");
  const auto& measure = std::get<MeasureRequest>(request);
  CHECK(measure.id == -7);
  CHECK(measure.size_bytes == 67'108'864);
  CHECK(measure.iterations == 10);
  REQUIRE(measure.flows.size() == 1);
  CHECK(measure.flows[0].first.node == "n0");
  CHECK(measure.flows[0].first.gpu == 3);
  CHECK(measure.flows[0].second.node == "n1");
  CHECK(measure.flows[0].second.gpu == 0);
}

TEST_CASE("flows protocol: the other requests") {
  CHECK(std::holds_alternative<ClusterRequest>(parse_request(R"({"ask":"cluster","protocol":1})")));
  CHECK(std::holds_alternative<ClusterRequest>(parse_request(R"({"ask":"cluster"})")));
  CHECK(std::holds_alternative<EndRequest>(parse_request(R"({"ask":"end"})")));
}

TEST_CASE("flows protocol: the error for an invalid request names the field and the remedy") {
  struct Invalid {
    const char* line;
    std::vector<std::string_view> named;
  };
  const std::vector<Invalid> all{
      {"", {"not a JSON object"}},
      {"\xff\xfe", {"not a JSON object"}},
      {"[1]", {"[1]", "not a JSON object"}},
      {R"({"ask":"measure")", {"not a JSON object"}},
      {"{}", {"\"ask\""}},
      {R"({"ask":3})", {"\"ask\"", "text"}},
      {R"({"ask":"dance"})", {"dance", "cluster, measure or end"}},
      {R"({"ask":"cluster","protocol":2})", {"protocol 2", "protocol 1", "install the same busbw"}},
      {R"({"ask":"measure","size_bytes":1,"iterations":1,"flows":[]})", {"\"id\""}},
      {R"({"ask":"measure","id":1.5,"size_bytes":1,"iterations":1,"flows":[]})", {"\"id\"", "1.5"}},
      {R"({"ask":"measure","id":1,"size_bytes":0,"iterations":1,"flows":[]})", {"\"size_bytes\"", "0", "from 1"}},
      {R"({"ask":"measure","id":1,"size_bytes":18446744073709551615,"iterations":1,"flows":[]})", {"\"size_bytes\""}},
      {R"({"ask":"measure","id":1,"size_bytes":1,"iterations":1e9,"flows":[]})", {"\"iterations\""}},
      {R"({"ask":"measure","id":1,"size_bytes":1,"iterations":1,"flows":{}})", {"\"flows\"", "array"}},
      {R"({"ask":"measure","id":1,"size_bytes":1,"iterations":1,"flows":[4]})", {"\"from\""}},
      {R"({"ask":"measure","id":1,"size_bytes":1,"iterations":1,"flows":[{"from":{"node":"a","gpu":-1}}]})",
       {"\"gpu\"", "-1"}}};
  for (const auto& [line, named] : all) {
    const std::string message = sentence_of<UsageError>([&] { parse_request(line); });
    CAPTURE(line);
    for (const std::string_view part : named) CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  }
}

TEST_CASE("flows protocol: answers are one line of JSON each, times in microseconds") {
  const std::string line = measure_answer(7, {{{0.001, 0.0025}, {}}, {{}, "timed out"}}, {}, 0.21);
  CHECK(line.ends_with("}\n"));
  CHECK(json::parse(line) ==
        json::parse(R"({"id":7,"flows":[{"times_us":[1000.0,2500.0]},{"error":"timed out"}],"took_s":0.21})"));
  CHECK(json::parse(error_answer("a \"b\"\n")) == json{{"error", "a \"b\"\n"}});
}

TEST_CASE("flows protocol: lost ranks are GPUs of their nodes") {
  const FlowCluster cluster({{"b", "1"}, {"a", "2"}, {"b", "1"}});
  const auto lost = json::parse(R"([{"node":"b","gpu":1,"error":"killed"},{"node":"a","gpu":0,"error":"silent"}])");
  const auto gpus = cluster.lost_gpus({{1, {"a", "silent"}}, {2, {"b", "killed"}}});
  CHECK(json::parse(measure_answer(1, {}, gpus, 0.5))["lost"] == lost);
  CHECK(json::parse(cluster_answer(cluster, gpus, {}))["lost"] == lost);
  CHECK(json::parse(error_answer("the job ended", gpus)) == json{{"error", "the job ended"}, {"lost", lost}});
}

TEST_CASE("flows cluster: nodes in the order of their first rank, GPUs in rank order") {
  const FlowCluster cluster({{"b", "1"}, {"a", "2"}, {"b", "1"}, {"a", "2"}, {"b", "1"}});
  CHECK(json::parse(cluster_answer(cluster, {}, {{"NAME", "value"}})) ==
        json::parse(R"({"protocol":1,"nodes":[{"name":"b","gpus":3},{"name":"a","gpus":2}],)"
                    R"("environment":{"NAME":"value"}})"));
  const std::vector<Flow> flows = cluster.flows_between({{{"a", 1}, {"b", 2}}, {{"b", 2}, {"a", 1}}});
  REQUIRE(flows.size() == 2);
  CHECK(flows[0].sender == 3);
  CHECK(flows[0].receiver == 4);
  CHECK(flows[1].sender == 4);
  CHECK(flows[1].receiver == 3);
}

TEST_CASE("flows cluster: a lost rank belongs to the node of its host") {
  const FlowCluster cluster({{"a", "1"}, {"b", ""}, {"a", ""}, {"a", "1"}});
  CHECK(json::parse(cluster_answer(cluster, {}, {}))["nodes"] ==
        json::parse(R"([{"name":"a","gpus":3},{"name":"b","gpus":1}])"));
}

TEST_CASE("flows cluster: types of unlike GPUs, and NUMA nodes if all are known") {
  const FlowCluster cluster({{"a", "1", NetworkPort{"x", 0, 1, 0}, "H100"},
                             {"b", "2", NetworkPort{"x", 0, std::nullopt, std::nullopt}, "A100"},
                             {"b", ""}});
  CHECK(json::parse(cluster_answer(cluster, {}, {}))["nodes"] ==
        json::parse(R"([{"name":"a","gpus":1,"nics":[{"name":"x","rail":0,"gpus":[0],"numa":1}],)"
                    R"("gpu_types":["H100"],"gpu_numa":[0]},)"
                    R"({"name":"b","gpus":2,"nics":[{"name":"x","rail":0,"gpus":[0]}],"gpu_types":["A100",""]}])"));
  const FlowCluster alike({{"a", "1", {}, "H100"}, {"b", "2", {}, "H100"}, {"b", ""}});
  CHECK_FALSE(json::parse(cluster_answer(alike, {}, {}))["nodes"][0].contains("gpu_types"));
}

TEST_CASE("flows cluster: NICs with their GPUs, in the order of their position; none within one node") {
  const auto rank_of = [](const char* host, const char* nic, int position) {
    return RankLocation{host, host, NetworkPort{nic, position}};
  };
  const FlowCluster cluster({rank_of("a", "eth1", 5), rank_of("a", "eth0", 2), rank_of("a", "eth1", 5),
                             rank_of("b", "eth0", 0), RankLocation{"c", "c"}});
  CHECK(json::parse(cluster_answer(cluster, {}, {}))["nodes"] ==
        json::parse(R"([{"name":"a","gpus":3,"nics":[{"name":"eth0","rail":0,"gpus":[1]},)"
                    R"({"name":"eth1","rail":1,"gpus":[0,2]}]},)"
                    R"({"name":"b","gpus":1,"nics":[{"name":"eth0","rail":0,"gpus":[0]}]},{"name":"c","gpus":1}])"));
  const FlowCluster one_node({rank_of("a", "eth0", 0), rank_of("a", "eth0", 0)});
  CHECK(json::parse(cluster_answer(one_node, {}, {}))["nodes"] == json::parse(R"([{"name":"a","gpus":2}])"));
}

TEST_CASE("flows cluster: two machines of one name, and flows that cannot be") {
  check_names(sentence_of<EnvironmentError>([] { FlowCluster({{"n", "1"}, {"n", "2"}}); }),
              {"two hosts have the name n", "own name"});
  const FlowCluster cluster({{"a", "1"}, {"a", "1"}});
  const auto error = [&](const std::vector<std::pair<FlowEnd, FlowEnd>>& ends) {
    return sentence_of<UsageError>([&] { cluster.flows_between(ends); });
  };
  check_names(error({{{"z", 0}, {"a", 0}}}), {"node z is unknown"});
  check_names(error({{{"a", 0}, {"a", 2}}}), {"node a has no GPU 2", "0 to 1"});
  check_names(error({{{"a", 1}, {"a", 1}}}), {"GPU 1 of node a sends to itself"});
  check_names(error({{{"a", 0}, {"a", 1}}, {{"a", 0}, {"a", 1}}}), {"sends twice"});
}
