// Parses replay programs. Every part is checked, because a wrong operation would make the ranks hang.
#include "replay/replay_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

using nlohmann::json;
using trace::Function;

constexpr std::string_view kFormat = "busbw-replay 1";
constexpr std::array<std::string_view, 5> kKeys{"format", "name", "ranks", "communicators", "operations"};
constexpr std::size_t kMaxOperationBytes = std::size_t{1} << 62;  // so that sizes fit into 64 bits
constexpr std::int64_t kMaxReplayRanks = 65536;

/// A function that can be replayed.
struct FunctionEntry {
  Function function;
  std::string_view name;
  const CollectiveFacts* facts;  // null for send and recv
};

constexpr std::array<FunctionEntry, 10> kFunctions{{
    {Function::all_reduce, facts::all_reduce.name, &facts::all_reduce},
    {Function::all_gather, facts::all_gather.name, &facts::all_gather},
    {Function::reduce_scatter, facts::reduce_scatter.name, &facts::reduce_scatter},
    {Function::broadcast, facts::broadcast.name, &facts::broadcast},
    {Function::reduce, facts::reduce.name, &facts::reduce},
    {Function::gather, facts::gather.name, &facts::gather},
    {Function::scatter, facts::scatter.name, &facts::scatter},
    {Function::alltoall, facts::alltoall.name, &facts::alltoall},
    {Function::send, "send", nullptr},
    {Function::recv, "recv", nullptr},
}};

/// Positions of the values in the list that describes an operation (schema/trace.md).
namespace position {
constexpr std::size_t kCommunicator = 0;
constexpr std::size_t kFunction = 1;
constexpr std::size_t kDtype = 2;
constexpr std::size_t kRedop = 3;
constexpr std::size_t kCount = 4;
constexpr std::size_t kPeer = 5;
constexpr std::size_t kGroup = 6;
constexpr std::size_t kGapNs = 7;
constexpr std::size_t kInPlace = 8;
constexpr std::size_t kIsOverlapped = 9;  // may be missing
}  // namespace position

const CollectiveFacts* facts_of(Function function) {
  return std::ranges::find(kFunctions, function, &FunctionEntry::function)->facts;
}

/// Size of an operation's input or output: `count` elements, or `count` for each rank if the data `has_shares`.
std::size_t data_bytes(const ReplayProgram& program, const ReplayOperation& operation, bool has_shares) {
  const std::size_t shares = has_shares ? static_cast<std::size_t>(program.ranks_of(operation)) : 1;
  return operation.count * size_bytes(operation.dtype) * shares;
}

class ProgramParser {
 public:
  explicit ProgramParser(const std::string& file) { program_.file = file; }

  ReplayProgram parse(std::string_view text) {
    json document;
    try {
      document = json::parse(text);
    } catch (const json::parse_error& error) {
      throw problem(fmt::format("byte {} is not JSON; write the file with busbw replay", error.byte));
    }
    if (!document.is_object()) throw problem("it is no JSON object; write the file with busbw replay");
    for (const auto& [key, value] : document.items())
      if (std::ranges::find(kKeys, key) == kKeys.end())
        throw problem(fmt::format("unknown key \"{}\"; use {}", printable_value(key), fmt::join(kKeys, ", ")));
    for (const std::string_view key : kKeys)
      if (!document.contains(key)) throw problem(fmt::format("no key \"{0}\"; add \"{0}\"", key));
    if (document["format"] != kFormat)
      throw problem(fmt::format("its format is {}; use \"{}\"", printable_value(document["format"].dump()), kFormat));
    if (!document["name"].is_string()) throw problem("\"name\" is no text; use a text");
    program_.name = printable_value(document["name"].get<std::string>());
    program_.operations.resize(whole_number<std::size_t>(document["ranks"], "\"ranks\"", 1, kMaxReplayRanks));
    parse_communicators(document["communicators"]);
    parse_operations(document["operations"]);
    return std::move(program_);
  }

 private:
  UsageError problem(const std::string& message) const {
    return UsageError(fmt::format("{}: {}", printable_value(program_.file), message));
  }

  /// `label` names the value in messages.
  const json& require_list(const json& value, const std::string& label) const {
    if (!value.is_array()) throw problem(fmt::format("{} is no list; use a list", label));
    return value;
  }

