#pragma once
// Which method for which size: a table that is measured on a machine, or the one that comes with the library.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/grid.hpp"

namespace busbw::fastpath {

inline constexpr std::array kCollectives{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                         Collective::broadcast, Collective::alltoall};
inline constexpr std::array kMethods{Method::nccl, Method::exchange, Method::two_shot, Method::direct};

/// As tables, variables and logs have it: "all_reduce".
std::string_view name(Collective collective);
/// As tables, variables and logs have it: "nccl", "exchange", "two_shot", "direct".
std::string_view name(Method method);
std::optional<Collective> collective_named(std::string_view text);
std::optional<Method> method_named(std::string_view text);
/// Whether the method can do it: only an all-reduce and a broadcast have a second half, in which results are spread,
/// and `direct` is made for three collectives.
bool supports(Collective collective, Method method);

/// A method and the shape of its kernel; no blocks and no threads where the operation is handed over.
struct MethodConfig {
  Method method = Method::nccl;
  int blocks = 0;
  int threads = 0;

  bool operator==(const MethodConfig&) const = default;
};

/// A choice for each collective, number of ranks and size. Never changes.
///
/// Its text has a line for each range of sizes, of which each begins where the one before it ends; a `#` begins a
/// comment:
///
///     all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512
///     all_reduce ranks=2-8 up_to=1M nccl
///
/// `ranks` is a number or a range of them, `up_to` the largest size, in bytes or with K, M or G (1024-based), of the
/// larger of a rank's two buffers, as nccl-tests counts sizes. Above the last range, and where there is none,
/// everything is handed over. Calls whose buffers lie in symmetric windows have lines of their own, or else do as all
/// others:
///
///     all_gather ranks=4 windows up_to=64M direct blocks=64 threads=512
class Table {
 public:
  static constexpr int kMaxTableRanks = 64;

  /// The table in which everything is handed over.
  Table();
  /// Throws UsageError, which names the source, the line and what is allowed there.
  static Table parse(std::string_view text, const std::string& source);
  /// The table in a file. Throws UsageError.
  static Table read(const std::string& path);

  MethodConfig choose(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;
  /// Whether there is any size that is not handed over.
  bool selects_any(Collective collective, int ranks) const noexcept;
  /// Whether calls in windows have lines of their own.
  bool regards_windows(Collective collective, int ranks) const noexcept;
  /// The same for tables that choose the same in the same ranges, whatever their comments; ranks compare it.
  std::uint64_t hash() const noexcept { return hash_; }
  /// In the form that parse() reads, a line for each number of ranks.
  std::string text() const;

 private:
  struct Range {
    std::size_t up_to_bytes;
    MethodConfig choice;

    bool operator==(const Range&) const = default;
  };
  /// The ranges of one collective and number of ranks; the last has no end.
  struct RangeList {
    std::vector<Range> ranges;
    /// By the number of a size's binary digits: the range of the smallest such size.
    std::array<std::uint16_t, 65> first;
    bool is_own = false;  ///< for windows: not what holds for all other calls
  };
  explicit Table(std::vector<RangeList> ladders);
  static std::string lines(const std::string& begin, const std::vector<Range>& ranges);

  /// By collective, ranks, and whether it is that of windows; entries without ranges of their own hand everything over.
  std::vector<RangeList> ladders_;
  std::uint64_t hash_;
};

/// The table that comes with the library for GPUs of this compute capability's first number (9 for sm_90); empty, so
/// that all is handed over, where nobody has measured any. Where NCCL may use NVLS it ends sooner.
std::string_view default_table_text(int compute_capability_major, bool nvls_is_off);

}  // namespace busbw::fastpath
