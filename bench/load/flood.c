// Clients that come and go: connect, send a hello, get one byte from the backend, see the close, leave.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "load.h"

#define LATE_NS 5000000000ull
#define PROBE_EVERY 0.001
// A gateway that is stalled must not make this program run out of sockets.
#define MAX_PROBES 64

static void finish(struct thread *thread, int fd);

// Closed loop: as many as wanted at any time. With a rate: as they are due, and no more than that at once.
void launch_floods(struct thread *thread) {
  const int limit = options.flood / options.threads + (thread->number < options.flood % options.threads);
  const double step = options.flood_rate > 0 ? options.threads / options.flood_rate : 0;
  while (thread->flying < limit) {
    if (step > 0) {
      const double now = seconds();
      if (now < thread->next_flood) return;
      thread->next_flood = thread->next_flood < now - 1 ? now : thread->next_flood + step;
    }
    // xorshift64*: which host next.
    thread->random ^= thread->random >> 12;
    thread->random ^= thread->random << 25;
    thread->random ^= thread->random >> 27;
    const uint64_t drawn = (thread->random * 2685821657736338717ull) >> 33;
    const unsigned host = (unsigned)(drawn % (uint64_t)options.hosts);
    char name[NAME_LENGTH + 1];
    snprintf(name, sizeof name, "h%06u", host % 1000000u);
    if (dial_with_hello(thread, ANSWER, FLOOD, name, 0) < 0) return;
    thread->flying++;
  }
}

void launch_probe(struct thread *thread) {
  const double now = seconds();
  if (now < thread->next_probe || thread->probes >= MAX_PROBES) return;
  thread->next_probe = now + PROBE_EVERY;
  if (dial_with_hello(thread, ANSWER, PROBE, probe_name, 0) >= 0) thread->probes++;
}

void on_flood(struct thread *thread, int fd, uint32_t events) {
  struct connection *connection = &connections[fd];
  if (!hello_sent(thread, fd, connection)) return;
  uint8_t bytes[16];
  const ssize_t length = recv(fd, bytes, sizeof bytes, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (connection->role == PROBE) {
    uint64_t unserved = 0;
    const bool served = length == 1 && bytes[0] == ANSWER_BYTE;
    if (served) atomic_compare_exchange_strong(&served_at, &unserved, nanoseconds());
    thread->probes--;
    return drop(fd);
  }
  if (length == 1 && bytes[0] == ANSWER_BYTE && !connection->ready) {
    connection->ready = true;
    observe(&thread->flood_times, nanoseconds() - connection->since);
    if ((events & EPOLLRDHUP) == 0) return;  // the close follows
    thread->connections++;
  } else if (length == 0 && connection->ready) {
    thread->connections++;
  } else if (length >= 0) {
    thread->errors.refused++;
  } else {
    thread->errors.reset++;
  }
  finish(thread, fd);
}

// Those that wait too long, looked for now and then.
void sweep_floods(struct thread *thread) {
  const uint64_t now = nanoseconds();
  for (int fd = 0; thread->flying > 0 && fd < max_fds; fd++) {
    struct connection *connection = &connections[fd];
    if (connection->role != FLOOD || connection->thread != thread->number) continue;
    if (now - connection->since < LATE_NS) continue;
    thread->errors.late++;
    finish(thread, fd);
  }
}

static void finish(struct thread *thread, int fd) {
  thread->flying--;
  drop(fd);
}
