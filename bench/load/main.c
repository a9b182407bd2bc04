// Arguments, phases and result. Prints JSON lines: {"event":"running"} once all tunnels stand, {"event":"served"} when
// a probe was, and {"event":"result"} at the end. Reads lines: `probe NAME` asks for a name until it is served,
// `end` ends what has no duration.

#define _GNU_SOURCE
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load.h"

#define SETUP_SECONDS 30.0
#define STOP_SECONDS 6.0
#define CLOSE_SECONDS 5.0
#define MAX_THREADS 64
// Memory for a table by file descriptor; no scenario needs more.
#define MAX_FDS (1 << 18)

struct options options = {.threads = 1, .seconds = 1, .hosts = 1};
struct connection *connections;
uint8_t *pattern;
_Atomic int current_phase = SETUP;
_Atomic int established;
char probe_name[NAME_LENGTH];
_Atomic bool probing;
_Atomic uint64_t served_at;
int max_fds;

static struct thread *threads[MAX_THREADS];

static void read_arguments(int count, char **arguments);
static void read_ports(const char *text, int *ports);
static void read_hello(const char *path);
static void prepare(void);
static struct thread *new_thread(int number);
static bool wait_for(int wanted, double limit);
static int total(bool busy);
static void obey(int timeout_ms, bool *ended);
static void print_result(double elapsed, double cpu_before, bool set_up);
static double cpu_seconds(void);
static void print_count(const char *name, uint64_t count);
static void print_times(const char *name, const struct histogram *times);

int main(int count, char **arguments) {
  read_arguments(count, arguments);
  prepare();
  pthread_t handles[MAX_THREADS];
  for (int i = 0; i < options.threads; i++) threads[i] = new_thread(i);
  for (int i = 0; i < options.threads; i++) pthread_create(&handles[i], NULL, run_thread, threads[i]);

  const int tunnels = options.pings + options.down + options.up + options.requests;
  const bool set_up = wait_for(tunnels, SETUP_SECONDS);
  const double cpu_before = cpu_seconds();
  const double started = seconds();
  double elapsed = 0;
  if (set_up) {
    atomic_store(&current_phase, RUNNING);
    printf("{\"event\":\"running\"}\n");
    bool ended = false;
    bool told = false;
    while (!ended) {
      const double left = options.seconds - (seconds() - started);
      if (!options.until_end && left <= 0) break;
      obey(options.until_end || left > 0.002 ? 1 : (int)(left * 1000), &ended);
      const uint64_t served = atomic_load(&served_at);
      if (served != 0 && !told)
        printf("{\"event\":\"served\",\"at\":\"%llu\"}\n", (unsigned long long)served);
      told = told || served != 0;
    }
    elapsed = seconds() - started;
    atomic_store(&current_phase, STOPPING);
    wait_for(-1, STOP_SECONDS);
  }
  atomic_store(&current_phase, CLOSING);
  wait_for(-2, CLOSE_SECONDS);
  print_result(elapsed, cpu_before, set_up);
  atomic_store(&current_phase, OVER);
  for (int i = 0; i < options.threads; i++) pthread_join(handles[i], NULL);
  return 0;
}

