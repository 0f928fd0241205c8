// A getifaddrs that does not return, and writes a file when it is called.
#include <fcntl.h>
#include <unistd.h>

int getifaddrs(void** interfaces) {
  (void)interfaces;
  close(creat("asked", 0600));
  for (;;) pause();
}
