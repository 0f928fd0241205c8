#include "crowd.hpp"

#include <unordered_set>
#include <vector>

namespace busbw::fastpath::model {
namespace {

/// For each GPU, communicator and kernel a character of how many blocks have begun, and one with a bit for each that
/// ended.
using Progress = std::string;

class Walk {
 public:
  explicit Walk(const Crowd& crowd) : crowd_(crowd), all_ended_((1u << crowd.blocks) - 1) {}

  Crowded explore() {
    Crowded result;
    const Progress start(static_cast<std::size_t>(2 * crowd_.gpus * crowd_.communicators * crowd_.kernels), '\0');
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
    return static_cast<std::size_t>(2 * ((gpu * crowd_.communicators + communicator) * crowd_.kernels + kernel));
  }
  static int make_common(const Progress& state, std::size_t where) { return state[where]; }
  static unsigned ended(const Progress& state, std::size_t where) {
    return static_cast<unsigned char>(state[where + 1]);
  }
  bool has_ended(const Progress& state, int gpu, int communicator, int kernel) const {
    return ended(state, at(gpu, communicator, kernel)) == all_ended_;
  }
  /// Whether the kernel before has ended, so that this one's blocks do more than hold a place.
  bool runs(const Progress& state, int gpu, int communicator, int kernel) const {
    return kernel == 0 || has_ended(state, gpu, communicator, kernel - 1);
  }

  bool may_begin(const Progress& state, int gpu, int communicator, int kernel) const {
    if (runs(state, gpu, communicator, kernel)) return true;
    if (make_common(state, at(gpu, communicator, kernel - 1)) < crowd_.blocks) return false;
    return crowd_.parking == Parking::chain ||
           (crowd_.parking == Parking::one && runs(state, gpu, communicator, kernel - 1));
  }

  int places_taken(const Progress& state, int gpu) const {
    int taken = 0;
    for (int c = 0; c < crowd_.communicators; ++c)
      for (int k = 0; k < crowd_.kernels; ++k)
        taken += make_common(state, at(gpu, c, k)) - __builtin_popcount(ended(state, at(gpu, c, k)));
    return taken;
  }

  bool is_met(const Progress& state, int communicator, int kernel, int block) const {
    for (int gpu = 0; gpu < crowd_.gpus; ++gpu)
      if (!runs(state, gpu, communicator, kernel) || make_common(state, at(gpu, communicator, kernel)) <= block)
        return false;
    return true;
  }

  std::vector<Progress> after(const Progress& state) const {
    std::vector<Progress> all;
    for (int gpu = 0; gpu < crowd_.gpus; ++gpu) {
      const bool has_place = places_taken(state, gpu) < crowd_.places;
      for (int c = 0; c < crowd_.communicators; ++c)
        for (int k = 0; k < crowd_.kernels; ++k) {
          const std::size_t where = at(gpu, c, k);
          if (has_place && make_common(state, where) < crowd_.blocks && may_begin(state, gpu, c, k)) {
            all.push_back(state);
            ++all.back()[where];
          }
          for (int block = 0; block < make_common(state, where); ++block)
            if ((ended(state, where) >> block & 1) == 0 && is_met(state, c, k, block)) {
              // An end takes nothing from anybody, so what else could happen now can happen after it as well.
              Progress next = state;
              next[where + 1] = static_cast<char>(ended(state, where) | 1u << block);
              return {next};
            }
        }
    }
    return all;
  }

  bool is_done(const Progress& state) const {
    for (int gpu = 0; gpu < crowd_.gpus; ++gpu)
      for (int c = 0; c < crowd_.communicators; ++c)
        if (!has_ended(state, gpu, c, crowd_.kernels - 1)) return false;
    return true;
  }

  Crowd crowd_;
  unsigned all_ended_;
};

}  // namespace

Crowded explore_crowd(const Crowd& crowd) { return Walk(crowd).explore(); }

int places_needed(Crowd crowd, int most) {
  for (crowd.places = 1; crowd.places <= most; ++crowd.places)
    if (!explore_crowd(crowd).can_hang) return crowd.places;
  return 0;
}

}  // namespace busbw::fastpath::model
