#pragma once
// JSON as text, built from left to right into one buffer. The two JSON writers share it, so that commas, escapes and
// numbers that JSON cannot hold are settled in one place.
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// `text` between double quotes, escaped. Bytes that are not UTF-8 become U+FFFD, so the result is always valid JSON.
std::string quoted(std::string_view text);

/// A JSON text under construction. It places the commas; the caller balances open and close.
class JsonBuilder {
 public:
  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_array() { open('['); }
  void close_array() { close(']'); }
  /// Starts a member. `name` is one of ours and is written as it is.
  void key(std::string_view name);
  /// Starts a member whose name may be anything.
  void quoted_key(std::string_view name);

  void value(std::nullptr_t);
  void value(bool value);
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  /// Nine significant digits; NaN and infinities, which JSON lacks, become null.
  void value(double number);
  template <std::integral Integer>
  void value(Integer number) {
    before_value();
    text_ += std::to_string(number);
  }
  template <class T>
  void value(const std::optional<T>& maybe) {
    if (maybe) {
      value(*maybe);
    } else {
      value(nullptr);
    }
  }
  /// A fixed number of decimals; NaN and infinities become null.
  void fixed(double number, int decimals);

  template <class T>
  void field(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  void fixed_field(std::string_view name, double number, int decimals) {
    key(name);
    fixed(number, decimals);
  }

  /// A member that is an array of values.
  template <class Values>
  void values(std::string_view name, const Values& all) {
    values(name, all, [this](const auto& each) { value(each); });
  }
  /// The same, of what `write` writes for each: a value, an object or an array.
  template <class Values, class Write>
  void values(std::string_view name, const Values& all, const Write& write) {
    key(name);
    array(all, write);
  }
  /// An array that is itself a value of one.
  template <class Values, class Write>
  void array(const Values& all, const Write& write) {
    open_array();
    for (const auto& each : all) write(each);
    close_array();
  }

  /// Ends a line of JSON lines.
  void end_line() { text_ += '\n'; }

  const std::string& text() const { return text_; }
  /// Empties the text and keeps its memory.
  void clear();
  /// Called on an empty text: it continues a document that so far ends with a value.
  void follow_value() { needs_comma_ = true; }

 private:
  void open(char bracket);
  void close(char bracket);
  void before_value();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace busbw
