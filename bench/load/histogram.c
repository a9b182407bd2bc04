// Latencies in buckets that grow with the value, so that threads count without a lock and the sum is exact.

#include "load.h"

void observe(struct histogram *histogram, uint64_t nanoseconds) {
  unsigned index;
  if (nanoseconds < HISTOGRAM_STEPS) {
    index = (unsigned)nanoseconds;
  } else {
    const unsigned power = 63 - (unsigned)__builtin_clzll(nanoseconds);
    const unsigned step = (unsigned)(nanoseconds >> (power - 6)) & (HISTOGRAM_STEPS - 1);
    index = (power - 5) * HISTOGRAM_STEPS + step;
    if (index >= HISTOGRAM_SIZE) index = HISTOGRAM_SIZE - 1;
  }
  histogram->counts[index]++;
  histogram->total++;
  if (nanoseconds > histogram->max) histogram->max = nanoseconds;
}

void merge(struct histogram *into, const struct histogram *from) {
  for (int i = 0; i < HISTOGRAM_SIZE; i++) into->counts[i] += from->counts[i];
  into->total += from->total;
  if (from->max > into->max) into->max = from->max;
}

// The middle of the bucket in which that share of all values ends.
double percentile_us(const struct histogram *histogram, double share) {
  if (histogram->total == 0) return 0;
  const double wanted = share * (double)histogram->total;
  uint64_t seen = 0;
  for (unsigned i = 0; i < HISTOGRAM_SIZE; i++) {
    seen += histogram->counts[i];
    if ((double)seen < wanted || seen == 0) continue;
    if (i < HISTOGRAM_STEPS) return i / 1e3;
    const unsigned power = i / HISTOGRAM_STEPS + 5;
    const double low = (double)(1ull << power) * (1 + (double)(i % HISTOGRAM_STEPS) / HISTOGRAM_STEPS);
    const double middle = low + (double)(1ull << power) / HISTOGRAM_STEPS / 2;
    return (middle > (double)histogram->max ? (double)histogram->max : middle) / 1e3;
  }
  return (double)histogram->max / 1e3;
}
