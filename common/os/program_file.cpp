#include "common/os/program_file.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace busbw {
namespace {

constexpr std::string_view kOwner{"GNU", 4};  // including the terminating zero

/// Callback of dl_iterate_phdr. Reads the build id of the first object, which is the program, and stops.
int read_build_id(dl_phdr_info* object, std::size_t, void* result) {
  auto& build_id = *static_cast<std::optional<std::string>*>(result);
  for (int i = 0; i < object->dlpi_phnum && !build_id; ++i) {
    const ElfW(Phdr) & segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
    build_id = build_id_in_notes({begin, segment.p_memsz}, segment.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::optional<std::string> build_id_in_notes(std::span<const std::byte> notes, std::size_t alignment) {
  const auto padded = [&](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    const std::size_t owner_at = sizeof header;
    const std::size_t text_at = padded(owner_at + header.n_namesz);
    const std::size_t end = text_at + header.n_descsz;
    if (end > notes.size()) break;
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()) + owner_at, header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && owner == kOwner && header.n_descsz > 0) {
      std::string text;
      for (const std::byte byte : notes.subspan(text_at, header.n_descsz))
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
      return text;
    }
    notes = notes.subspan(std::min(padded(end), notes.size()));
  }
  return std::nullopt;
}

std::optional<std::string> program_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::nullopt : std::optional(path.string());
}

std::optional<std::string> program_build_id() {
  std::optional<std::string> build_id;
  dl_iterate_phdr(read_build_id, &build_id);
  return build_id;
}

}  // namespace busbw
