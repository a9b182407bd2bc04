// HTTP/1.1 over connections that stay. A client asks for the same thing again as soon as it has the whole answer; the
// backend gives so many bytes of the pattern behind a head, and compares those that came with the request. Neither side pipelines, so that what is there belongs to one
// message. A client knows how long the body must be: it only looks for where it begins, and compares its bytes.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "load.h"

#define SCRATCH 65536
// As in tunnel.c: of the reads of a large body most are counted and not copied.
#define VERIFY_EVERY 64

static const char head[] =
    "%s /page?of=the-benchmark HTTP/1.1\r\n"
    "Host: web0000.bench.test\r\n"
    "User-Agent: load\r\n"
    "Accept: */*\r\n"
    "Accept-Encoding: gzip, deflate\r\n";
static const char posted_head[] = "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n";
static const char wanted_status[] = "HTTP/1.1 200 ";

static uint8_t *request;
static size_t request_length;
// The head, and as much of the body as one write takes.
static uint8_t *answer;
static size_t answer_length;
static size_t answer_head;

static void answer_request(struct thread *thread, int fd, struct connection *connection);
static void go_on_answering(struct thread *thread, int fd, struct connection *connection);
static ssize_t receive_body(struct thread *thread, int fd, struct connection *connection);
static void take_body(struct thread *thread, int fd, struct connection *connection, const uint8_t *bytes,
                      size_t length);
static size_t find_body(struct connection *connection, const uint8_t *bytes, size_t length);

void prepare_web(void) {
  request = malloc(512 + options.posted);
  request_length = (size_t)sprintf((char *)request, head, options.posted > 0 ? "POST" : "GET");
  if (options.posted > 0)
    request_length += (size_t)sprintf((char *)request + request_length, posted_head, options.posted);
  memcpy(request + request_length, "\r\n", 2);
  memcpy(request + request_length + 2, pattern, options.posted);
  request_length += 2 + options.posted;
  const size_t first = options.body < BULK_CHUNK ? options.body : BULK_CHUNK;
  answer = malloc(256 + first);
  answer_head = (size_t)snprintf((char *)answer, 256,
                                 "HTTP/1.1 200 OK\r\nServer: load\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\n"
                                 "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
                                 options.body);
  memcpy(answer + answer_head, pattern, first);
  answer_length = answer_head + first;
}

// The backend's side.
void on_web(struct thread *thread, int fd, struct connection *connection, uint32_t events) {
  if (connection->waiting && (events & EPOLLOUT) != 0) return go_on_answering(thread, fd, connection);
  const ssize_t length = recv(fd, thread->scratch, SCRATCH, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return drop(fd);
  size_t at = 0;
  if (connection->reads < 4) {
    at = find_body(connection, thread->scratch, (size_t)length);
    if (connection->reads < 4) return;
    connection->left = options.posted;
  }
  // No request comes before the answer to the last.
  const size_t come = (size_t)length - at;
  if (come > connection->left || connection->waiting) {
    thread->errors.corrupt++;
    return drop(fd);
  }
  if (memcmp(thread->scratch + at, pattern + options.posted - connection->left, come) != 0) thread->errors.corrupt++;
  connection->left -= come;
  if (connection->left == 0) answer_request(thread, fd, connection);
}

static void answer_request(struct thread *thread, int fd, struct connection *connection) {
  connection->reads = 0;
  const ssize_t sent = send(fd, answer, answer_length, MSG_NOSIGNAL);
  // The last answer is with the proxy, or it would not have asked: there is room for a head.
  if (sent < (ssize_t)answer_head) {
    thread->errors.local++;
    return drop(fd);
  }
  connection->offset = (uint64_t)sent - answer_head;
  thread->sent += connection->offset;
  if (connection->offset == options.body) return;
  connection->waiting = true;
  rewatch(thread, fd, EPOLLIN | EPOLLOUT);
}

static void go_on_answering(struct thread *thread, int fd, struct connection *connection) {
  const size_t rest = options.body - connection->offset;
  const uint8_t *from = pattern + connection->offset % PATTERN_PERIOD;
  const ssize_t sent = send(fd, from, rest < BULK_CHUNK ? rest : BULK_CHUNK, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent < 0) return drop(fd);
  connection->offset += (uint64_t)sent;
  thread->sent += (uint64_t)sent;
  if (connection->offset < options.body) return;
  connection->waiting = false;
  rewatch(thread, fd, EPOLLIN);
}

bool send_request(struct thread *thread, int fd, struct connection *connection) {
  connection->since = nanoseconds();
  const ssize_t sent = send(fd, request, request_length, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) return false;
  // Another error shows when it is read from.
  connection->hello = (uint32_t)options.hello_length;
  connection->waiting = true;
  connection->reads = 0;
  connection->offset = 0;
  if (connection->ready) thread->waiting++;
  return true;
}

void on_answer(struct thread *thread, int fd, struct connection *connection) {
  const bool in_body = connection->reads >= 4;
  const ssize_t length =
      in_body ? receive_body(thread, fd, connection) : recv(fd, thread->scratch, SCRATCH, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return lose(thread, fd);
  if (in_body) return take_body(thread, fd, connection, NULL, (size_t)length);
  const size_t looked_at = (size_t)length < sizeof wanted_status - 1 ? (size_t)length : sizeof wanted_status - 1;
  if (connection->reads == 0 && memcmp(thread->scratch, wanted_status, looked_at) != 0) {
    thread->errors.refused++;
    return lose(thread, fd);
  }
  const size_t from = find_body(connection, thread->scratch, (size_t)length);
  if (connection->reads >= 4) take_body(thread, fd, connection, thread->scratch + from, (size_t)length - from);
}

static ssize_t receive_body(struct thread *thread, int fd, struct connection *connection) {
  if (connection->reads++ % VERIFY_EVERY != 0) return recv(fd, NULL, 4 * BULK_CHUNK, MSG_TRUNC);
  const ssize_t length = recv(fd, thread->scratch, BULK_CHUNK, 0);
  const uint8_t *expected = pattern + connection->offset % PATTERN_PERIOD;
  if (length > 0 && memcmp(thread->scratch, expected, (size_t)length) != 0) thread->errors.corrupt++;
  return length;
}

// `bytes` are those that came with the head, which nobody has compared yet.
static void take_body(struct thread *thread, int fd, struct connection *connection, const uint8_t *bytes,
                      size_t length) {
  if (bytes != NULL && memcmp(bytes, pattern, length) != 0) thread->errors.corrupt++;
  connection->offset += length;
  thread->received += length;
  if (connection->offset < options.body) return;
  if (connection->offset > options.body || !connection->waiting) thread->errors.corrupt++;
  connection->waiting = false;
  if (!connection->ready) {
    connection->ready = true;
    thread->opening--;
    atomic_fetch_add(&established, 1);
    return;
  }
  thread->waiting--;
  observe(&thread->request_times, nanoseconds() - connection->since);
  if (thread->phase == RUNNING) send_request(thread, fd, connection);
}

// Where the body begins, which is behind an empty line; the length where that has not come. `reads` is how many bytes
// of that line's end are there, and 4 from then on.
static size_t find_body(struct connection *connection, const uint8_t *bytes, size_t length) {
  static const uint8_t end[] = "\r\n\r\n";
  size_t at = 0;
  while (at < length && connection->reads < 4) {
    const uint8_t byte = bytes[at++];
    if (byte == end[connection->reads]) connection->reads++;
    else connection->reads = byte == '\r';
  }
  return at;
}