static void read_arguments(int count, char **arguments) {
  enum {
    LISTEN, DIAL, HELLO, NAME_AT, THREADS, SECONDS, FLOOD_AT_ONCE, RATE, HOSTS, PINGS, EVERY, DOWNS, UPS, REQUESTS,
    BODY, POSTED, ANY
  };
  static const struct option known[] = {
      {"listen", required_argument, NULL, LISTEN},   {"dial", required_argument, NULL, DIAL},
      {"hello", required_argument, NULL, HELLO},     {"name-at", required_argument, NULL, NAME_AT},
      {"threads", required_argument, NULL, THREADS}, {"seconds", required_argument, NULL, SECONDS},
      {"flood", required_argument, NULL, FLOOD_AT_ONCE}, {"rate", required_argument, NULL, RATE},
      {"hosts", required_argument, NULL, HOSTS},     {"pings", required_argument, NULL, PINGS},
      {"every", required_argument, NULL, EVERY},     {"down", required_argument, NULL, DOWNS},
      {"up", required_argument, NULL, UPS},          {"requests", required_argument, NULL, REQUESTS},
      {"body", required_argument, NULL, BODY},       {"posted", required_argument, NULL, POSTED},
      {"any", required_argument, NULL, ANY},         {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
    switch (option) {
      case LISTEN: read_ports(optarg, options.listen); break;
      case DIAL: read_ports(optarg, options.dial); break;
      case HELLO: read_hello(optarg); break;
      case NAME_AT: options.name_at = (size_t)atol(optarg); break;
      case THREADS: options.threads = atoi(optarg); break;
      case SECONDS: options.seconds = atof(optarg); options.until_end = options.seconds <= 0; break;
      case FLOOD_AT_ONCE: options.flood = atoi(optarg); break;
      case RATE: options.flood_rate = atof(optarg); break;
      case HOSTS: options.hosts = atoi(optarg); break;
      case PINGS: options.pings = atoi(optarg); break;
      case EVERY: options.ping_every = atof(optarg); break;
      case DOWNS: options.down = atoi(optarg); break;
      case UPS: options.up = atoi(optarg); break;
      case REQUESTS: options.requests = atoi(optarg); break;
      case BODY: options.body = (size_t)atol(optarg); break;
      case POSTED: options.posted = (size_t)atol(optarg); break;
      case ANY: options.any = atoi(optarg) != 0; break;
      default: exit(64);
    }
  }
  if (options.threads < 1 || options.threads > MAX_THREADS) exit(64);
  if (options.posted > BULK_CHUNK) exit(64);
  if (options.hello_length == 0 || options.hosts < 1) exit(64);
}

static void read_ports(const char *text, int *ports) {
  const int count = sscanf(text, "%d,%d,%d,%d,%d", &ports[ANSWER], &ports[ECHO], &ports[SINK], &ports[SOURCE],
                           &ports[WEB]);
  if (count != KINDS) exit(64);
}

static void read_hello(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  options.hello = malloc(65536);
  options.hello_length = fread(options.hello, 1, 65536, file);
  fclose(file);
}

static void prepare(void) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max > MAX_FDS) files.rlim_max = MAX_FDS;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  max_fds = (int)files.rlim_cur;
  connections = calloc((size_t)max_fds, sizeof *connections);
  pattern = malloc(PATTERN_PERIOD + 5 * BULK_CHUNK);
  uint32_t state = 1;
  for (int i = 0; i < PATTERN_PERIOD + 5 * BULK_CHUNK; i++) {
    if (i >= PATTERN_PERIOD) {
      pattern[i] = pattern[i - PATTERN_PERIOD];
      continue;
    }
    state = state * 1664525u + 1013904223u;
    pattern[i] = (uint8_t)(state >> 24);
  }
  prepare_web();
  setvbuf(stdout, NULL, _IOLBF, 0);
}

static struct thread *new_thread(int number) {
  struct thread *thread = calloc(1, sizeof *thread);
  thread->number = number;
  thread->epoll = epoll_create1(EPOLL_CLOEXEC);
  thread->random = 88172645463325252ull + (uint64_t)number * 7919;
  thread->scratch = malloc(BULK_CHUNK);
  // With the byte behind it that a ping tunnel sends at once.
  thread->hello = malloc(options.hello_length + 1);
  memcpy(thread->hello, options.hello, options.hello_length);
  thread->hello[options.hello_length] = PING_BYTE;
  const int wanted[SHAPES] = {options.pings, options.down, options.up, options.requests};
  for (int i = 0; i < SHAPES; i++)
    thread->tunnels[i] = wanted[i] / options.threads + (number < wanted[i] % options.threads);
  thread->pings = malloc(sizeof(int) * (size_t)(thread->tunnels[0] + 1));
  open_listeners(thread);
  return thread;
}

