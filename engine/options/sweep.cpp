// Lists the sizes and configurations that a run measures.
#include "options/sweep.hpp"

#include <numeric>

namespace busbw {
namespace {

/// Roots to measure; -1 if the collective has no root.
std::vector<int> roots_of(const DataChoice& data, const Collective& collective, int ranks) {
  if (!collective.has_root()) return {-1};
  if (data.root) return {*data.root};
  std::vector<int> roots(ranks);
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

std::vector<Redop> redops_of(const DataChoice& data, const Collective& collective) {
  if (!collective.loops_over_redops()) return {Redop::sum};
  return data.redops;
}

}  // namespace

std::vector<std::uint64_t> sizes_between(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t step_factor,
                                         std::uint64_t step_bytes) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = min_bytes; size <= max_bytes;) {
    sizes.push_back(size);
    // Compares before the step, because the next size may exceed 64 bits.
    if (step_factor > 1) {
      if (size > max_bytes / step_factor) break;
      size *= step_factor;
    } else {
      if (step_bytes > max_bytes || size > max_bytes - step_bytes) break;
      size += step_bytes;
    }
  }
  return sizes;
}

Sweep plan_sweep(const DataChoice& data, const RunSettings& settings, const Collective& collective, int ranks) {
  Sweep sweep;
  sweep.cycles = settings.run_cycles;
  for (const Dtype dtype : data.dtypes)
    for (const Redop redop : redops_of(data, collective)) {
      const std::string redop_name(collective.loops_over_redops() ? name(redop) : collective.no_redop_name());
      for (const int root : roots_of(data, collective, ranks))
        sweep.configurations.push_back({dtype, redop, redop_name, root});
    }
  sweep.sizes_bytes = settings.sizes_bytes;
  if (sweep.sizes_bytes.empty())
    sweep.sizes_bytes =
        sizes_between(settings.min_bytes, settings.max_bytes, settings.step_factor, settings.step_bytes);
  return sweep;
}

}  // namespace busbw
