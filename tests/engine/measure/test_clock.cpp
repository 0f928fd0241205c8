#include "measure/clock.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

using namespace busbw;

namespace {

/// True if the text matches the pattern, in which 9 stands for a digit and + for a sign.
bool reads_like(std::string_view text, std::string_view pattern) {
  return std::ranges::equal(text, pattern, [](char letter, char wanted) {
    if (wanted == '9') return letter >= '0' && letter <= '9';
    if (wanted == '+') return letter == '+' || letter == '-';
    return letter == wanted;
  });
}

/// Sets another time zone while the object lives.
class TimeZone {
 public:
  explicit TimeZone(const char* zone) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    setenv("TZ", zone, 1);
    tzset();
  }
  ~TimeZone() {
    before_ ? setenv("TZ", before_->c_str(), 1) : unsetenv("TZ");
    tzset();
  }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("monotonic_s: never goes back") {
  double last = monotonic_s();
  for (int i = 0; i < 10'000; ++i) {
    const double now = monotonic_s();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("monotonic_s: resolves microseconds") {
  double smallest_step = 1;
  for (int i = 0; i < 10'000; ++i) {
    const double before = monotonic_s();
    const double after = monotonic_s();
    if (after > before) smallest_step = std::min(smallest_step, after - before);
  }
  CHECK(smallest_step < 1e-5);
}

TEST_CASE("wall_time: the three formats") {
  const WallTime now = wall_time();
  CHECK(reads_like(now.local, "9999-99-99 99:99:99"));
  CHECK(reads_like(now.iso, "9999-99-99T99:99:99.999+99:99"));
  CHECK(reads_like(now.compact, "99999999T999999Z"));
  // The three texts show the same moment.
  CHECK(now.local.substr(0, 10) == now.iso.substr(0, 10));
  CHECK(now.local.substr(11) == now.iso.substr(11, 8));
}

TEST_CASE("wall_time: the offset of the zone, east and west, with half hours") {
  const auto offset_in = [](const char* zone) {
    const TimeZone there(zone);
    return wall_time().iso.substr(23);
  };
  CHECK(offset_in("UTC0") == "+00:00");
  CHECK(offset_in("XXX-05:30") == "+05:30");  // POSIX counts west of Greenwich
  CHECK(offset_in("XXX+03:30") == "-03:30");
  CHECK(offset_in("XXX+00:30") == "-00:30");
  CHECK(offset_in("XXX-14") == "+14:00");
}

TEST_CASE("wall_time: the compact form is UTC in every time zone") {
  const TimeZone there("XXX-12");
  const WallTime now = wall_time();
  CHECK(now.compact.substr(9, 2) != now.local.substr(11, 2));
}
