#pragma once
// One check of one placement of a case on one rank: fill, let the collective run once, compare everything.
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "values/run_result.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

/// What a rank found wrong.
struct RankCheckResult {
  std::uint64_t wrong_elements = 0;
  std::vector<WrongElement> first;
};

/// A case as a rank sees it.
struct RankCase {
  const Collective& collective;
  Shape shape;
  Dtype dtype;
  Redop redop;
  int root;
  std::uint64_t seed;  // new for each check, so that stale data is wrong
};

class Checker {
 public:
  Checker(Communicator& communicator, const CaseBuffers& buffers, ReductionValues& values, int world_rank)
      : communicator_(communicator), buffers_(buffers), values_(values), world_rank_(world_rank) {}

  /// Writes guards, the data to send, and into the rest of the receive region a pattern that no result equals.
  void prepare(const RankCase& rank_case, Placement placement);
  /// Compares the result: right behind the operation, as whoever uses it would look at it, since a result that is still
  /// on its way would have arrived by the time others are waited for.
  RankCheckResult verify_result(const RankCase& rank_case, Placement placement);
  /// Compares all that must be untouched, and the guards: when all ranks are done, as others may have written there.
  void verify_untouched(const RankCase& rank_case, Placement placement, RankCheckResult& findings);

 private:
  Segments expected(const RankCase& rank_case) const;
  /// The stream of a piece, and the position in it of the piece's first element.
  DataStream stream_of(const RankCase& rank_case, const Segment& piece);
  DataStream poison(const RankCase& rank_case) const;
  /// Elements `from` to `to` of the receive region: the rank's own data in place, otherwise what `prepare` wrote there.
  void compare_untouched(const RankCase& rank_case, Placement placement, std::size_t from, std::size_t to,
                         Mismatches& mismatches);
  void compare_guard(std::byte* at, std::uint64_t seed, const std::string& place, RankCheckResult& findings);
  void keep(const Mismatches& mismatches, Dtype dtype, const std::string& place, RankCheckResult& findings);

  Communicator& communicator_;
  const CaseBuffers& buffers_;
  ReductionValues& values_;
  int world_rank_;
};

}  // namespace busbw
