#pragma once
// Plain values as bytes, for the few things that ranks tell rank 0.
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rendezvous/team.hpp"

namespace busbw {

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

/// Takes values out again, in the order in which they were added.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  Value take() {
    Value value;
    copy_out(&value, sizeof(Value));
    return value;
  }
  std::string take_text() {
    std::string text(take<std::size_t>(), '\0');
    copy_out(text.data(), text.size());
    return text;
  }
  std::vector<double> take_doubles() {
    std::vector<double> values(take<std::size_t>());
    copy_out(values.data(), values.size() * sizeof(double));
    return values;
  }

 private:
  void copy_out(void* to, std::size_t bytes) {
    if (bytes == 0) return;  // `to` may be null then
    std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }

  std::span<const std::byte> left_;
};

}  // namespace busbw
