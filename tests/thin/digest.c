/* What a driver would read of a library's GPU code: through the wrappers, each container's code for 9.0. */
#include <stdint.h>

struct wrapper { uint32_t magic, version; const unsigned char *code; const void *other; };
extern const struct wrapper wrappers[] __attribute__((visibility("hidden"))), wrappers_end[] __attribute__((visibility("hidden")));
static int filled[3000] = {1, 2, 3};
static int zeros[5000];
static __thread int own = 7;
static const char *const names[] = {"one", "two", "three"};

unsigned long digest(void) {
  unsigned long sum = (unsigned long)(filled[1] + zeros[3] + own) + (unsigned char)names[2][1];
  for (const struct wrapper *w = wrappers; w < wrappers_end; w++) {
    const unsigned char *at = w->code + 16, *end = at + *(const uint64_t *)(w->code + 8);
    if (w->magic != 0x466243B1 || *(const uint32_t *)w->code != 0xBA55ED50) return 0;
    while (at < end) {
      const unsigned char *code = at + *(const uint32_t *)(at + 4), *after = code + *(const uint64_t *)(at + 8);
      if (*(const uint32_t *)(at + 28) == 90)
        for (; at < after; at++) sum = sum * 31 + *at;
      at = after;
    }
  }
  return sum;
}
