#pragma once
// Builds JSON text from left to right in one buffer. All JSON outputs use it, so that commas, escapes and
// numbers that JSON cannot represent are handled in one place.
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbw {

/// Returns `text` between double quotes, escaped. Bytes that are not UTF-8 become U+FFFD, so the result is always valid
/// JSON.
std::string quoted(std::string_view text);

/// A JSON text under construction. The builder places commas; the caller balances open and close.
class JsonBuilder {
 public:
  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_array() { open('['); }
  void close_array() { close(']'); }
  /// Starts a member of an object. `name` is a constant of the program and is written without escaping.
  void key(std::string_view name);

  void value(std::nullptr_t);
  void value(bool value);
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  /// Writes nine significant digits. NaN and infinities, which JSON lacks, become null.
  void value(double number);
  template <std::integral Integer>
  void value(Integer number) {
    separate_value();
    text_ += std::to_string(number);
  }
  /// Writes null if `content` is empty.
  template <class T>
  void value(const std::optional<T>& content) {
    if (content) {
      value(*content);
    } else {
      value(nullptr);
    }
  }
  /// Writes `number` with a fixed number of decimals. NaN and infinities become null.
  void fixed(double number, int decimals);

  /// Writes a member with its value.
  template <class T>
  void field(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  /// Writes a member with a fixed number of decimals, as `fixed`; null without a number.
  void fixed_field(std::string_view name, const std::optional<double>& number, int decimals) {
    if (!number) return field(name, nullptr);
    key(name);
    fixed(*number, decimals);
  }

  /// Writes a member that is an array of values.
  template <class Values>
  void values(std::string_view name, const Values& elements) {
    values(name, elements, [this](const auto& element) { value(element); });
  }
  /// Writes a member that is an array. `write_element` writes one value, object or array for an element.
  template <class Values, class Write>
  void values(std::string_view name, const Values& elements, const Write& write_element) {
    key(name);
    array(elements, write_element);
  }
  /// Writes a member that is an object. `write_members` writes its members.
  template <class Write>
  void object(std::string_view name, const Write& write_members) {
    key(name);
    open_object();
    write_members();
    close_object();
  }
  /// Writes a member that is null, or an object. `write_members` takes the content and writes its members.
  template <class T, class Write>
  void object_or_null(std::string_view name, const std::optional<T>& content, const Write& write_members) {
    if (!content) return field(name, nullptr);
    object(name, [&] { write_members(*content); });
  }
  /// Writes a member that is an array of objects. `write_members` writes the members of an element's object.
  template <class Elements, class Write>
  void objects(std::string_view name, const Elements& elements, const Write& write_members) {
    values(name, elements, [&](const auto& element) {
      open_object();
      write_members(element);
      close_object();
    });
  }
  /// Writes a member that is an object with a text member for each pair of name and text. Both are escaped.
  void text_object(std::string_view name, const std::vector<std::pair<std::string, std::string>>& pairs);
  /// Writes an array without a key, for use inside another array.
  template <class Values, class Write>
  void array(const Values& elements, const Write& write_element) {
    open_array();
    for (const auto& element : elements) write_element(element);
    close_array();
  }

  /// Ends a line of JSON Lines. The caller must call clear() before the next line, because a comma would begin it.
  void end_line() { text_ += '\n'; }

  const std::string& text() const { return text_; }
  /// Empties the text but keeps its memory.
  void clear();

 private:
  void open(char bracket);
  void close(char bracket);
  void separate_value();

  std::string text_;
  bool needs_comma_ = false;  // the text ends with a complete value
};

}  // namespace busbw
