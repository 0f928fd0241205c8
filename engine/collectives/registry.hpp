#pragma once
// List of all collectives. Add a new one here and in registry.cpp.
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/collective_settings.hpp"

namespace busbw {

using CollectiveFactory = std::unique_ptr<Collective> (*)(const CollectiveSettings&);

std::unique_ptr<Collective> make_all_reduce(const CollectiveSettings&);
std::unique_ptr<Collective> make_all_gather(const CollectiveSettings&);
std::unique_ptr<Collective> make_reduce_scatter(const CollectiveSettings&);
std::unique_ptr<Collective> make_broadcast(const CollectiveSettings&);
std::unique_ptr<Collective> make_reduce(const CollectiveSettings&);
std::unique_ptr<Collective> make_alltoall(const CollectiveSettings&);
std::unique_ptr<Collective> make_alltoallv(const CollectiveSettings&);
std::unique_ptr<Collective> make_gather(const CollectiveSettings&);
std::unique_ptr<Collective> make_scatter(const CollectiveSettings&);
std::unique_ptr<Collective> make_sendrecv(const CollectiveSettings&);
std::unique_ptr<Collective> make_hypercube(const CollectiveSettings&);

struct CollectiveEntry {
  std::string_view name;
  CollectiveFactory make;
};

/// Every collective, in the order of nccl-tests' list.
const std::vector<CollectiveEntry>& all_collectives();

/// Returns the collective called `name`, or null if the name is unknown.
std::unique_ptr<Collective> make_collective(std::string_view name, const CollectiveSettings& settings);

/// Layout of a buffer that holds `count` elements from every rank, in rank order.
Segments segments_from_every_rank(std::size_t count, int ranks);

}  // namespace busbw
