#pragma once
// RAII owner of a file descriptor, and reading from it.
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace busbw {

/// Closes its file descriptor in the destructor. Can be moved, not copied. The number is -1 if nothing is open.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

/// Reads until `buffer` is full or the file ends. Returns the bytes read, or -1 with the reason in errno.
inline ssize_t read_fully(const Descriptor& file, void* buffer, std::size_t bytes) {
  std::size_t total_bytes = 0;
  while (total_bytes < bytes) {
    const ssize_t read_bytes = read(file.number(), static_cast<char*>(buffer) + total_bytes, bytes - total_bytes);
    if (read_bytes < 0 && errno == EINTR) continue;
    if (read_bytes < 0) return -1;
    if (read_bytes == 0) break;
    total_bytes += static_cast<std::size_t>(read_bytes);
  }
  return static_cast<ssize_t>(total_bytes);
}

}  // namespace busbw