// Until so many tunnels stand; with -1 until nothing is under way, with -2 until all tunnels are closed.
static bool wait_for(int wanted, double limit) {
  const double deadline = seconds() + limit;
  while (seconds() < deadline) {
    if (wanted >= 0 ? atomic_load(&established) >= wanted : total(wanted == -1) == 0) return true;
    usleep(1000);
  }
  return false;
}

// More than nothing as long as a thread has not seen the phase.
static int total(bool busy) {
  int sum = 0;
  for (int i = 0; i < options.threads; i++) {
    sum += atomic_load(&threads[i]->seen) != atomic_load(&current_phase);
    sum += atomic_load(busy ? &threads[i]->busy : &threads[i]->open);
  }
  return sum;
}

static void obey(int timeout_ms, bool *ended) {
  static bool closed = false;
  struct pollfd input = {.fd = closed ? -1 : STDIN_FILENO, .events = POLLIN};
  if (poll(&input, 1, timeout_ms) <= 0) return;
  char line[128];
  const ssize_t length = read(STDIN_FILENO, line, sizeof line - 1);
  if (length <= 0) {
    closed = true;
    *ended = options.until_end;
    return;
  }
  line[length] = '\0';
  if (strncmp(line, "probe ", 6) == 0 && length >= 6 + NAME_LENGTH) {
    memcpy(probe_name, line + 6, NAME_LENGTH);
    atomic_store(&probing, true);
  }
  if (strncmp(line, "end", 3) == 0) *ended = true;
}

static void print_result(double elapsed, double cpu_before, bool set_up) {
  static struct thread sum;
  for (int i = 0; i < options.threads; i++) {
    const struct thread *thread = threads[i];
    sum.connections += thread->connections;
    sum.dropped += thread->dropped;
    sum.sent += thread->sent;
    sum.received += thread->received;
    sum.flying += thread->flying + thread->waiting + thread->receiving;
    sum.errors.refused += thread->errors.refused;
    sum.errors.reset += thread->errors.reset;
    sum.errors.late += thread->errors.late;
    sum.errors.corrupt += thread->errors.corrupt;
    sum.errors.local += thread->errors.local;
    merge(&sum.flood_times, &thread->flood_times);
    merge(&sum.ping_times, &thread->ping_times);
    merge(&sum.request_times, &thread->request_times);
  }
  const double busy = elapsed > 0 ? (cpu_seconds() - cpu_before) / elapsed / options.threads : 0;
  printf("{\"event\":\"result\",\"seconds\":%.6f,\"busy\":%.3f,", elapsed, busy);
  print_count("connections", sum.connections);
  print_count("pings", sum.ping_times.total);
  print_count("requests", sum.request_times.total);
  print_count("sent", sum.sent);
  print_count("received", sum.received);
  print_times("connectionUs", &sum.flood_times);
  print_times("pingUs", &sum.ping_times);
  print_times("requestUs", &sum.request_times);
  printf("\"errors\":{");
  const int tunnels = options.pings + options.down + options.up + options.requests;
  print_count("setup", set_up ? 0 : (uint64_t)(tunnels - atomic_load(&established)));
  print_count("refused", sum.errors.refused);
  print_count("reset", sum.errors.reset);
  print_count("late", sum.errors.late);
  print_count("corrupt", sum.errors.corrupt);
  print_count("local", sum.errors.local);
  print_count("dropped", sum.dropped);
  print_count("unfinished", (uint64_t)sum.flying);
  printf("\"lost\":%d}}\n", sum.sent != sum.received);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double micros = (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + micros / 1e6;
}

static void print_count(const char *name, uint64_t count) { printf("\"%s\":%llu,", name, (unsigned long long)count); }

static void print_times(const char *name, const struct histogram *times) {
  printf("\"%s\":{\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f},", name, percentile_us(times, 0.5),
         percentile_us(times, 0.99), percentile_us(times, 0.999), (double)times->max / 1e3);
}
