// Clients that stay: each sends a hello, waits until its first byte is back, and then pings or moves bytes. Those that
// ask over HTTP are opened and closed here too.

#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "load.h"

// At once: less than what a listener queues.
#define MAX_OPENING 128
// More tunnels than an address has ports need several. All of 127.0.0.0/8 is ours.
#define SOURCES 8
// Most of what comes is counted and not copied (MSG_TRUNC), so that this program is faster than what it measures; of
// these reads one is looked at.
#define VERIFY_EVERY 64

static void on_ping(struct thread *thread, int fd, struct connection *connection);
static void on_down(struct thread *thread, int fd, struct connection *connection);
static void on_up(struct thread *thread, int fd, struct connection *connection, uint32_t events);
static void ping(struct thread *thread, int fd, struct connection *connection, uint64_t since);

void open_tunnels(struct thread *thread) {
  static const struct {
    enum kind kind;
    enum role role;
    const char *name;
  } shapes[] = {{ECHO, PING, "echo000"}, {SOURCE, DOWN, "source0"}, {SINK, UP, "sink000"}, {WEB, ASK, "web0000"}};
  for (int shape = 0; shape < SHAPES; shape++) {
    while (thread->tunnels[shape] > 0 && thread->opening < MAX_OPENING) {
      const int source = 1 + thread->tunnels_opened % SOURCES;
      const enum role role = shapes[shape].role;
      const int fd = dial_with_hello(thread, shapes[shape].kind, role, shapes[shape].name, source);
      if (fd < 0) return;
      thread->tunnels[shape]--;
      thread->tunnels_opened++;
      if (role == UP) continue;  // the backend knows when it stands
      thread->opening++;
      if (role != PING) continue;
      thread->pings[thread->ping_count++] = fd;
      connections[fd].waiting = true;
    }
  }
}

void on_tunnel(struct thread *thread, int fd, uint32_t events) {
  struct connection *connection = &connections[fd];
  if (!hello_sent(thread, fd, connection)) return;
  if (connection->role == PING) return on_ping(thread, fd, connection);
  if (connection->role == DOWN) return on_down(thread, fd, connection);
  if (connection->role == ASK) return on_answer(thread, fd, connection);
  on_up(thread, fd, connection, events);
}

// What a change of phase means for a tunnel.
void tunnel_phase(struct thread *thread, int fd) {
  struct connection *connection = &connections[fd];
  const bool never = options.ping_every < 0;
  if (connection->role == PING && !connection->waiting) {
    // Tunnels that were idle all the time show once that they are alive.
    const bool closed_loop = options.ping_every == 0 && thread->phase == RUNNING;
    if (never ? thread->phase == STOPPING : closed_loop) ping(thread, fd, connection, nanoseconds());
  }
  if (connection->role == ASK && thread->phase == RUNNING && !connection->waiting)
    send_request(thread, fd, connection);
  // The proxy keeps its connections to the backend: here the client closes.
  if (connection->role == ASK && thread->phase >= CLOSING) return lose(thread, fd);
  if (connection->role != UP || connection->hello < options.hello_length) return;
  if (thread->phase == RUNNING) rewatch(thread, fd, EPOLLIN | EPOLLOUT);
  if (thread->phase < STOPPING || connection->shut) return;
  connection->shut = true;
  rewatch(thread, fd, EPOLLIN);
  shutdown(fd, SHUT_WR);
}

// Tunnels take turns, so that pings are spread evenly. One that still waits for an answer is owed a ping since it
// was due: a stall counts for all the pings that it held up.
void send_due_pings(struct thread *thread) {
  if (thread->ping_count == 0) return;
  const double step = options.ping_every / thread->ping_count;
  const double now = seconds();
  if (thread->next_ping == 0) thread->next_ping = now;
  while (thread->next_ping <= now) {
    const int fd = thread->pings[thread->ping_turn];
    thread->ping_turn = (thread->ping_turn + 1) % thread->ping_count;
    thread->next_ping += step;
    if (fd < 0) continue;
    struct connection *connection = &connections[fd];
    if (!connection->waiting) ping(thread, fd, connection, nanoseconds());
    else if (connection->offset == 0) connection->offset = nanoseconds();
  }
}

