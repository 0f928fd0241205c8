#pragma once
// Runs one collective on independently computed data. The result must be right, and nothing else may be written.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "support_reduction.hpp"

namespace busbw {

inline constexpr std::array<std::string_view, 8> kCollectives{"all_reduce", "reduce", "reduce_scatter", "all_gather",
                                                              "broadcast",  "gather", "scatter",        "alltoall"};

inline bool reduces(std::string_view collective) { return collective.find("reduce") != std::string_view::npos; }

struct Case {
  std::string_view collective;
  Dtype dtype;
  Redop redop;
  std::size_t count;  // count of the call
  int root;
  bool in_place;
};

/// One case of one rank. Sizes and offsets are in bytes.
class CaseRunner {
 public:
  CaseRunner(Communicator& communicator, const Case& of)
      : communicator_(communicator),
        case_(of),
        ranks_(static_cast<std::size_t>(communicator.size())),
        rank_(static_cast<std::size_t>(communicator.rank())),
        share_(of.count * size_bytes(of.dtype)) {}

  /// Empty, or a description of the error.
  std::string run() {
    prepare();
    call();
    communicator_.synchronize();
    return compare();
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr std::byte kUntouched{0x5a};

  bool is(std::string_view collective) const { return case_.collective == collective; }
  bool is_root() const { return static_cast<int>(rank_) == case_.root; }

  std::size_t send_bytes() const {
    const bool shares = is("reduce_scatter") || is("alltoall") || is("scatter");
    return shares ? share_ * ranks_ : share_;
  }
  std::size_t recv_bytes() const {
    const bool shares = is("all_gather") || is("alltoall") || is("gather");
    return shares ? share_ * ranks_ : share_;
  }
  bool has_data_to_send() const { return is_root() || !(is("broadcast") || is("scatter")); }
  bool has_result() const { return is_root() || !(is("reduce") || is("gather")); }

  std::vector<std::byte> data_of(int rank, std::size_t first_byte, std::size_t bytes) const {
    if (!reduces(case_.collective)) return moved(rank, first_byte, bytes);
    const std::size_t width = size_bytes(case_.dtype);
    return contributions(case_.dtype, case_.redop, rank, first_byte / width, bytes / width);
  }

  void prepare() {
    const auto send = communicator_.send_buffer();
    const auto recv = communicator_.recv_buffer();
    std::fill_n(send.begin(), std::max(send_bytes(), recv_bytes()) + kMargin, kUntouched);
    std::fill_n(recv.begin(), std::max(send_bytes(), recv_bytes()) + kMargin, kUntouched);
    send_ = send.data();
    recv_ = recv.data();
    if (case_.in_place) {
      // In place, as NCCL defines it: the shorter buffer lies in the longer one at this rank's share.
      send_ = recv_ + (is("all_gather") || is("gather") ? rank_ * share_ : 0);
      if (is("reduce_scatter") || is("scatter")) recv_ += rank_ * share_;
    }
    if (has_data_to_send()) {
      const auto data = data_of(static_cast<int>(rank_), 0, send_bytes());
      std::copy(data.begin(), data.end(), send_);
    }
    before_.assign(recv.begin(), recv.begin() + static_cast<std::ptrdiff_t>(whole()));
  }

  /// Bytes of the receive buffer that are compared.
  std::size_t whole() const { return std::max(send_bytes(), recv_bytes()) + kMargin; }

  void call() {
    const auto [collective, dtype, redop, count, root, in_place] = case_;
    if (is("all_reduce")) communicator_.all_reduce(send_, recv_, count, dtype, redop);
    if (is("reduce")) communicator_.reduce(send_, recv_, count, dtype, redop, root);
    if (is("reduce_scatter")) communicator_.reduce_scatter(send_, recv_, count, dtype, redop);
    if (is("all_gather")) communicator_.all_gather(send_, recv_, count, dtype);
    if (is("broadcast")) communicator_.broadcast(send_, recv_, count, dtype, root);
    if (is("gather")) communicator_.gather(send_, recv_, count, dtype, root);
    if (is("scatter")) communicator_.scatter(send_, recv_, count, dtype, root);
    if (is("alltoall")) communicator_.alltoall(send_, recv_, count, dtype);
  }

  std::vector<std::byte> expected() const {
    const int all = static_cast<int>(ranks_);
    if (reduces(case_.collective)) {
      const std::size_t first = is("reduce_scatter") ? rank_ * case_.count : 0;
      return reductions(case_.dtype, case_.redop, all, first, case_.count);
    }
    if (is("broadcast")) return moved(case_.root, 0, share_);
    if (is("scatter")) return moved(case_.root, rank_ * share_, share_);
    std::vector<std::byte> result;
    for (int peer = 0; peer < all; ++peer) {
      const auto part = moved(peer, is("alltoall") ? rank_ * share_ : 0, share_);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  /// Checks that the receive buffer holds the result and is untouched around it, and so is the send buffer out of
  /// place.
  std::string compare() const {
    std::vector<std::byte> right = before_;
    if (has_result()) {
      const auto result = expected();
      std::copy(result.begin(), result.end(), right.begin() + (recv_ - communicator_.recv_buffer().data()));
    }
    const auto recv = communicator_.recv_buffer();
    if (!std::equal(right.begin(), right.end(), recv.begin())) return complaint("wrong result");
    if (!case_.in_place && has_data_to_send()) {
      const auto data = data_of(static_cast<int>(rank_), 0, send_bytes());
      if (!std::equal(data.begin(), data.end(), send_)) return complaint("the send buffer was changed");
    }
    return {};
  }

  std::string complaint(const std::string& what) const {
    return what + ": " + std::string(case_.collective) + " " + std::string(name(case_.dtype)) + " " +
           std::string(name(case_.redop)) + " count " + std::to_string(case_.count) + " root " +
           std::to_string(case_.root) + (case_.in_place ? " in place" : " out of place") + " rank " +
           std::to_string(rank_) + " of " + std::to_string(ranks_) + "; ";
  }

  Communicator& communicator_;
  Case case_;
  std::size_t ranks_;
  std::size_t rank_;
  std::size_t share_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  std::vector<std::byte> before_;
};

}  // namespace busbw
