#pragma once
// The address of process 0 in a folder that all processes see, for example on a shared file system. RendezvousPoint
// publishes the address in process 0 and reads it in the other processes.
#include <optional>
#include <string>

#include "values/message.hpp"

namespace busbw {

/// A file that only its owner can read. Process 0 calls `publish` and `withdraw`, the others call `read`.
class AddressFile {
 public:
  explicit AddressFile(std::string folder);

  /// Creates the folder if it is missing, and the file with `address` in one step. Throws EnvironmentError if that
  /// fails, or if the file exists.
  void publish(const Bytes& address);
  /// Returns the content of the file, or nothing if it does not exist yet. Throws EnvironmentError if it cannot be read
  /// or belongs to another user.
  std::optional<Bytes> read() const;
  /// Removes the file if this object published it. Also removes the folder if this object created it and it is empty.
  void withdraw() noexcept;

 private:
  std::string folder_;
  std::string path_;
  bool made_folder_ = false;
  bool is_published_ = false;
};

}  // namespace busbw