  template <class Number>
  Number whole_number(const json& value, const std::string& label, std::int64_t min, std::int64_t max) const {
    // get<std::int64_t>() would return a negative number for a number from 2^63 on.
    const bool fits_into_int64 =
        value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (fits_into_int64 && value.get<std::int64_t>() >= min && value.get<std::int64_t>() <= max)
      return static_cast<Number>(value.get<std::int64_t>());
    throw problem(fmt::format("{} is {}; allowed: {} to {}", label, printable_value(value.dump()), min, max));
  }

  void parse_communicators(const json& value) {
    for (const json& entry : require_list(value, "\"communicators\"")) {
      const std::string label = fmt::format("communicator {}", program_.communicators.size());
      std::vector<int> members;
      std::set<int> known;
      for (const json& member : require_list(entry, label)) {
        members.push_back(whole_number<int>(member, "a rank of " + label, 0, program_.ranks() - 1));
        if (!known.insert(members.back()).second)
          throw problem(fmt::format("{} has rank {} twice; list each rank once", label, members.back()));
      }
      if (members.empty()) throw problem(fmt::format("{} has no ranks; list its ranks", label));
      program_.communicators.emplace_back(known.begin(), known.end());
      listed_members_.push_back(std::move(members));
    }
  }

  void parse_operations(const json& value) {
    if (require_list(value, "\"operations\"").size() != program_.operations.size())
      throw problem(fmt::format("\"operations\" has {} lists for {} ranks; add one list for each rank", value.size(),
                                program_.ranks()));
    std::size_t count = 0;
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      const json& entries =
          require_list(value[static_cast<std::size_t>(rank)], fmt::format("the entry of rank {}", rank));
      auto& operations = program_.operations[static_cast<std::size_t>(rank)];
      operations.reserve(entries.size());
      for (const json& entry : entries)
        operations.push_back(
            parse_operation(entry, rank, fmt::format("rank {}, operation {}", rank, operations.size())));
      count += operations.size();
    }
    if (count == 0) throw problem("no rank has an operation; use a step with operations");
  }

  ReplayOperation parse_operation(const json& entry, int rank, const std::string& place) const {
    if (!entry.is_array() || entry.size() < position::kInPlace + 1 || entry.size() > position::kIsOverlapped + 1)
      throw problem(fmt::format("{} is no list of nine or ten values; see schema/trace.md", place));
    const auto label_of = [&](const char* field) { return fmt::format("{}: the {}", place, field); };
    const auto text = [&](std::size_t index, const char* field) -> std::string {
      if (!entry[index].is_string()) throw problem(fmt::format("{} is no text; use its name", label_of(field)));
      return entry[index].get<std::string>();
    };
    ReplayOperation operation;
    operation.communicator = whole_number<int>(entry[position::kCommunicator], label_of("communicator"), 0,
                                               static_cast<std::int64_t>(program_.communicators.size()) - 1);
    const auto& members = program_.communicators[static_cast<std::size_t>(operation.communicator)];
    if (std::ranges::find(members, rank) == members.end())
      throw problem(fmt::format("{}: communicator {} does not have rank {}; add the rank or remove the operation",
                                place, operation.communicator, rank));

    const std::string function = text(position::kFunction, "function");
    const auto known = std::ranges::find(kFunctions, function, &FunctionEntry::name);
    if (known == kFunctions.end())
      throw problem(fmt::format("{}: {} cannot be replayed; remove the operation", place, printable_value(function)));
    operation.function = known->function;
    const std::string dtype = text(position::kDtype, "element type");
    if (const auto parsed = dtype_of(dtype))
      operation.dtype = *parsed;
    else
      throw problem(
          fmt::format("{} {} is unknown; use a type of -d", label_of("element type"), printable_value(dtype)));
    parse_redop(text(position::kRedop, "operator"), known->facts && known->facts->reduces, place, operation);

    const auto max_count = kMaxOperationBytes / size_bytes(operation.dtype) / members.size();
    operation.count =
        whole_number<std::size_t>(entry[position::kCount], label_of("count"), 0, static_cast<std::int64_t>(max_count));
    const bool has_peer = !known->facts || known->facts->has_root;
    const std::int64_t min_peer = has_peer ? 0 : -1;  // without a peer, -1 is the only allowed value
    const std::int64_t max_peer = has_peer ? static_cast<std::int64_t>(members.size()) - 1 : -1;
    const int listed_peer =
        whole_number<int>(entry[position::kPeer], label_of(known->facts ? "root" : "peer"), min_peer, max_peer);
    if (has_peer) operation.peer = index_in_ascending_order(operation.communicator, listed_peer);
    operation.group = whole_number<std::uint32_t>(entry[position::kGroup], label_of("group"), 0,
                                                  std::numeric_limits<std::uint32_t>::max());
    constexpr std::int64_t kMaxGapNs = 3'600'000'000'000;  // an hour, longer than any step
    const auto gap_ns = whole_number<std::int64_t>(entry[position::kGapNs], label_of("gap in ns"), 0, kMaxGapNs);
    operation.gap_s = static_cast<double>(gap_ns) * 1e-9;
    operation.in_place = whole_number<int>(entry[position::kInPlace], label_of("in-place flag"), 0, 1) == 1;
    const bool has_overlap_flag = entry.size() > position::kIsOverlapped;
    operation.is_overlapped =
        has_overlap_flag && whole_number<int>(entry[position::kIsOverlapped], label_of("overlap flag"), 0, 1) == 1;
    const bool can_be_in_place = known->facts && operation.function != Function::alltoall;
    if (operation.in_place && !can_be_in_place)
      throw problem(fmt::format("{}: NCCL defines no {} in place; use 0 for in place", place, function));
    return operation;
  }

  /// Converts an index in the document's ranks of a communicator to the index in ReplayProgram's, which are sorted.
  int index_in_ascending_order(int communicator, int listed_index) const {
    const auto index = static_cast<std::size_t>(communicator);
    const int rank = listed_members_[index][static_cast<std::size_t>(listed_index)];
    const std::vector<int>& members = program_.communicators[index];
    return static_cast<int>(std::ranges::find(members, rank) - members.begin());
  }

  void parse_redop(const std::string& redop, bool reduces, const std::string& place, ReplayOperation& operation) const {
    const auto parsed = redop_of(redop);
    if (reduces && !parsed)
      throw problem(fmt::format("{}: the operator {} is unknown; use one of -o", place,
                                redop.empty() ? "\"\"" : printable_value(redop)));
    if (!reduces && !redop.empty())
      throw problem(fmt::format("{}: {} has no operator, got {}; use \"\"", place, name(operation.function),
                                printable_value(redop)));
    if (parsed) operation.redop = *parsed;
  }

  ReplayProgram program_;
  std::vector<std::vector<int>> listed_members_;  // ranks of each communicator, in the order of the document
};

}  // namespace

