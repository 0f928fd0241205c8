// The list of collectives, generated from src/busbw/collectives.toml.
#include "collectives/registry.hpp"

#include <algorithm>
#include <utility>

#include "collectives/one_sided.hpp"

namespace busbw {

const std::vector<CollectiveEntry>& all_collectives() {
  static const std::vector<CollectiveEntry> entries{
#define BUSBW_COLLECTIVE(name, ...) {#name, make_##name},
#define BUSBW_FAST_COLLECTIVE BUSBW_COLLECTIVE
#include "common/values/collectives.inc"
  };
  return entries;
}

std::unique_ptr<Collective> make_collective(std::string_view name, const CollectiveSettings& settings) {
  // The program `flows` has no sweep, so it is not in the list. For its name, this returns a flow exchange without
  // flows. That one only describes the collective, because each round makes its own flow exchange.
  if (name == kFlowsName) return make_flow_exchange(/*flows=*/{}, /*rank=*/0);
  const auto& entries = all_collectives();
  const auto entry = std::ranges::find(entries, name, &CollectiveEntry::name);
  if (entry == entries.end()) return nullptr;
  auto collective = entry->make(settings);
  if (settings.rma_contexts > 0) return make_one_sided(std::move(collective), settings.rma_contexts);
  return collective;
}

Segments segments_from_every_rank(std::size_t count, int ranks) {
  Segments segments;
  segments.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    segments.push_back({.offset = count * rank, .count = count, .source_rank = rank});
  return segments;
}

}  // namespace busbw
