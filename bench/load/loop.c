// One thread of the load: waits for events and hands them to whom they belong, starts what is due, and tells the main
// thread how much is still under way.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define EVENTS 256
#define SWEEP_EVERY 0.5

static void change_phase(struct thread *thread, enum phase phase);
static void start_due(struct thread *thread);
static void wait_for_events(struct thread *thread);
static double until_next(const struct thread *thread);
static bool send_hello(struct thread *thread, int fd, struct connection *connection);

void *run_thread(void *argument) {
  struct thread *thread = argument;
  while (atomic_load(&current_phase) != OVER) {
    const enum phase phase = (enum phase)atomic_load(&current_phase);
    if (phase != thread->phase) change_phase(thread, phase);
    start_due(thread);
    wait_for_events(thread);
    atomic_store(&thread->busy, thread->flying + thread->waiting + thread->receiving);
    atomic_store(&thread->open, thread->tunnels_opened);
    atomic_store(&thread->seen, (int)phase);
  }
  return NULL;
}

static void change_phase(struct thread *thread, enum phase phase) {
  thread->phase = phase;
  thread->next_flood = seconds();
  for (int fd = 0; fd < max_fds; fd++) {
    if (connections[fd].thread != thread->number) continue;
    if (connections[fd].role == BACKEND) backend_phase(thread, fd);
    if (connections[fd].role >= PING) tunnel_phase(thread, fd);
  }
}

static void start_due(struct thread *thread) {
  if (thread->phase == SETUP) open_tunnels(thread);
  if (thread->phase == RUNNING) {
    if (options.flood > 0) launch_floods(thread);
    if (options.ping_every > 0) send_due_pings(thread);
    if (thread->number == 0 && atomic_load(&probing) && atomic_load(&served_at) == 0) launch_probe(thread);
  }
  if (thread->flying > 0 && seconds() >= thread->next_sweep) {
    thread->next_sweep = seconds() + SWEEP_EVERY;
    sweep_floods(thread);
  }
}

static void wait_for_events(struct thread *thread) {
  struct epoll_event events[EVENTS];
  const double wait = until_next(thread);
  const struct timespec timeout = {.tv_sec = 0, .tv_nsec = (long)(wait * 1e9)};
  const int count = epoll_pwait2(thread->epoll, events, EVENTS, &timeout, NULL);
  for (int i = 0; i < count; i++) {
    const int fd = events[i].data.fd;
    switch (connections[fd].role) {
      case LISTENER:
        on_listener(thread, fd);
        break;
      case BACKEND:
        on_backend(thread, fd, events[i].events);
        break;
      case FLOOD:
      case PROBE:
        on_flood(thread, fd, events[i].events);
        break;
      case PING:
      case DOWN:
      case UP:
      case ASK:
        on_tunnel(thread, fd, events[i].events);
        break;
      default:
        break;
    }
  }
}

// Seconds. What the main thread says is noticed within the longest.
static double until_next(const struct thread *thread) {
  if (thread->phase != RUNNING) return 0.001;
  double next = seconds() + 0.01;
  const bool pings = options.ping_every > 0 && thread->ping_count > 0;
  if (pings && thread->next_ping < next) next = thread->next_ping;
  if (options.flood_rate > 0 && thread->next_flood < next) next = thread->next_flood;
  if (thread->number == 0 && atomic_load(&probing) && thread->next_probe < next) next = thread->next_probe;
  const double wait = next - seconds();
  return wait > 0 ? wait : 0;
}

void watch(struct thread *thread, int fd, uint32_t events) {
  struct epoll_event event = {.events = events, .data.fd = fd};
  epoll_ctl(thread->epoll, EPOLL_CTL_ADD, fd, &event);
}

void rewatch(struct thread *thread, int fd, uint32_t events) {
  struct epoll_event event = {.events = events, .data.fd = fd};
  epoll_ctl(thread->epoll, EPOLL_CTL_MOD, fd, &event);
}

struct connection *adopt(struct thread *thread, int fd, enum role role) {
  if (fd >= max_fds) abort();  // RLIMIT_NOFILE is max_fds
  struct connection *connection = &connections[fd];
  memset(connection, 0, sizeof *connection);
  connection->role = (uint8_t)role;
  connection->thread = (uint8_t)thread->number;
  return connection;
}

// A file descriptor has one event in a batch, and it is dropped by its own: none is left for whoever gets it next.
void drop(int fd) {
  connections[fd].role = NOBODY;
  close(fd);
}

int dial_with_hello(struct thread *thread, enum kind kind, enum role role, const char *name, int source) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    thread->errors.local++;
    return -1;
  }
  const int on = 1;
  if (source > 0) {
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (unsigned)source)};
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&from, sizeof from) != 0) thread->errors.local++;
  }
  const struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)options.dial[kind]),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct connection *connection = adopt(thread, fd, role);
  connection->kind = (uint8_t)kind;
  connection->since = nanoseconds();
  memcpy(connection->name, name, NAME_LENGTH);
  if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    if (errno == EADDRNOTAVAIL) thread->errors.local++;
    else if (role != PROBE) thread->errors.reset++;
    drop(fd);
    return -1;
  }
  // On loopback the connection stands when connect() returns, so the hello can mostly go at once.
  watch(thread, fd, EPOLLIN | EPOLLRDHUP | (send_hello(thread, fd, connection) ? 0 : EPOLLOUT));
  return fd;
}

bool hello_sent(struct thread *thread, int fd, struct connection *connection) {
  if (connection->hello == options.hello_length) return true;
  if (!send_hello(thread, fd, connection)) return false;
  rewatch(thread, fd, EPOLLIN | EPOLLRDHUP);
  return true;
}

static bool send_hello(struct thread *thread, int fd, struct connection *connection) {
  if (connection->role == ASK) return send_request(thread, fd, connection);
  memcpy(thread->hello + options.name_at, connection->name, NAME_LENGTH);
  // A ping tunnel's first byte goes with it, and comes back when the backend has both.
  const size_t length = options.hello_length + (connection->role == PING);
  const ssize_t sent = send(fd, thread->hello, length, MSG_NOSIGNAL);
  if (sent < 0) return errno != EAGAIN && errno != ENOTCONN;  // another error shows when it is read from
  if ((size_t)sent != length) abort();  // an empty send buffer takes far more than a hello
  connection->hello = (uint32_t)options.hello_length;
  return true;
}

uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

double seconds(void) { return (double)nanoseconds() / 1e9; }
