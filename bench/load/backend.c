// The accepted side. A connection brings a whole hello, which must be the one that was sent; what follows depends on
// the port: one byte and a close, an echo, or bytes without end in one direction. HTTP has no hello: see web.c.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

// Accepted in one go, so that a burst of them does not hold up the answers.
#define ACCEPTS 64
#define SCRATCH 65536

static void on_hello(struct thread *thread, int fd, struct connection *connection);
static bool is_ours(const uint8_t *bytes, size_t at, size_t length);
static void on_ready(struct thread *thread, int fd, struct connection *connection);
static void echo(struct thread *thread, int fd, const uint8_t *bytes, size_t length);

void open_listeners(struct thread *thread) {
  for (int kind = 0; kind < KINDS; kind++) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int defer = 5;
    // Accepted with the hello, an answering connection needs no place in the epoll set.
    if (kind == ANSWER) setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof defer);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)options.listen[kind]),
                                        .sin_addr.s_addr = htonl(options.any ? INADDR_ANY : INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0) {
      fprintf(stderr, "load: cannot listen on port %d: %s\n", options.listen[kind], strerror(errno));
      exit(2);
    }
    adopt(thread, fd, LISTENER)->kind = (uint8_t)kind;
    watch(thread, fd, EPOLLIN);
  }
}

void on_listener(struct thread *thread, int listener) {
  for (int i = 0; i < ACCEPTS; i++) {
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) thread->errors.local++;
      return;
    }
    struct connection *connection = adopt(thread, fd, BACKEND);
    connection->kind = connections[listener].kind;
    if (connection->kind == ANSWER) on_hello(thread, fd, connection);
    if (connection->role == BACKEND) watch(thread, fd, EPOLLIN);
  }
}

void on_backend(struct thread *thread, int fd, uint32_t events) {
  struct connection *connection = &connections[fd];
  if (connection->kind == WEB) return on_web(thread, fd, connection, events);
  if (!connection->ready) return on_hello(thread, fd, connection);
  if (connection->kind == SINK) {
    if (take_in(thread, fd, connection)) return;
    thread->receiving--;
    return drop(fd);
  }
  if (connection->kind == SOURCE && (events & EPOLLOUT) != 0 && !connection->shut) {
    if (!move_out(thread, fd, connection)) return drop(fd);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  const ssize_t length = recv(fd, thread->scratch, SCRATCH, 0);
  if (length > 0 && connection->kind == ECHO) return echo(thread, fd, thread->scratch, (size_t)length);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  drop(fd);
}

// The hello's bytes must be ours, but for the name.
static void on_hello(struct thread *thread, int fd, struct connection *connection) {
  const size_t wanted = options.hello_length - connection->hello;
  // Only an echo may have bytes that follow at once.
  const ssize_t length = recv(fd, thread->scratch, connection->kind == ECHO ? SCRATCH : wanted, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return drop(fd);  // a proxy that was refused, or is shutting down
  const size_t part = (size_t)length < wanted ? (size_t)length : wanted;
  if (!is_ours(thread->scratch, connection->hello, part)) {
    thread->errors.corrupt++;
    return drop(fd);
  }
  connection->hello += (uint32_t)part;
  if (connection->hello < options.hello_length) return;
  connection->ready = true;
  const size_t rest = (size_t)length - part;
  if (rest > 0) echo(thread, fd, thread->scratch + part, rest);
  on_ready(thread, fd, connection);
}

static bool is_ours(const uint8_t *bytes, size_t at, size_t length) {
  const size_t name_end = options.name_at + NAME_LENGTH;
  const size_t end = at + length;
  const size_t before = end < options.name_at ? end : options.name_at;
  if (at < before && memcmp(bytes, options.hello + at, before - at) != 0) return false;
  const size_t after = at > name_end ? at : name_end;
  return after >= end || memcmp(bytes + (after - at), options.hello + after, end - after) == 0;
}

static void on_ready(struct thread *thread, int fd, struct connection *connection) {
  const uint8_t answer = ANSWER_BYTE;
  switch (connection->kind) {
    case ANSWER:
      // The backend closes first, as servers do: the side that dialled is left without a port in TIME_WAIT.
      if (send(fd, &answer, 1, MSG_NOSIGNAL) != 1) thread->errors.local++;
      return drop(fd);
    case SOURCE:
      // The first byte tells the client that the tunnel stands.
      if (send(fd, pattern, 1, MSG_NOSIGNAL) == 1) connection->offset = 1;
      thread->sent += connection->offset;
      break;
    case SINK:
      atomic_fetch_add(&established, 1);
      thread->receiving++;
      break;
    default:
      break;
  }
  backend_phase(thread, fd);
}

// What a change of phase, or having come late to it, means for a connection.
void backend_phase(struct thread *thread, int fd) {
  struct connection *connection = &connections[fd];
  if (!connection->ready || connection->shut) return;
  if (connection->kind == SOURCE) {
    if (thread->phase == RUNNING) rewatch(thread, fd, EPOLLIN | EPOLLOUT);
    if (thread->phase < STOPPING) return;
    connection->shut = true;
    rewatch(thread, fd, EPOLLIN);
    shutdown(fd, SHUT_WR);
  } else if (connection->kind == ECHO && thread->phase >= CLOSING) {
    connection->shut = true;
    shutdown(fd, SHUT_WR);
  }
}

static void echo(struct thread *thread, int fd, const uint8_t *bytes, size_t length) {
  // A ping at a time is on its way, so this always fits.
  if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) thread->errors.local++;
}
