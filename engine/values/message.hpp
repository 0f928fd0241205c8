#pragma once
// Encodes plain values as bytes, for messages between processes of one job. All processes run the same program, so
// values are sent with their layout in memory.
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace busbw {

using Bytes = std::vector<std::byte>;

/// Thrown if bytes do not hold the requested value. Messages from other processes are not trusted.
struct BrokenMessage : std::runtime_error {
  BrokenMessage() : std::runtime_error("a message is truncated") {}
};

/// Appends values to bytes.
class MessageWriter {
 public:
  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  MessageWriter& add(const Value& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(Value));
    return *this;
  }
  MessageWriter& add(const std::string& text) {
    add(text.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), bytes, bytes + text.size());
    return *this;
  }
  MessageWriter& add(std::span<const std::byte> bytes) {
    add(bytes.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  MessageWriter& add(const std::vector<double>& values) {
    add(values.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(double));
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads values in the order in which they were added. Throws BrokenMessage if there are too few bytes.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : unread_(bytes) {}

  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  Value take() {
    Value value;
    copy_out(&value, sizeof(Value));
    return value;
  }
  std::string take_text() {
    std::string text(take_count(1), '\0');
    copy_out(text.data(), text.size());
    return text;
  }
  Bytes take_bytes() {
    Bytes bytes(take_count(1));
    copy_out(bytes.data(), bytes.size());
    return bytes;
  }
  std::vector<double> take_doubles() {
    std::vector<double> values(take_count(sizeof(double)));
    copy_out(values.data(), values.size() * sizeof(double));
    return values;
  }

 private:
  /// Reads an element count, and checks it against the remaining bytes.
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
