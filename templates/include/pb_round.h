/* Operands of reduced precision: float32 values rounded to bfloat16 or float16 (to nearest even) and back.
 *
 * A product of two such values is exact in float32, so that results do not depend on fused multiply-adds. */
#ifndef PB_ROUND_H
#define PB_ROUND_H
#include <stdint.h>
#include <string.h>

enum { PBP_EXACT, PBP_BF16, PBP_F16 }; /* how operands are rounded, and how a pack holds them */

static inline __attribute__((always_inline, unused)) uint32_t pb_round_bits_bf16(uint32_t x) {
    const uint32_t rounded = x + 0x7fffu + ((x >> 16) & 1);
    return ((x & 0x7fffffffu) > 0x7f800000u ? x | 0x00400000u : rounded) & 0xffff0000u;
}

/* Past 65504 + 16: infinity; below 2**-14: multiples of 2**-24. */
static inline __attribute__((always_inline, unused)) uint32_t pb_round_bits_f16(uint32_t x) {
    const uint32_t u = x & 0x7fffffffu, sign = x & 0x80000000u;
    const uint32_t normal = (u + 0xfffu + ((u >> 13) & 1)) & ~0x1fffu;
    float small;
    memcpy(&small, &u, 4);
    small = (small + 0.5f) - 0.5f; /* the addition rounds */
    uint32_t bits;
    memcpy(&bits, &small, 4);
    bits = u < 0x38800000u ? bits : normal;
    bits = bits >= 0x47800000u ? 0x7f800000u : bits;
    return (u > 0x7f800000u ? (u | 0x00400000u) & ~0x1fffu : bits) | sign;
}

typedef uint32_t pb_word __attribute__((may_alias, aligned(4)));

/* n contiguous values; dst may be src. */
static __attribute__((noinline, unused)) void pb_round_values(int kind, char *dst, const char *src, int64_t n) {
    const pb_word *x = (const pb_word *)src, *const end = x + n;
    pb_word *y = (pb_word *)dst;
    if (kind == PBP_BF16) {
        for (; x < end; x++, y++) *y = pb_round_bits_bf16(*x);
        return;
    }
#if defined(__F16C__) && !defined(__clang__)
    typedef float pb_eight __attribute__((vector_size(32)));
    for (; end - x >= 8; x += 8, y += 8) {
        pb_eight v;
        memcpy(&v, x, 32);
        v = __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(v, 0));
        memcpy(y, &v, 32);
    }
#endif
    for (; x < end; x++, y++) *y = pb_round_bits_f16(*x);
}

/* The 16 bits of a value that is rounded already. */
static inline __attribute__((always_inline, unused)) uint16_t pb_half_bits(int kind, float value) {
    uint32_t x;
    memcpy(&x, &value, 4);
    if (kind == PBP_BF16) return (uint16_t)(x >> 16);
    const uint32_t u = x & 0x7fffffffu, sign = (x >> 16) & 0x8000u;
    if (u >= 0x7f800000u) return (uint16_t)(sign | 0x7c00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x38800000u) return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
    float small;
    memcpy(&small, &u, 4);
    return (uint16_t)(sign | (uint32_t)(small * 0x1p24f));
}
#endif
