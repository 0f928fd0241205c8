#include "crowd.hpp"

#include <unordered_set>
#include <vector>

namespace busbw::fastpath::model {
namespace {

/// Progress as two characters for each GPU, communicator and kernel: the number of blocks that have begun, and a bit
/// for each block that has ended.
using Progress = std::string;

class SharedGpuExplorer {
 public:
  explicit SharedGpuExplorer(const SharedGpuModel& model) : model_(model), all_ended_((1u << model.blocks) - 1) {}

  SharedGpuResult explore() {
    SharedGpuResult result;
    const Progress start(static_cast<std::size_t>(2 * model_.gpus * model_.communicators * model_.kernels), '\0');
    std::unordered_set<Progress> known{start};
    std::vector<Progress> open{start};
    while (!open.empty()) {
      const Progress state = std::move(open.back());
      open.pop_back();
      const std::vector<Progress> next = after(state);
      if (next.empty() && !is_done(state)) result.can_hang = true;
      for (const Progress& one : next)
        if (known.insert(one).second) open.push_back(one);
    }
    result.states = known.size();
    return result;
  }

 private:
  std::size_t at(int gpu, int communicator, int kernel) const {
    return static_cast<std::size_t>(2 * ((gpu * model_.communicators + communicator) * model_.kernels + kernel));
  }
  static int make_common(const Progress& state, std::size_t where) { return state[where]; }
  static unsigned ended(const Progress& state, std::size_t where) {
    return static_cast<unsigned char>(state[where + 1]);
  }
  bool has_ended(const Progress& state, int gpu, int communicator, int kernel) const {
    return ended(state, at(gpu, communicator, kernel)) == all_ended_;
  }
  /// True if the previous kernel has ended, so that the blocks of this one run.
  bool runs(const Progress& state, int gpu, int communicator, int kernel) const {
    return kernel == 0 || has_ended(state, gpu, communicator, kernel - 1);
  }

  bool may_begin(const Progress& state, int gpu, int communicator, int kernel) const {
    if (runs(state, gpu, communicator, kernel)) return true;
    if (make_common(state, at(gpu, communicator, kernel - 1)) < model_.blocks) return false;
    return model_.parking == Parking::chain ||
           (model_.parking == Parking::one && runs(state, gpu, communicator, kernel - 1));
  }

  int places_taken(const Progress& state, int gpu) const {
    int taken = 0;
    for (int c = 0; c < model_.communicators; ++c)
      for (int k = 0; k < model_.kernels; ++k)
        taken += make_common(state, at(gpu, c, k)) - __builtin_popcount(ended(state, at(gpu, c, k)));
    return taken;
  }

  bool has_peers_running(const Progress& state, int communicator, int kernel, int block) const {
    for (int gpu = 0; gpu < model_.gpus; ++gpu)
      if (!runs(state, gpu, communicator, kernel) || make_common(state, at(gpu, communicator, kernel)) <= block)
        return false;
    return true;
  }

  std::vector<Progress> after(const Progress& state) const {
    std::vector<Progress> all;
    for (int gpu = 0; gpu < model_.gpus; ++gpu) {
      const bool has_place = places_taken(state, gpu) < model_.places;
      for (int c = 0; c < model_.communicators; ++c)
        for (int k = 0; k < model_.kernels; ++k) {
          const std::size_t where = at(gpu, c, k);
          if (has_place && make_common(state, where) < model_.blocks && may_begin(state, gpu, c, k)) {
            all.push_back(state);
            ++all.back()[where];
          }
          for (int block = 0; block < make_common(state, where); ++block)
            if ((ended(state, where) >> block & 1) == 0 && has_peers_running(state, c, k, block)) {
              // The end of a block never prevents another move, so only this order needs to be explored.
              Progress next = state;
              next[where + 1] = static_cast<char>(ended(state, where) | 1u << block);
              return {next};
            }
        }
    }
    return all;
  }

  bool is_done(const Progress& state) const {
    for (int gpu = 0; gpu < model_.gpus; ++gpu)
      for (int c = 0; c < model_.communicators; ++c)
        if (!has_ended(state, gpu, c, model_.kernels - 1)) return false;
    return true;
  }

  SharedGpuModel model_;
  unsigned all_ended_;
};

}  // namespace

SharedGpuResult explore_shared_gpus(const SharedGpuModel& model) { return SharedGpuExplorer(model).explore(); }

int places_needed(SharedGpuModel model, int max_places) {
  for (model.places = 1; model.places <= max_places; ++model.places)
    if (!explore_shared_gpus(model).can_hang) return model.places;
  return 0;
}

}  // namespace busbw::fastpath::model
