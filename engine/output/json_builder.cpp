// Writes keys, values and brackets, and the commas between them.
#include "output/json_builder.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace busbw {

std::string quoted(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

void JsonBuilder::key(std::string_view name) {
  separate_value();
  text_ += '"';
  text_ += name;
  text_ += "\":";
  needs_comma_ = false;
}

void JsonBuilder::value(std::nullptr_t) {
  separate_value();
  text_ += "null";
}

void JsonBuilder::value(bool value) {
  separate_value();
  text_ += value ? "true" : "false";
}

void JsonBuilder::value(std::string_view text) {
  separate_value();
  text_ += quoted(text);
}

void JsonBuilder::value(double number) {
  if (!std::isfinite(number)) return value(nullptr);
  separate_value();
  fmt::format_to(std::back_inserter(text_), "{:.9g}", number);
}

void JsonBuilder::fixed(double number, int decimals) {
  if (!std::isfinite(number)) return value(nullptr);
  separate_value();
  fmt::format_to(std::back_inserter(text_), "{:.{}f}", number, decimals);
}

void JsonBuilder::text_object(std::string_view name, const std::vector<std::pair<std::string, std::string>>& pairs) {
  object(name, [&] {
    for (const auto& [member, text] : pairs) {
      separate_value();
      text_ += fmt::format("{}:{}", busbw::quoted(member), busbw::quoted(text));
    }
  });
}

void JsonBuilder::clear() {
  text_.clear();
  needs_comma_ = false;
}

void JsonBuilder::open(char bracket) {
  separate_value();
  text_ += bracket;
  needs_comma_ = false;
}

void JsonBuilder::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
}

/// Writes a comma if a value or member precedes the next one.
void JsonBuilder::separate_value() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

}  // namespace busbw
