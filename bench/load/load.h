// The load of the benchmark: clients and backends in one process, so that neither waits for the other to be scheduled.
// Each thread has an epoll set of its own with listeners (SO_REUSEPORT) and clients; nothing on the way takes a lock.
//
//   main.c       arguments, phases, the result as JSON lines
//   loop.c       one thread: waits, hands events out, starts what is due
//   backend.c    the accepted side: answers a hello, echoes, takes or gives bytes
//   flood.c      clients that send a hello, want one byte and leave; and those that ask whether a name is served yet
//   tunnel.c     clients that stay: pings of one byte, and bulk
//   web.c        HTTP/1.1: clients that ask again on the same connection, and the backend that answers them
//   histogram.c  latencies

#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind { ANSWER, ECHO, SINK, SOURCE, WEB, KINDS };
enum role { NOBODY, LISTENER, BACKEND, FLOOD, PROBE, PING, DOWN, UP, ASK };
// SETUP opens the tunnels, STOPPING lets what is under way finish, CLOSING ends the tunnels from the backend's side.
enum phase { SETUP, RUNNING, STOPPING, CLOSING, OVER };

// The part of a host name that differs: the hello's SNI begins with it and is the same from there on.
#define NAME_LENGTH 7
// What a backend of kind ANSWER says; a refusal would begin with 0x15 (TLS alert).
#define ANSWER_BYTE 'A'
#define PING_BYTE 'p'
#define BULK_CHUNK (256 * 1024)
// Of the bytes that bulk tunnels carry: a prime, so that no power of two maps the pattern onto itself.
#define PATTERN_PERIOD 65521
#define SHAPES 4

struct options {
  int listen[KINDS];
  int dial[KINDS];
  int threads;
  double seconds;
  bool until_end;
  int flood;
  double flood_rate;
  int hosts;
  int pings;
  double ping_every;
  int down;
  int up;
  int requests;
  size_t body;
  size_t posted;        // bytes of a request's body, at most a BULK_CHUNK
  bool any;             // backends listen on all addresses, for proxies in other network namespaces
  uint8_t *hello;
  size_t hello_length;
  size_t name_at;
};

// 64 steps to each power of two: within 1.6 %.
#define HISTOGRAM_STEPS 64
#define HISTOGRAM_SIZE (HISTOGRAM_STEPS * 42)
struct histogram {
  uint64_t counts[HISTOGRAM_SIZE];
  uint64_t total;
  uint64_t max;
};

struct errors {
  uint64_t refused;  // closed, or answered otherwise
  uint64_t reset;    // by a socket error
  uint64_t late;     // no answer in time
  uint64_t corrupt;  // bytes other than those that were sent
  uint64_t local;    // this program's own: no socket, no port
};

// One for each file descriptor, used by the thread that opened it.
struct connection {
  uint8_t role;
  uint8_t kind;
  uint8_t thread;
  bool ready;    // the backend has the hello; the client knows that it has
  bool waiting;  // for the answer to a ping or a request; of a backend: the answer is not all out
  bool shut;     // nothing more will be sent
  uint32_t hello;
  uint32_t reads;
  uint64_t since;
  uint64_t offset;
  size_t left;   // of a backend: what is still to come of the request's body
  char name[NAME_LENGTH];
};

struct thread {
  int number;
  int epoll;
  enum phase phase;
  uint64_t random;
  uint8_t *scratch;
  uint8_t *hello;
  int flying;         // flood connections under way
  double next_flood;  // seconds; when the next is due at a given rate
  double next_sweep;
  int tunnels[SHAPES];  // still to open: pings, down, up, requests
  int opening;        // tunnels whose first byte is not back
  int tunnels_opened;
  int *pings;         // file descriptors of this thread's ping tunnels, -1 when lost
  int ping_count;
  int ping_turn;
  double next_ping;
  int waiting;        // pings and requests without an answer
  int receiving;      // bulk connections that have not seen the end
  int probes;
  double next_probe;
  _Atomic int seen;   // the phase that `busy` and `open` speak of
  _Atomic int busy;   // what has yet to finish when stopping
  _Atomic int open;   // tunnels that have yet to close when closing
  uint64_t connections;
  uint64_t dropped;   // tunnels that ended on their own
  uint64_t sent, received;
  struct errors errors;
  struct histogram flood_times;
  struct histogram ping_times;
  struct histogram request_times;
};

extern struct options options;
extern struct connection *connections;
extern uint8_t *pattern;
extern _Atomic int current_phase;
// Tunnels that both ends know of.
extern _Atomic int established;
extern int max_fds;
// The name to ask for, and when (CLOCK_MONOTONIC, ns) it was first served.
extern char probe_name[NAME_LENGTH];
extern _Atomic bool probing;
extern _Atomic uint64_t served_at;

uint64_t nanoseconds(void);
double seconds(void);

void *run_thread(void *thread);
void watch(struct thread *thread, int fd, uint32_t events);
void rewatch(struct thread *thread, int fd, uint32_t events);
struct connection *adopt(struct thread *thread, int fd, enum role role);
void drop(int fd);
// Connects and sends the hello; -1 when that failed, which is counted.
int dial_with_hello(struct thread *thread, enum kind kind, enum role role, const char *name, int source);
// Sends the hello where the connect did not let it go at once. False while it still does not.
bool hello_sent(struct thread *thread, int fd, struct connection *connection);

void open_listeners(struct thread *thread);
void on_listener(struct thread *thread, int fd);
void on_backend(struct thread *thread, int fd, uint32_t events);
void backend_phase(struct thread *thread, int fd);

void launch_floods(struct thread *thread);
void launch_probe(struct thread *thread);
void on_flood(struct thread *thread, int fd, uint32_t events);
void sweep_floods(struct thread *thread);

void open_tunnels(struct thread *thread);
void on_tunnel(struct thread *thread, int fd, uint32_t events);
void tunnel_phase(struct thread *thread, int fd);
void send_due_pings(struct thread *thread);
// The end of a tunnel, wanted or not.
void lose(struct thread *thread, int fd);
// One chunk of the pattern. False when the connection is lost.
bool move_out(struct thread *thread, int fd, struct connection *connection);
// What is there of the pattern. False at the end, or when the connection is lost.
bool take_in(struct thread *thread, int fd, struct connection *connection);

// Makes the request that all clients send, and the answer that it gets.
void prepare_web(void);
void on_web(struct thread *thread, int fd, struct connection *connection, uint32_t events);
void on_answer(struct thread *thread, int fd, struct connection *connection);
// False while the socket does not take it.
bool send_request(struct thread *thread, int fd, struct connection *connection);

void observe(struct histogram *histogram, uint64_t nanoseconds);
void merge(struct histogram *into, const struct histogram *from);
double percentile_us(const struct histogram *histogram, double share);
