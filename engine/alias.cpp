// Installed as all_reduce_perf and the other ten: starts the engine beside it under its own name. A wheel cannot hold
// links, and a copy of the engine under each name would be eleven times its size.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr int kExitEnvironment = 3;  // support/error.hpp; not included, to stay free of the C++ library
constexpr char kEngine[] = "busbw-engine";

}  // namespace

int main(int argc, char** argv) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) {
    fprintf(stderr, "%s: cannot read /proc/self/exe, which says where busbw is installed; mount /proc\n", argv[0]);
    return kExitEnvironment;
  }
  self[length] = '\0';
  char* const name = strrchr(self, '/') + 1;

  char engine[PATH_MAX + sizeof kEngine];
  const auto directory_length = static_cast<size_t>(name - self);
  memcpy(engine, self, directory_length);
  memcpy(engine + directory_length, kEngine, sizeof kEngine);

  // The file's name, so that a link of any name to this file means this collective; one that only adds to the name, as
  // nccl-tests' NAME_SUFFIX does (all_reduce_perf_mpi), is what the table shows.
  char* alone[] = {name, nullptr};  // who starts it without even a name gives no arguments either
  if (argc < 1) argv = alone;
  if (char* const slash = strrchr(argv[0], '/')) argv[0] = slash + 1;
  if (strncmp(argv[0], name, strlen(name)) != 0) argv[0] = name;
  execv(engine, argv);
  fprintf(stderr, "%s: cannot start %s: %s; the two belong together, install busbw again\n", argv[0], engine,
          strerror(errno));
  return kExitEnvironment;
}
