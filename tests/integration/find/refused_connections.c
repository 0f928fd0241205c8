// Preloaded: with REFUSES, only connections to process 0 (the port in BUSBW_RENDEZVOUS) succeed. Processes other than 0
// write a line to LISTEN_LOG when they listen.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int socket, const struct sockaddr* address, socklen_t bytes) {
  // sin_port and sin6_port are at the same place.
  const int port = ntohs(((const struct sockaddr_in*)address)->sin_port);
  const int is_network = address->sa_family == AF_INET || address->sa_family == AF_INET6;
  const int store_port = atoi(strrchr(getenv("BUSBW_RENDEZVOUS"), ':') + 1);
  if (getenv("REFUSES") && is_network && port != store_port) {
    errno = ECONNREFUSED;
    return -1;
  }
  int (*const real)(int, const struct sockaddr*, socklen_t) = dlsym(RTLD_NEXT, "connect");
  return real(socket, address, bytes);
}

int listen(int socket, int backlog) {
  if (strcmp(getenv("BUSBW_RANK"), "0") != 0) {
    FILE* const log = fopen(getenv("LISTEN_LOG"), "a");
    fprintf(log, "rank %s\n", getenv("BUSBW_RANK"));
    fclose(log);
  }
  int (*const real)(int, int) = dlsym(RTLD_NEXT, "listen");
  return real(socket, backlog);
}
