// Reads the build id from the notes of the loaded program. Segments of type PT_NOTE (ELF) contain notes. The owner of
// the note with the build id is "GNU".
#include "common/os/program_file.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/support/printable.hpp"

namespace busbw {
namespace {

constexpr std::string_view kGnuOwner{"GNU", 4};  // including the terminating zero

/// Callback of dl_iterate_phdr. Reads the build id of the first object, which is the program.
int read_build_id(dl_phdr_info* object, std::size_t, void* result) {
  auto& build_id = *static_cast<std::optional<std::string>*>(result);
  for (int i = 0; i < object->dlpi_phnum && !build_id; ++i) {
    const ElfW(Phdr) & segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
    // ELF pads notes to 4 bytes. Linkers pad to 8 only in segments with that alignment, such as .note.gnu.property.
    const std::size_t alignment = segment.p_align == 8 ? 8 : 4;
    build_id = build_id_in_notes({begin, segment.p_memsz}, alignment);
  }
  return 1;  // stops at this object
}

}  // namespace

std::optional<std::string> build_id_in_notes(std::span<const std::byte> notes, std::size_t alignment) {
  const auto padded = [&](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    const std::size_t owner_offset = sizeof header;
    const std::size_t content_offset = padded(owner_offset + header.n_namesz);
    const std::size_t end_offset = content_offset + header.n_descsz;
    if (end_offset > notes.size()) break;
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()) + owner_offset, header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && owner == kGnuOwner && header.n_descsz > 0)
      return hexadecimal(notes.subspan(content_offset, header.n_descsz));
    notes = notes.subspan(std::min(padded(end_offset), notes.size()));
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