std::size_t ReplayProgram::sent_bytes(const ReplayOperation& operation) const {
  const CollectiveFacts* const facts = facts_of(operation.function);
  if (!facts && operation.function == Function::recv) return 0;
  return data_bytes(*this, operation, facts && facts->sends_shares);
}

std::size_t ReplayProgram::received_bytes(const ReplayOperation& operation) const {
  const CollectiveFacts* const facts = facts_of(operation.function);
  if (!facts && operation.function == Function::send) return 0;
  return data_bytes(*this, operation, facts && facts->receives_shares);
}

std::string_view name(Function function) {
  const auto entry = std::ranges::find(kFunctions, function, &FunctionEntry::function);
  return entry == kFunctions.end() ? "other" : entry->name;
}

std::string operation_text(const ReplayProgram& program, int rank, std::size_t operation) {
  const ReplayOperation& described = program.operations[static_cast<std::size_t>(rank)][operation];
  const CollectiveFacts* const facts = facts_of(described.function);
  std::string text = fmt::format("rank {}, operation {} ({} of {} {}", rank, operation, name(described.function),
                                 described.count, name(described.dtype));
  if (facts && facts->reduces) text += fmt::format(" {}", name(described.redop));
  if (described.peer >= 0) {
    const char* const transfer_role = described.function == Function::send ? "to" : "from";
    text += fmt::format(" {} {}", facts ? "root" : transfer_role, described.peer);
  }
  return text + fmt::format(" on communicator {})", described.communicator);
}

ReplayProgram parse_replay_program(std::string_view text, const std::string& file) {
  return ProgramParser(file).parse(text);
}

ReplayProgram read_replay_program(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  const bool is_open = stream.is_open();
  // Reading an empty file would set the fail bit of `text`. The parser reports empty files.
  const bool is_empty = stream.peek() == std::ifstream::traits_type::eof();
  if (is_open && !is_empty) text << stream.rdbuf();
  if (!is_open || !text)
    throw UsageError(
        fmt::format("{}: the file cannot be read; name a file that busbw replay wrote", printable_value(file)));
  return parse_replay_program(text.view(), file);
}

}  // namespace busbw