static void on_ping(struct thread *thread, int fd, struct connection *connection) {
  uint8_t bytes[16];
  const ssize_t length = recv(fd, bytes, sizeof bytes, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return lose(thread, fd);
  if (length != 1 || bytes[0] != PING_BYTE || !connection->waiting) thread->errors.corrupt++;
  connection->waiting = false;
  if (!connection->ready) {
    connection->ready = true;
    thread->opening--;
    atomic_fetch_add(&established, 1);
    return;
  }
  thread->waiting--;
  const uint64_t now = nanoseconds();
  observe(&thread->ping_times, now - connection->since);
  if (thread->phase != RUNNING) return;
  if (options.ping_every == 0) return ping(thread, fd, connection, now);
  if (connection->offset == 0) return;
  const uint64_t due = connection->offset;
  connection->offset = 0;
  ping(thread, fd, connection, due);
}

static void on_down(struct thread *thread, int fd, struct connection *connection) {
  const uint64_t before = connection->offset;
  const bool goes_on = take_in(thread, fd, connection);
  if (!connection->ready && connection->offset > before) {
    connection->ready = true;
    thread->opening--;
    thread->receiving++;
    atomic_fetch_add(&established, 1);
  }
  if (goes_on) return;
  if (connection->ready) thread->receiving--;
  lose(thread, fd);
}

static void on_up(struct thread *thread, int fd, struct connection *connection, uint32_t events) {
  if ((events & EPOLLOUT) != 0 && thread->phase == RUNNING) {
    if (!move_out(thread, fd, connection)) return lose(thread, fd);
  } else if ((events & EPOLLOUT) != 0) {
    rewatch(thread, fd, EPOLLIN);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  uint8_t byte;
  const ssize_t length = recv(fd, &byte, 1, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  lose(thread, fd);
}

bool move_out(struct thread *thread, int fd, struct connection *connection) {
  const uint8_t *from = pattern + connection->offset % PATTERN_PERIOD;
  const ssize_t length = send(fd, from, BULK_CHUNK, MSG_NOSIGNAL);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  connection->offset += (uint64_t)length;
  thread->sent += (uint64_t)length;
  return true;
}

bool take_in(struct thread *thread, int fd, struct connection *connection) {
  const bool verify = connection->reads++ % VERIFY_EVERY == 0;
  const ssize_t length =
      verify ? recv(fd, thread->scratch, BULK_CHUNK, 0) : recv(fd, NULL, 4 * BULK_CHUNK, MSG_TRUNC);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  if (length == 0) return false;
  const uint8_t *expected = pattern + connection->offset % PATTERN_PERIOD;
  if (verify && memcmp(thread->scratch, expected, (size_t)length) != 0) thread->errors.corrupt++;
  connection->offset += (uint64_t)length;
  thread->received += (uint64_t)length;
  return true;
}

static void ping(struct thread *thread, int fd, struct connection *connection, uint64_t since) {
  const uint8_t byte = PING_BYTE;
  connection->since = since;
  connection->waiting = true;
  thread->waiting++;
  if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1) lose(thread, fd);
}

void lose(struct thread *thread, int fd) {
  struct connection *connection = &connections[fd];
  // The backend's thread may have seen the phase first.
  const int phase = atomic_load(&current_phase);
  const bool answers = connection->role == PING || connection->role == ASK;
  const bool wanted = phase >= CLOSING || (!answers && phase >= STOPPING);
  if (!wanted) thread->dropped++;
  if (answers && connection->ready && connection->waiting) thread->waiting--;
  if (connection->role == PING) {
    for (int i = 0; i < thread->ping_count; i++)
      if (thread->pings[i] == fd) thread->pings[i] = -1;
  }
  if (connection->role != UP && !connection->ready) thread->opening--;
  thread->tunnels_opened--;
  drop(fd);
}
