#include "common/os/program_file.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {
namespace {

using Notes = std::vector<std::byte>;

void pad(Notes& notes, std::size_t alignment) {
  while (notes.size() % alignment != 0) notes.push_back(std::byte{0});
}

/// An ELF note: lengths of owner and text, type, owner, text.
void add(Notes& notes, std::string_view owner, unsigned type, std::string_view text, std::size_t alignment) {
  const auto put = [&](std::string_view letters) {
    for (const char letter : letters) notes.push_back(static_cast<std::byte>(letter));
  };
  for (const auto number : {static_cast<unsigned>(owner.size()), static_cast<unsigned>(text.size()), type})
    put({reinterpret_cast<const char*>(&number), sizeof number});
  put(owner);
  pad(notes, alignment);
  put(text);
  pad(notes, alignment);
}

constexpr std::string_view kGnu{"GNU", 4};
constexpr std::string_view kOther{"Someone", 8};

}  // namespace

TEST_CASE("program_build_id: the 20 bytes set by the linker") {
  const auto build = program_build_id();
  REQUIRE(build.has_value());
  CHECK(build->size() == 40);
  CHECK(build->find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("program_path: the path of this program") {
  const auto path = program_path();
  REQUIRE(path.has_value());
  CHECK(path->starts_with('/'));
  CHECK(std::filesystem::equivalent(*path, "/proc/self/exe"));
}

TEST_CASE("build_id_in_notes: found after other notes, for both alignments") {
  for (const std::size_t alignment : {4, 8}) {
    CAPTURE(alignment);
    Notes notes;
    add(notes, kGnu, NT_GNU_ABI_TAG, "abcdefghijklmnop", alignment);
    add(notes, kOther, NT_GNU_BUILD_ID, "12", alignment);
    add(notes, kGnu, NT_GNU_BUILD_ID, "\x01\xab\xff", alignment);
    CHECK(build_id_in_notes(notes, alignment) == "01abff");
  }
}

TEST_CASE("build_id_in_notes: the last note needs no padding") {
  Notes notes;
  add(notes, kGnu, NT_GNU_BUILD_ID, "\x01", 4);
  notes.resize(notes.size() - 3);
  CHECK(build_id_in_notes(notes, 4) == "01");
}

TEST_CASE("build_id_in_notes: nothing if the note is missing, empty or cut off") {
  CHECK_FALSE(build_id_in_notes({}, 4).has_value());
  Notes notes;
  add(notes, kOther, NT_GNU_BUILD_ID, "12", 4);
  CHECK_FALSE(build_id_in_notes(notes, 4).has_value());
  add(notes, kGnu, NT_GNU_BUILD_ID, "", 4);
  CHECK_FALSE(build_id_in_notes(notes, 4).has_value());
  Notes cut;
  add(cut, kGnu, NT_GNU_BUILD_ID, "12345678", 4);
  for (cut.pop_back(); !cut.empty(); cut.pop_back()) CHECK_FALSE(build_id_in_notes(cut, 4).has_value());
}

}  // namespace busbw
