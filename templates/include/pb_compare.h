/* Comparisons of whole blocks: eight bytes of vector for one of answer, which a compiler's own loop shuffles together step by step.
 *
 * The answers of as many vectors as an element has bytes are put side by side, one byte of each lane to a vector, and one shuffle
 * brings the bytes into order: half the time of the plain loop. Where vectors have no byte shuffle, or compare into mask
 * registers, the plain loop of pb_block.h serves (PB_COMPARES 0).
 */
#ifndef PB_COMPARE_H
#define PB_COMPARE_H
#include "pb_block.h"
#include "pb_vector.h"

#if !defined(__clang__) && (PB_VECTOR_BYTES == 32 || (PB_VECTOR_BYTES == 16 && (defined(__SSSE3__) || defined(__aarch64__))))
#define PB_COMPARES 1
#else
#define PB_COMPARES 0
#endif

#if PB_COMPARES
typedef uint8_t pb_answers __attribute__((vector_size(PB_VECTOR_BYTES)));
typedef uint8_t pb_answers_at __attribute__((vector_size(PB_VECTOR_BYTES), aligned(1), may_alias));
typedef pb_v_i32 pb_lanes_4;
typedef pb_v_i64 pb_lanes_8;

/* answer i is that of lane i % L of vector i / L, where L lanes of W bytes are a vector */
#define PB_ANSWER(W, i) (W) * ((i) % (PB_VECTOR_BYTES / (W))) + (i) / (PB_VECTOR_BYTES / (W))
#define PB_ANSWERS_4(W, i) PB_ANSWER(W, i), PB_ANSWER(W, i + 1), PB_ANSWER(W, i + 2), PB_ANSWER(W, i + 3)
#define PB_ANSWERS_16(W, i) PB_ANSWERS_4(W, i), PB_ANSWERS_4(W, i + 4), PB_ANSWERS_4(W, i + 8), PB_ANSWERS_4(W, i + 12)
#if PB_VECTOR_BYTES == 32
#define PB_ANSWERS(W) (pb_answers){PB_ANSWERS_16(W, 0), PB_ANSWERS_16(W, 16)}
#else
#define PB_ANSWERS(W) (pb_answers){PB_ANSWERS_16(W, 0)}
#endif

/* X, Y: the operands of vector k; x, y: of element i */
#define PB_COMPARE_LOOP(op, cmp, T, W, X, Y, x, y)                                                                      \
    enum { L = PB_VECTOR_BYTES / W };                                                                                   \
    int64_t i = 0;                                                                                                      \
    for (; i + PB_VECTOR_BYTES <= n; i += PB_VECTOR_BYTES) {                                                            \
        pb_lanes_##W bytes = {0};                                                                                       \
        for (int k = 0; k < W; k++) bytes |= (pb_lanes_##W)((X) cmp (Y)) & ((pb_lanes_##W){0} + ((pb_lane_##W)1 << (8 * k))); \
        *(pb_answers_at *)(out + i) = __builtin_shuffle((pb_answers)bytes, PB_ANSWERS(W));                              \
    }                                                                                                                   \
    for (; i < n; i++) out[i] = pb_##op##_##T(x, y);                                                                    \
}
typedef pb_i32 pb_lane_4;
typedef pb_i64 pb_lane_8;
#define PB_COMPARED(T, p) pb_v_at_##T((p) + i + k * L)

#define PB_BLOCK_COMPARE(op, cmp, T, W)                                                                                 \
    PB_BLOCK_HEAD(pb_block_##op##_##T, bool) const pb_##T *a = (const pb_##T *)a_, *b = (const pb_##T *)b_;             \
    PB_COMPARE_LOOP(op, cmp, T, W, PB_COMPARED(T, a), PB_COMPARED(T, b), a[i], b[i])                                    \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_vs, bool) const pb_##T *a = (const pb_##T *)a_, b = *(const pb_##T *)b_;        \
    const pb_v_##T all = pb_v_fill_##T(b);                                                                              \
    PB_COMPARE_LOOP(op, cmp, T, W, PB_COMPARED(T, a), all, a[i], b)                                                     \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_sv, bool) const pb_##T *b = (const pb_##T *)b_, a = *(const pb_##T *)a_;        \
    const pb_v_##T all = pb_v_fill_##T(a);                                                                              \
    PB_COMPARE_LOOP(op, cmp, T, W, all, PB_COMPARED(T, b), a, b[i])
#else
#define PB_BLOCK_COMPARE(op, cmp, T, W) PB_BLOCK2(op, T, bool) PB_BLOCK2_VS(op, T, bool) PB_BLOCK2_SV(op, T, bool)
#endif
#endif
