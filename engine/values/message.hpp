#pragma once
// Encodes plain values as bytes, for messages between processes of one job. All processes run the same program, so
// values are sent with their layout in memory.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace busbw {

using Bytes = std::vector<std::byte>;

/// Thrown if bytes do not hold the requested value. Messages from other processes are not trusted: MessageReader checks
/// lengths and the flags of optionals. Its callers check the values, such as those of enums.
struct BrokenMessage : std::runtime_error {
  BrokenMessage() : std::runtime_error("a message is truncated or invalid") {}
};

/// A struct with `static auto members(auto& self)`, which ties the members to send, so that writer and reader agree.
template <class Value>
concept HasMembers = requires(Value& value) { Value::members(value); };

/// A std::string or std::vector.
template <class Value>
concept List = requires(Value& value) { value.resize(1), value.data(); };

/// Appends values to bytes: trivially copyable ones, structs with `members`, and lists, optionals and pairs of these.
class MessageWriter {
 public:
  template <class Value>
  MessageWriter& add(const Value& value) {
    if constexpr (HasMembers<Value>) {
      std::apply([this](const auto&... members) { (add(members), ...); }, Value::members(value));
    } else if constexpr (List<Value>) {
      add(value.size());
      if constexpr (std::is_trivially_copyable_v<typename Value::value_type>) {
        append(value.data(), value.size() * sizeof(value[0]));
      } else {
        for (const auto& element : value) add(element);
      }
    } else {
      static_assert(std::is_trivially_copyable_v<Value>);
      append(&value, sizeof(Value));
    }
    return *this;
  }
  template <class Value>
  MessageWriter& add(const std::optional<Value>& value) {
    add(value.has_value());
    return value ? add(*value) : *this;
  }
  template <class First, class Second>
  MessageWriter& add(const std::pair<First, Second>& pair) {
    return add(pair.first).add(pair.second);
  }
  /// Adds the bytes of a span like Bytes, which MessageReader::take_bytes reads.
  MessageWriter& add(std::span<const std::byte> bytes) {
    add(bytes.size());
    append(bytes.data(), bytes.size());
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  void append(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }

  Bytes bytes_;
};

/// Reads values in the order in which they were added. Throws BrokenMessage if there are too few bytes.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : unread_(bytes) {}

  template <class Value>
  Value take() {
    Value value{};
    read(value);
    return value;
  }
  std::string take_text() { return take<std::string>(); }
  Bytes take_bytes() { return take<Bytes>(); }

 private:
  template <class Value>
  void read(Value& value) {
    if constexpr (HasMembers<Value>) {
      std::apply([this](auto&... members) { (read(members), ...); }, Value::members(value));
    } else if constexpr (List<Value>) {
      using Element = typename Value::value_type;
      if constexpr (std::is_trivially_copyable_v<Element>) {
        value.resize(take_count(sizeof(Element)));
        copy_out(value.data(), value.size() * sizeof(Element));
      } else {
        constexpr std::size_t kMinElementBytes = 1;
        const std::size_t count = take_count(kMinElementBytes);
        for (std::size_t i = 0; i < count; ++i) value.push_back(take<Element>());
      }
    } else {
      static_assert(std::is_trivially_copyable_v<Value>);
      copy_out(&value, sizeof(Value));
    }
  }
  template <class Value>
  void read(std::optional<Value>& value) {
    const auto flag = take<std::uint8_t>();  // not a bool, because other values than 0 and 1 would be undefined
    if (flag > 1) throw BrokenMessage();
    if (flag == 1) value = take<Value>();
  }
  template <class First, class Second>
  void read(std::pair<First, Second>& pair) {
    read(pair.first);
    read(pair.second);
  }
  /// Reads an element count. Throws BrokenMessage if so many elements of `element_bytes` exceed the remaining bytes.
  std::size_t take_count(std::size_t element_bytes) {
    const auto count = take<std::size_t>();
    if (count > unread_.size() / element_bytes) throw BrokenMessage();
    return count;
  }
  void copy_out(void* to, std::size_t bytes) {
    if (bytes == 0) return;  // `to` may be null in this case
    if (bytes > unread_.size()) throw BrokenMessage();
    std::memcpy(to, unread_.data(), bytes);
    unread_ = unread_.subspan(bytes);
  }

  std::span<const std::byte> unread_;
};

}  // namespace busbw
