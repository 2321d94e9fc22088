/* Compression: the elements of a block under a mask, appended to memory. Raw items of 1, 2, 4 or 8 bytes.
 *
 * pb_compress_raw(bytes, dst, mask, src, n) returns how many there were. Without branches an element is written before it is
 * known whether it stays, so that dst[i] must be writable for every i < n. Eight masks alike are taken together.
 */
#ifndef PB_COMPRESS_H
#define PB_COMPRESS_H
#include "pb_scalar.h"

#define PB_COMPRESS(BYTES)                                                                                              \
    PB_INLINE int64_t pb_compress_##BYTES(char *dst, const pb_bool *mask, const char *src, int64_t n) {                 \
        int64_t k = 0, i = 0;                                                                                           \
        for (; i + 8 <= n; i += 8) {                                                                                    \
            uint64_t eight;                                                                                             \
            memcpy(&eight, mask + i, 8);                                                                                \
            if (eight == 0) continue;                                                                                   \
            if (eight == 0x0101010101010101u) {                                                                         \
                memcpy(dst + k * BYTES, src + i * BYTES, 8 * BYTES);                                                    \
                k += 8;                                                                                                 \
                continue;                                                                                               \
            }                                                                                                           \
            for (int j = 0; j < 8; j++) {                                                                               \
                memcpy(dst + k * BYTES, src + (i + j) * BYTES, BYTES);                                                  \
                k += mask[i + j] != 0;                                                                                  \
            }                                                                                                           \
        }                                                                                                               \
        for (; i < n; i++) {                                                                                            \
            memcpy(dst + k * BYTES, src + i * BYTES, BYTES);                                                            \
            k += mask[i] != 0;                                                                                          \
        }                                                                                                               \
        return k;                                                                                                       \
    }
PB_COMPRESS(1) PB_COMPRESS(2) PB_COMPRESS(4) PB_COMPRESS(8)

static __attribute__((noinline, unused)) int64_t pb_compress_raw(int32_t bytes, char *dst, const pb_bool *mask, const char *src,
                                                                 int64_t n) {
    switch (bytes) {
    case 1: return pb_compress_1(dst, mask, src, n);
    case 2: return pb_compress_2(dst, mask, src, n);
    case 4: return pb_compress_4(dst, mask, src, n);
    default: return pb_compress_8(dst, mask, src, n);
    }
}
#endif
