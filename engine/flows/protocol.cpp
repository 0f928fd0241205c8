// Parses requests and writes answers. In the engine, only this file knows the names of the fields.
#include "flows/protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "output/json_builder.hpp"

namespace busbw {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr std::int64_t kMaxIterations = 100'000;  // the samples of a round are kept in memory
constexpr std::size_t kMaxQuotedBytes = 60;       // of an invalid request in an error

/// Returns the value of a field that a request must have.
const json& require_member(const json& object, const char* name) {
  const auto entry = object.is_object() ? object.find(name) : object.end();
  if (entry == object.end()) throw UsageError(fmt::format("the request has no \"{0}\"; add \"{0}\"", name));
  return *entry;
}

std::int64_t require_whole_number(const json& object, const char* name, std::int64_t min,
                                  std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
  const json& value = require_member(object, name);
  // get<std::int64_t>() would return a negative number for a number from 2^63 on.
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (value.is_number_integer() && !is_too_large) {
    const auto number = value.get<std::int64_t>();
    if (number >= min && number <= max) return number;
  }
  throw UsageError(fmt::format("\"{}\": {} is not a whole number from {} to {}; correct it", name,
                               printable_value(value.dump(-1, ' ', true, json::error_handler_t::replace)), min, max));
}

std::string require_text(const json& object, const char* name) {
  const json& value = require_member(object, name);
  if (!value.is_string()) throw UsageError(fmt::format("\"{}\" is not a text; quote it", name));
  return value.get<std::string>();
}

/// Throws UsageError if the request states another version of the protocol. A request may omit the version.
void require_protocol(const json& request) {
  if (!request.contains("protocol")) return;
  const std::int64_t protocol = require_whole_number(request, "protocol", 1);
  if (protocol != kProtocol)
    throw UsageError(
        fmt::format("the request uses protocol {}, this program uses protocol {}; install the same busbw on both sides",
                    protocol, kProtocol));
}

FlowEnd parse_end(const json& flow, const char* name) {
  const json& end = require_member(flow, name);
  return {require_text(end, "node"),
          static_cast<int>(require_whole_number(end, "gpu", 0, std::numeric_limits<int>::max()))};
}

void add_lost(JsonBuilder& json, const std::vector<LostGpu>& lost) {
  if (lost.empty()) return;
  json.objects("lost", lost, [&](const LostGpu& gpu) {
    json.field("node", gpu.end.node);
    json.field("gpu", gpu.end.gpu);
    json.field("error", gpu.reason);
  });
}

/// Adds the network ports of a node, in the order of their rails.
void add_nics(JsonBuilder& json, const FlowNode& node) {
  int rail = 0;
  json.objects("nics", node.nics, [&](const auto& entry) {
    const FlowNic& nic = entry.second;
    json.field("name", nic.name);
    json.field("rail", rail);
    json.values("gpus", nic.gpus);
    if (nic.numa_node) json.field("numa", *nic.numa_node);
    ++rail;
  });
}

}  // namespace

Request parse_request(std::string_view line) {
  const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object())
    throw UsageError(fmt::format("\"{}\" is not a JSON object; send one per line",
                                 printable_value(line.substr(0, kMaxQuotedBytes))));
  const std::string kind = require_text(request, "ask");
  if (kind == "end") return EndRequest{};
  if (kind == "cluster") {
    require_protocol(request);
    return ClusterRequest{};
  }
  if (kind != "measure")
    throw UsageError(fmt::format("\"ask\": {} is unknown; use cluster, measure or end", printable_value(kind)));
  MeasureRequest measure;
  measure.id = require_whole_number(request, "id", std::numeric_limits<std::int64_t>::min());
  measure.size_bytes = static_cast<std::uint64_t>(require_whole_number(request, "size_bytes", 1));
  measure.iterations = static_cast<int>(require_whole_number(request, "iterations", 1, kMaxIterations));
  const json& flows = require_member(request, "flows");
  if (!flows.is_array()) throw UsageError("\"flows\" is not an array; send an array of flows");
  for (const json& flow : flows) measure.flows.push_back({parse_end(flow, "from"), parse_end(flow, "to")});
  return measure;
}

std::string cluster_answer(const FlowCluster& cluster, const std::vector<LostGpu>& lost,
                           const std::vector<std::pair<std::string, std::string>>& settings) {
  JsonBuilder json;
  json.open_object();
  json.field("protocol", kProtocol);
  json.objects("nodes", cluster.nodes(), [&](const FlowNode& node) {
    json.field("name", node.name);
    json.field("gpus", node.ranks.size());
    const bool has_network = cluster.nodes().size() > 1 && !node.nics.empty();
    if (has_network) add_nics(json, node);
    if (cluster.has_unlike_gpus()) json.values("gpu_types", node.gpu_types);
    if (std::ranges::any_of(node.gpu_numa_nodes, [](const auto& numa_node) { return numa_node.has_value(); }))
      json.values("gpu_numa", node.gpu_numa_nodes);
  });
  add_lost(json, lost);
  json.text_object("environment", settings);
  json.close_object();
  json.end_line();
  return json.text();
}

std::string measure_answer(std::int64_t id, const std::vector<FlowResult>& flows, const std::vector<LostGpu>& lost,
                           double took_s) {
  JsonBuilder json;
  json.open_object();
  json.field("id", id);
  json.objects("flows", flows, [&](const FlowResult& flow) {
    if (flow.error.empty())
      json.values("times_us", flow.times_s, [&](double time_s) { json.value(time_s * 1e6); });
    else
      json.field("error", flow.error);
  });
  add_lost(json, lost);
  json.field("took_s", took_s);
  json.close_object();
  json.end_line();
  return json.text();
}

std::string error_answer(std::string_view message, const std::vector<LostGpu>& lost) {
  JsonBuilder json;
  json.open_object();
  json.field("error", message);
  add_lost(json, lost);
  json.close_object();
  json.end_line();
  return json.text();
}

}  // namespace busbw
