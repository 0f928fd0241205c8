#pragma once
// Table that gives the method, blocks and threads for each collective, number of ranks and size. It was measured on a
// machine by `busbw fastpath tune`, or is a default table of the library. MethodSelector reads it for every call.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/values/collective_facts.hpp"
#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/grid.hpp"

namespace busbw::fastpath {

/// Collectives with at least one method besides `nccl` in collectives.toml.
inline constexpr std::array kCollectives{
#define BUSBW_COLLECTIVE(...)
#define BUSBW_FAST_COLLECTIVE(name, ...) Collective::name,
#include "common/values/collectives.inc"
};
/// All methods.
inline constexpr std::array kMethods{Method::nccl, Method::exchange, Method::two_shot, Method::direct};

/// Returns the facts of src/busbw/collectives.toml.
const CollectiveFacts& facts_of(Collective collective);
/// Returns the name in tables, variables and logs: "all_reduce".
inline std::string_view name(Collective collective) { return facts_of(collective).name; }
/// Returns the name in tables, variables and logs: "nccl", "exchange", "two_shot" or "direct".
std::string_view name(Method method);
/// Returns the collective or method with this name. Nothing if there is no such name.
std::optional<Collective> collective_named(std::string_view text);
std::optional<Method> method_named(std::string_view text);
/// True if the method can run the collective: for `nccl` always, for others if collectives.toml lists the method.
bool supports(Collective collective, Method method);

/// A method with the blocks and the threads per block of its kernel. Both are 0 if the call is delegated to NCCL.
struct MethodConfig {
  Method method = Method::nccl;
  int blocks = 0;
  int threads = 0;

  bool operator==(const MethodConfig&) const = default;
};

/// A method config for each collective, number of ranks and size. Immutable.
///
/// The text form has one line for each range of sizes. A line gives the upper limit of its range, which begins where
/// the previous one ends. `#` begins a comment:
///
///     all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512
///     all_reduce ranks=2-8 up_to=1M nccl
///
/// `ranks` is a number or a range of numbers. `up_to` is the largest size, in bytes or with K, M, G or T (1024-based).
/// A size is the larger of a rank's two buffers, as in nccl-tests. Calls above the last range, or without any range,
/// are delegated to NCCL. Lines with `windows` are for calls with buffers in symmetric windows. Without such lines,
/// these calls use the other lines:
///
///     all_gather ranks=4 windows up_to=64M direct blocks=64 threads=512
class Table {
 public:
  /// Maximum number of ranks in a line. Calls of communicators with more ranks are delegated to NCCL.
  static constexpr int kMaxTableRanks = 64;

  /// Creates a table that delegates every call to NCCL.
  Table();
  /// Parses a table. Throws UsageError, which names the source, the line and the allowed values.
  static Table parse(std::string_view text, const std::string& source);
  /// Reads the table in a file. Throws UsageError.
  static Table read(const std::string& path);

  /// Returns the method config of the range that contains the size. `in_windows` selects the lines with `windows`.
  MethodConfig look_up_config(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept;
  /// True if at least one size runs on the fast path, in windows or not.
  bool has_fast_range(Collective collective, int ranks) const noexcept;
  /// True if the table has lines with `windows` for this collective and number of ranks.
  bool has_window_lines(Collective collective, int ranks) const noexcept;
  /// Returns a hash of all ranges, without comments. Ranks compare it to find different tables.
  std::uint64_t hash() const noexcept { return hash_; }
  /// Returns the table in the form that parse() reads, with separate lines for each number of ranks.
  std::string text() const;

 private:
  struct Range {
    std::size_t up_to_bytes;
    MethodConfig config;

    bool operator==(const Range&) const = default;
  };
  /// The ranges of one collective and number of ranks. The last range has no upper limit.
  struct RangeList {
    std::vector<Range> ranges;
    /// Index of the range at which a search begins, by std::bit_width of the size (0 to 64).
    std::array<std::uint16_t, 65> first_index;
    bool has_window_lines = false;  ///< list for windows: it has lines of its own and is no copy of the other list
  };
  explicit Table(std::vector<RangeList> lists);
  static std::string range_lines(const std::string& line_start, const std::vector<Range>& ranges);

  /// Indexed by list_index() in table.cpp: by collective, number of ranks, and whether the list is for windows.
  std::vector<RangeList> lists_;
  std::uint64_t hash_;
};

/// Returns the default table for GPUs of this major compute capability (9 for sm_90). Empty if the library has no table
/// for these GPUs. `nvls_is_off` selects the table for NCCL without NVLS, if the library has a separate one.
std::string_view default_table_text(int compute_capability_major, bool nvls_is_off);

}  // namespace busbw::fastpath
