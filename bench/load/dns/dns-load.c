// The load on a DNS server: so many queries under way at a time over UDP, each with a name of its own socket, the next one
// as soon as an answer is there. Every answer is looked at: its id, its rcode, and whether it has a record.
//
//   dns-load --port 53 --seconds 2 --at-once 128 --names 1000
//
// Half of the names are exact (h0042.bench.test), half match a wildcard (x42.apps.bench.test). Prints one line of JSON.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_SLOTS 4096
#define EVENTS 256
// A query or an answer that a full socket buffer dropped is asked again, and counted.
#define LOST_SECONDS 0.25
#define HEADER 12

struct slot {
  int fd;
  uint16_t id;
  double sent_at;
};

static struct slot slots[MAX_SLOTS];
static int port, at_once = 128, names = 1000;
static double duration = 1;
static uint64_t answers, lost, wrong, turn;
static double *times;
static uint64_t kept, most_kept = 1 << 20;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t label(uint8_t *into, const char *text) {
  const size_t length = strlen(text);
  into[0] = (uint8_t)length;
  memcpy(into + 1, text, length);
  return length + 1;
}

static void ask(struct slot *slot) {
  uint8_t query[128] = {0};
  slot->id++;
  query[0] = (uint8_t)(slot->id >> 8);
  query[1] = (uint8_t)slot->id;
  query[2] = 1;
  query[5] = 1;
  query[11] = 1;
  const uint64_t number = turn++;
  char first[32];
  const bool is_exact = number % 2 == 0;
  snprintf(first, sizeof first, is_exact ? "h%04d" : "x%d", (int)(number / 2 % (uint64_t)names));
  size_t at = HEADER;
  at += label(query + at, first);
  if (!is_exact) at += label(query + at, "apps");
  at += label(query + at, "bench");
  at += label(query + at, "test");
  query[at + 2] = 1;  // Type A, behind the root.
  query[at + 4] = 1;
  at += 5;
  query[at + 2] = 41;  // OPT with a payload of 1232.
  query[at + 3] = 0x04;
  query[at + 4] = 0xd0;
  at += 11;
  slot->sent_at = seconds();
  if (send(slot->fd, query, at, 0) < 0) lost++;
}

static void take(struct slot *slot) {
  uint8_t answer[2048];
  for (;;) {
    const ssize_t length = recv(slot->fd, answer, sizeof answer, MSG_DONTWAIT);
    if (length < 0) return;
    if (length < HEADER || ((answer[0] << 8) | answer[1]) != slot->id) continue;
    if ((answer[2] & 0x80) == 0 || (answer[3] & 0xf) != 0 || answer[7] != 1) wrong++;
    answers++;
    if (kept < most_kept) times[kept++] = seconds() - slot->sent_at;
    ask(slot);
  }
}

static int by_time(const void *a, const void *b) {
  const double first = *(const double *)a, second = *(const double *)b;
  return first < second ? -1 : first > second;
}

static double percentile_us(double share) {
  return kept == 0 ? 0 : times[(uint64_t)(share * (double)(kept - 1))] * 1e6;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **arguments) {
  static const struct option known[] = {{"port", required_argument, NULL, 'p'},
                                        {"seconds", required_argument, NULL, 's'},
                                        {"at-once", required_argument, NULL, 'a'},
                                        {"names", required_argument, NULL, 'n'},
                                        {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
    if (option == 'p') port = atoi(optarg);
    else if (option == 's') duration = atof(optarg);
    else if (option == 'a') at_once = atoi(optarg);
    else if (option == 'n') names = atoi(optarg);
    else exit(64);
  }
  if (port < 1 || at_once < 1 || at_once > MAX_SLOTS || names < 1) exit(64);
  times = malloc(most_kept * sizeof *times);
  const int epoll = epoll_create1(0);
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < at_once; i++) {
    slots[i].fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (slots[i].fd < 0 || connect(slots[i].fd, (struct sockaddr *)&server, sizeof server) < 0) {
      perror("dns-load");
      exit(2);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &slots[i]};
    epoll_ctl(epoll, EPOLL_CTL_ADD, slots[i].fd, &event);
  }
  const double started = seconds();
  const double cpu_before = cpu_seconds();
  double next_sweep = started + LOST_SECONDS;
  for (int i = 0; i < at_once; i++) ask(&slots[i]);
  double now = started;
  while (now - started < duration) {
    struct epoll_event events[EVENTS];
    const int ready = epoll_wait(epoll, events, EVENTS, 10);
    for (int i = 0; i < ready; i++) take(events[i].data.ptr);
    now = seconds();
    if (now < next_sweep) continue;
    next_sweep = now + LOST_SECONDS;
    for (int i = 0; i < at_once; i++) {
      if (now - slots[i].sent_at < LOST_SECONDS) continue;
      lost++;
      ask(&slots[i]);
    }
  }
  const double elapsed = now - started;
  qsort(times, kept, sizeof *times, by_time);
  printf("{\"seconds\":%.6f,\"busy\":%.4f,\"answers\":%llu,\"lost\":%llu,\"wrong\":%llu,\"p50\":%.1f,\"p99\":%.1f}\n",
         elapsed, (cpu_seconds() - cpu_before) / elapsed, (unsigned long long)answers, (unsigned long long)lost,
         (unsigned long long)wrong, percentile_us(0.5), percentile_us(0.99));
  return 0;
}
