#pragma once
// List of all collectives, generated from src/busbw/collectives.toml. The file of the collective `x` defines `make_x`.
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/collective_settings.hpp"

namespace busbw {

/// Makes a collective with these settings.
using CollectiveFactory = std::unique_ptr<Collective> (*)(const CollectiveSettings&);

// collectives.inc has a line for each collective: BUSBW_COLLECTIVE(reduce, .bus_factor = "1", ...), or
// BUSBW_FAST_COLLECTIVE(...) if the fast path has it. Each line defines facts::reduce and declares make_reduce.
#define BUSBW_COLLECTIVE(collective, ...)                                        \
  namespace facts {                                                              \
  inline constexpr CollectiveFacts collective{.name = #collective, __VA_ARGS__}; \
  }                                                                              \
  std::unique_ptr<Collective> make_##collective(const CollectiveSettings&);
#define BUSBW_FAST_COLLECTIVE BUSBW_COLLECTIVE
#include "common/values/collectives.inc"

/// Name of a collective in collectives.toml, and its factory.
struct CollectiveEntry {
  std::string_view name;
  CollectiveFactory make;
};

/// Every collective, in the order of collectives.toml.
const std::vector<CollectiveEntry>& all_collectives();

/// Returns the collective called `name`, or null if the name is unknown. For `flows`, returns an exchange without
/// flows.
std::unique_ptr<Collective> make_collective(std::string_view name, const CollectiveSettings& settings);

/// Name of the program that measures rounds of flows. It is not in collectives.toml, because it has no sweep.
inline constexpr std::string_view kFlowsName = "flows";

/// Data that one rank sends to another one.
struct Flow {
  int sender = 0;
  int receiver = 0;
};

/// Returns the maximum number of flows to the same receiver, at least 1.
std::size_t max_flows_to_one_rank(std::span<const Flow> flows);

/// Makes the operation of `rank` in a round of flows. Each flow moves CollectiveCall::count elements. A pair of ranks
/// has at most one flow in each direction, and no rank sends to itself.
std::unique_ptr<Collective> make_flow_exchange(std::span<const Flow> flows, int rank);

/// Layout of a buffer that holds `count` elements from every rank, in rank order.
Segments segments_from_every_rank(std::size_t count, int ranks);

}  // namespace busbw
