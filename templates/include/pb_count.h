/* Counts of booleans: what `mask.sum()` needs.
 *
 *   pb_rows_sum_bool, pb_cols_sum_bool   as in pb_reduce.h; the counts are i64
 *
 * Bytes are counted a vector at a time, in 8-bit lanes that cannot overflow in 255 steps.
 */
#ifndef PB_COUNT_H
#define PB_COUNT_H
#include "pb_block.h"
#include "pb_width.h"

typedef uint8_t pb_vec_u8 __attribute__((vector_size(PB_VECTOR_BYTES), aligned(1), may_alias));

PB_INLINE int64_t pb_count_bool(const pb_bool *x, int64_t n) {
    enum { L = PB_VECTOR_BYTES };
    const uint64_t even = 0x00ff00ff00ff00ffu;
    int64_t total = 0, i = 0;
    while (i + L <= n) {
        pb_vec_u8 sums = {0};
        for (int k = 0; k < 255 && i + L <= n; k++, i += L) sums -= (pb_vec_u8)(*(const pb_vec_u8 *)(x + i) != 0);
        uint64_t words[L / 8], wide = 0; /* 16-bit lanes, each at most 510 a word */
        memcpy(words, &sums, sizeof sums);
        for (unsigned k = 0; k < L / 8; k++) wide += (words[k] & even) + (words[k] >> 8 & even);
        total += (int64_t)(wide * 0x0001000100010001u >> 48);
    }
    for (; i < n; i++) total += x[i] != 0;
    return total;
}

static void pb_rows_sum_bool(char *out, const char *x, int64_t rows, int64_t n) {
    if (n == 1) {
        PB_VECTOR for (int64_t r = 0; r < rows; r++) ((int64_t *)out)[r] = ((const pb_bool *)x)[r] != 0;
        return;
    }
    for (int64_t r = 0; r < rows; r++) ((int64_t *)out)[r] = pb_count_bool((const pb_bool *)x + r * n, n);
}

static void pb_cols_sum_bool(char *out_, const char *x_, int64_t rows, int64_t n) {
    int64_t *restrict out = (int64_t *)out_;
    const pb_bool *x = (const pb_bool *)x_;
    memset(out, 0, (size_t)n * sizeof *out);
    for (; rows >= 4; rows -= 4, x += 4 * n)
        PB_VECTOR for (int64_t k = 0; k < n; k++)
            out[k] += (uint8_t)((x[k] != 0) + (x[n + k] != 0) + (x[2 * n + k] != 0) + (x[3 * n + k] != 0));
    for (; rows > 0; rows--, x += n)
        PB_VECTOR for (int64_t k = 0; k < n; k++) out[k] += x[k] != 0;
}
#endif
