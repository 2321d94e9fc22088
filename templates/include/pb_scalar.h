/* Every scalar operation of templates/scalars.py, one inline C function for each operand dtype, shared by stencils (a loop
 * of one of them over a block), bundles (one loop of several) and scalar registers (one call).
 *
 * Names:
 *   pb_bool pb_i32 pb_i64 pb_f32 pb_f64             native C types; arithmetic exists in these alone
 *   pb_i8 pb_i16 pb_u8 pb_u16 pb_u32 pb_f16         further memory types (pb_f16, pb_bf16: the bits)
 *   pb_<op>_<dtype>(a[, b[, c]])                    result of the operand dtype, pb_bool for predicates
 *   pb_cast_<from>_<to>(x)                          between native dtypes, as NumPy's astype on x86-64
 *   pb_widen_<memory>(x)                            memory value -> native value: i8 i16 u8 u16 -> i32, u32 -> i64,
 *                                                   f16 -> f32, others unchanged
 *   pb_narrow_<memory>(x)                           the way back: integers truncate, f32 -> f16 rounds to nearest even
 *   pb_load_<memory>(p), pb_store_<memory>(p, x)    the same through a pointer of any alignment
 *
 * Compile with -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fno-strict-aliasing. Then everything but the
 * functions listed as "libm" in pb_math.h is free of branches and calls, or has vector variants (pb_guarded.h), so that loops over it
 * vectorise. u64 is not there.
 */
#ifndef PB_SCALAR_H
#define PB_SCALAR_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "pb_compiler.h"

typedef uint8_t pb_bool;
typedef int8_t pb_i8;
typedef int16_t pb_i16;
typedef int32_t pb_i32;
typedef int64_t pb_i64;
typedef uint8_t pb_u8;
typedef uint16_t pb_u16;
typedef uint32_t pb_u32;
typedef uint16_t pb_f16;
typedef uint16_t pb_bf16;
typedef float pb_f32;
typedef double pb_f64;

#define PB_INF_f32 __builtin_inff()
#define PB_INF_f64 __builtin_inf()
#define PB_NAN_f32 __builtin_nanf("")
#define PB_NAN_f64 __builtin_nan("")

PB_INLINE pb_u32 pb_bits_f32(pb_f32 x) { union { pb_f32 f; pb_u32 u; } v = {.f = x}; return v.u; }
PB_INLINE uint64_t pb_bits_f64(pb_f64 x) { union { pb_f64 f; uint64_t u; } v = {.f = x}; return v.u; }
PB_INLINE pb_f32 pb_from_bits_f32(pb_u32 x) { union { pb_u32 u; pb_f32 f; } v = {.u = x}; return v.f; }
PB_INLINE pb_f64 pb_from_bits_f64(uint64_t x) { union { uint64_t u; pb_f64 f; } v = {.u = x}; return v.f; }

/* Fused where the level has it. -ffp-contract=off keeps it from appearing anywhere else. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define PB_FMA_f32(a, b, c) __builtin_fmaf((a), (b), (c))
#define PB_FMA_f64(a, b, c) __builtin_fma((a), (b), (c))
#else
#define PB_FMA_f32(a, b, c) ((a) * (b) + (c))
#define PB_FMA_f64(a, b, c) ((a) * (b) + (c))
#endif

#include "pb_math.h"

/* --- every dtype ----------------------------------------------------------------------------------------------------- */

/* A boolean in memory may be any byte (a view of a mask of 0 and 255), and memory serves in place: every operation takes
 * whatever is not 0 for true, and makes 0 or 1. */
#define PB_TRUTH(a) ((pb_bool)((a) != 0))
#define PB_SAME(a) (a)

#define PB_ANY(T, OF)                                                                                                   \
    PB_INLINE pb_##T pb_mov_##T(pb_##T a) { return OF(a); }                                                             \
    PB_INLINE pb_bool pb_eq_##T(pb_##T a, pb_##T b) { return OF(a) == OF(b); }                                          \
    PB_INLINE pb_bool pb_ne_##T(pb_##T a, pb_##T b) { return OF(a) != OF(b); }                                          \
    PB_INLINE pb_bool pb_lt_##T(pb_##T a, pb_##T b) { return OF(a) < OF(b); }                                           \
    PB_INLINE pb_bool pb_le_##T(pb_##T a, pb_##T b) { return OF(a) <= OF(b); }                                          \
    PB_INLINE pb_bool pb_gt_##T(pb_##T a, pb_##T b) { return OF(a) > OF(b); }                                           \
    PB_INLINE pb_bool pb_ge_##T(pb_##T a, pb_##T b) { return OF(a) >= OF(b); }                                          \
    PB_INLINE pb_##T pb_select_##T(pb_bool c, pb_##T a, pb_##T b) { return c ? a : b; }
PB_ANY(bool, PB_TRUTH) PB_ANY(i32, PB_SAME) PB_ANY(i64, PB_SAME) PB_ANY(f32, PB_SAME) PB_ANY(f64, PB_SAME)

PB_INLINE pb_bool pb_maximum_bool(pb_bool a, pb_bool b) { return PB_TRUTH(a | b); }
PB_INLINE pb_bool pb_minimum_bool(pb_bool a, pb_bool b) { return PB_TRUTH(a) & PB_TRUTH(b); }
PB_INLINE pb_bool pb_not_bool(pb_bool a) { return !a; }
PB_INLINE pb_bool pb_and_bool(pb_bool a, pb_bool b) { return PB_TRUTH(a) & PB_TRUTH(b); }
PB_INLINE pb_bool pb_or_bool(pb_bool a, pb_bool b) { return PB_TRUTH(a | b); }
PB_INLINE pb_bool pb_xor_bool(pb_bool a, pb_bool b) { return PB_TRUTH(a) ^ PB_TRUTH(b); }

/* --- integers: -fwrapv makes + - * wrap; division by zero is 0, MIN / -1 wraps; Python's sign rule ------------------------ */

#define PB_INTEGER(T, U, BITS, MIN)                                                                                     \
    PB_INLINE pb_##T pb_add_##T(pb_##T a, pb_##T b) { return a + b; }                                                   \
    PB_INLINE pb_##T pb_sub_##T(pb_##T a, pb_##T b) { return a - b; }                                                   \
    PB_INLINE pb_##T pb_mul_##T(pb_##T a, pb_##T b) { return a * b; }                                                   \
    PB_INLINE pb_##T pb_neg_##T(pb_##T a) { return -a; }                                                                \
    PB_INLINE pb_##T pb_abs_##T(pb_##T a) { return a < 0 ? -a : a; }                                                    \
    PB_INLINE pb_##T pb_sign_##T(pb_##T a) { return (a > 0) - (a < 0); }                                                \
    PB_INLINE pb_##T pb_square_##T(pb_##T a) { return a * a; }                                                          \
    PB_INLINE pb_##T pb_floordiv_##T(pb_##T a, pb_##T b) {                                                              \
        pb_##T d = (b == 0 || b == -1) ? 1 : b, q = a / d, low = (a % d != 0) & ((a < 0) != (d < 0));                   \
        return b == 0 ? 0 : b == -1 ? -a : q - low;                                                                     \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_fmod_##T(pb_##T a, pb_##T b) {                                                                  \
        pb_##T d = (b == 0 || b == -1) ? 1 : b;                                                                         \
        return a % d;                                                                                                   \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_mod_##T(pb_##T a, pb_##T b) {                                                                   \
        pb_##T m = pb_fmod_##T(a, b);                                                                                   \
        return m != 0 && ((m < 0) != (b < 0)) ? m + b : m;                                                              \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_pow_##T(pb_##T a, pb_##T b) { /* negative exponents are refused before */                       \
        U base = (U)a, result = 1, n = b < 0 ? 0 : (U)b;                                                                \
        for (; n; n >>= 1, base *= base) result *= n & 1 ? base : 1;                                                    \
        return (pb_##T)result;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_maximum_##T(pb_##T a, pb_##T b) { return a > b ? a : b; }                                       \
    PB_INLINE pb_##T pb_minimum_##T(pb_##T a, pb_##T b) { return a < b ? a : b; }                                       \
    PB_INLINE pb_##T pb_fmax_##T(pb_##T a, pb_##T b) { return a > b ? a : b; }                                          \
    PB_INLINE pb_##T pb_fmin_##T(pb_##T a, pb_##T b) { return a < b ? a : b; }                                          \
    PB_INLINE pb_##T pb_and_##T(pb_##T a, pb_##T b) { return a & b; }                                                   \
    PB_INLINE pb_##T pb_or_##T(pb_##T a, pb_##T b) { return a | b; }                                                    \
    PB_INLINE pb_##T pb_xor_##T(pb_##T a, pb_##T b) { return a ^ b; }                                                   \
    PB_INLINE pb_##T pb_invert_##T(pb_##T a) { return ~a; }                                                             \
    PB_INLINE pb_##T pb_shl_##T(pb_##T a, pb_##T b) {                                                                   \
        pb_##T low = (pb_##T)((U)a << (b & (BITS - 1)));                                                                \
        return (U)b < BITS ? low : 0;                                                                                   \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_shr_##T(pb_##T a, pb_##T b) { return a >> ((U)b < BITS ? b : BITS - 1); }
PB_INTEGER(i32, uint32_t, 32, INT32_MIN)
PB_INTEGER(i64, uint64_t, 64, INT64_MIN)

/* --- floats: + - * / sqrt are IEEE, bit for bit NumPy's -------------------------------------------------------------------- */

#define PB_FLOAT(T, S, SIGN_SHIFT)                                                                                      \
    PB_INLINE pb_##T pb_add_##T(pb_##T a, pb_##T b) { return a + b; }                                                   \
    PB_INLINE pb_##T pb_sub_##T(pb_##T a, pb_##T b) { return a - b; }                                                   \
    PB_INLINE pb_##T pb_mul_##T(pb_##T a, pb_##T b) { return a * b; }                                                   \
    PB_INLINE pb_##T pb_div_##T(pb_##T a, pb_##T b) { return a / b; }                                                   \
    PB_INLINE pb_##T pb_neg_##T(pb_##T a) { return -a; }                                                                \
    PB_INLINE pb_##T pb_abs_##T(pb_##T a) { return __builtin_fabs##S(a); }                                              \
    PB_INLINE pb_##T pb_sign_##T(pb_##T a) {                                                                            \
        pb_##T s = a < 0 ? (pb_##T)-1 : (pb_##T)0;                                                                      \
        s = a > 0 ? (pb_##T)1 : s;                                                                                      \
        return a != a ? a : s;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_square_##T(pb_##T a) { return a * a; }                                                          \
    PB_INLINE pb_##T pb_sqrt_##T(pb_##T a) { return __builtin_sqrt##S(a); }                                             \
    PB_INLINE pb_##T pb_reciprocal_##T(pb_##T a) { return (pb_##T)1 / a; }                                              \
    PB_INLINE pb_##T pb_floor_##T(pb_##T a) { return __builtin_floor##S(a); }                                           \
    PB_INLINE pb_##T pb_ceil_##T(pb_##T a) { return __builtin_ceil##S(a); }                                             \
    PB_INLINE pb_##T pb_trunc_##T(pb_##T a) { return __builtin_trunc##S(a); }                                           \
    PB_INLINE pb_##T pb_rint_##T(pb_##T a) { return __builtin_rint##S(a); }                                             \
    PB_INLINE pb_##T pb_copysign_##T(pb_##T a, pb_##T b) { return __builtin_copysign##S(a, b); }                        \
    PB_INLINE pb_##T pb_maximum_##T(pb_##T a, pb_##T b) { /* a NaN on either side wins; equal ones give b */            \
        if (__builtin_constant_p(b) && b == b) return !(b >= a) ? a : b; /* one comparison where a side is a number */  \
        pb_##T m = a > b ? a : b; /* b when either is NaN */                                                            \
        if (__builtin_constant_p(a) && a == a) return m;                                                                \
        return a != a ? a : m;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_minimum_##T(pb_##T a, pb_##T b) {                                                               \
        if (__builtin_constant_p(b) && b == b) return !(b <= a) ? a : b;                                                \
        pb_##T m = a < b ? a : b;                                                                                       \
        if (__builtin_constant_p(a) && a == a) return m;                                                                \
        return a != a ? a : m;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_fmax_##T(pb_##T a, pb_##T b) { /* a NaN loses */                                                \
        pb_##T m = a > b ? a : b;                                                                                       \
        return b != b ? a : m;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_fmin_##T(pb_##T a, pb_##T b) {                                                                  \
        pb_##T m = a < b ? a : b;                                                                                       \
        return b != b ? a : m;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_bool pb_isnan_##T(pb_##T a) { return a != a; }                                                         \
    PB_INLINE pb_bool pb_isinf_##T(pb_##T a) { return __builtin_fabs##S(a) == PB_INF_##T; }                             \
    PB_INLINE pb_bool pb_isfinite_##T(pb_##T a) { return __builtin_fabs##S(a) < PB_INF_##T; }                           \
    PB_INLINE pb_bool pb_signbit_##T(pb_##T a) { return (pb_bool)(pb_bits_##T(a) >> SIGN_SHIFT); }                      \
    PB_INLINE pb_##T pb_fmod_##T(pb_##T a, pb_##T b) { return __builtin_fmod##S(a, b); }                                \
    PB_INLINE pb_##T pb_mod_##T(pb_##T a, pb_##T b) { /* sign of b, -0.0 included */                                    \
        pb_##T m = __builtin_fmod##S(a, b);                                                                             \
        if (b == 0) return m;                                                                                           \
        if (m == 0) return __builtin_copysign##S((pb_##T)0, b);                                                         \
        return (b < 0) != (m < 0) ? m + b : m;                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_floordiv_##T(pb_##T a, pb_##T b) { /* NumPy's npy_floor_divide */                               \
        if (b == 0) return a / b;                                                                                       \
        pb_##T m = __builtin_fmod##S(a, b), q = (a - m) / b;                                                            \
        if (m != 0 && (b < 0) != (m < 0)) q -= 1;                                                                       \
        if (q == 0) return __builtin_copysign##S((pb_##T)0, a / b);                                                     \
        pb_##T f = __builtin_floor##S(q);                                                                               \
        return q - f > (pb_##T)0.5 ? f + 1 : f;                                                                         \
    }
PB_FLOAT(f32, f, 31)
PB_FLOAT(f64, , 63)

/* --- casts: out of range and NaN become the least integer, as cvttsd2si does ------------------------------------------------ */

#define PB_CAST(F, T) PB_INLINE pb_##T pb_cast_##F##_##T(pb_##F x) { return (pb_##T)x; }
#define PB_CAST_BOOL(F) PB_INLINE pb_bool pb_cast_##F##_bool(pb_##F x) { return x != 0; }
#define PB_CAST_INT(F, T, LOW, MIN)                                                                                     \
    PB_INLINE pb_##T pb_cast_##F##_##T(pb_##F x) {                                                                      \
        int fits = (x >= (pb_##F)LOW) & (x < -(pb_##F)LOW);                                                             \
        return fits ? (pb_##T)x : MIN;                                                                                  \
    }
#define PB_CAST_TRUTH(T) PB_INLINE pb_##T pb_cast_bool_##T(pb_bool x) { return (pb_##T)PB_TRUTH(x); }
PB_CAST_TRUTH(bool) PB_CAST_TRUTH(i32) PB_CAST_TRUTH(i64) PB_CAST_TRUTH(f32) PB_CAST_TRUTH(f64)
PB_CAST(i32, i32) PB_CAST(i32, i64) PB_CAST(i32, f32) PB_CAST(i32, f64)
PB_CAST(i64, i32) PB_CAST(i64, i64) PB_CAST(i64, f32) PB_CAST(i64, f64)
PB_CAST(f32, f32) PB_CAST(f32, f64) PB_CAST(f64, f32) PB_CAST(f64, f64)
PB_CAST_BOOL(i32) PB_CAST_BOOL(i64) PB_CAST_BOOL(f32) PB_CAST_BOOL(f64)
PB_CAST_INT(f32, i32, -2147483648.0, INT32_MIN) PB_CAST_INT(f64, i32, -2147483648.0, INT32_MIN)
PB_CAST_INT(f32, i64, -9223372036854775808.0, INT64_MIN) PB_CAST_INT(f64, i64, -9223372036854775808.0, INT64_MIN)

/* --- memory types --------------------------------------------------------------------------------------------------------- */

PB_INLINE pb_f32 pb_widen_f16(pb_f16 h) {
    pb_u32 magnitude = (pb_u32)(h & 0x7fff) << 13;
    pb_u32 finite = pb_bits_f32(pb_from_bits_f32(magnitude) * 0x1p112f); /* exact, subnormals too */
    pb_u32 bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
    return pb_from_bits_f32(bits | (pb_u32)(h & 0x8000) << 16);
}

PB_INLINE pb_f16 pb_narrow_f16(pb_f32 x) {
    pb_u32 u = pb_bits_f32(x) & 0x7fffffffu, sign = (pb_bits_f32(x) >> 16) & 0x8000u;
    pb_u32 normal = (u + 0xc8000fffu + ((u >> 13) & 1)) >> 13;                 /* rebias, round to nearest even */
    pb_u32 small = pb_bits_f32(pb_from_bits_f32(u) + 0.5f) - 0x3f000000u;      /* the addition rounds subnormals */
    pb_u32 large = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    pb_u32 bits = u < 0x38800000u ? small : normal;
    return (pb_f16)((u >= 0x47800000u ? large : bits) | sign);
}

/* f64 -> f32 rounded to odd: narrowing the result to f16 gives what one rounding of the f64 gives. */
PB_INLINE pb_f32 pb_odd_f32(pb_f64 x) {
    pb_f32 f = (pb_f32)x;
    pb_f64 back = f;
    pb_u32 bits = pb_bits_f32(f);
    pb_u32 away = __builtin_fabs(back) > __builtin_fabs(x); /* rounded away from zero: one step back, then odd */
    pb_u32 odd = (bits - away) | 1;
    int exact = (back == x) | (x != x) | (__builtin_fabsf(f) == PB_INF_f32);
    return pb_from_bits_f32(exact ? bits : odd);
}

PB_INLINE pb_f16 pb_narrow_f16_f64(pb_f64 x) { return pb_narrow_f16(pb_odd_f32(x)); }

PB_INLINE pb_f32 pb_widen_bf16(pb_bf16 h) { return pb_from_bits_f32((pb_u32)h << 16); }

PB_INLINE pb_bf16 pb_narrow_bf16(pb_f32 x) { /* to nearest even; NaN: one of either sign, as ml_dtypes */
    pb_u32 u = pb_bits_f32(x);
    pb_u32 rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (pb_bf16)((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) & 0x8000u) | 0x7fc0u : rounded);
}

PB_INLINE pb_bool pb_widen_bool(pb_bool x) { return PB_TRUTH(x); }
PB_INLINE pb_bool pb_narrow_bool(pb_bool x) { return x; }

#define PB_MEMORY(M, T)                                                                                                 \
    PB_INLINE pb_##T pb_widen_##M(pb_##M x) { return (pb_##T)x; }                                                       \
    PB_INLINE pb_##M pb_narrow_##M(pb_##T x) { return (pb_##M)x; }
PB_MEMORY(i8, i32) PB_MEMORY(i16, i32) PB_MEMORY(u8, i32) PB_MEMORY(u16, i32)
PB_MEMORY(i32, i32) PB_MEMORY(u32, i64) PB_MEMORY(i64, i64) PB_MEMORY(f32, f32) PB_MEMORY(f64, f64)

#define PB_THROUGH_POINTER(M, T)                                                                                        \
    PB_INLINE pb_##T pb_load_##M(const void *p) { pb_##M x; memcpy(&x, p, sizeof x); return pb_widen_##M(x); }          \
    PB_INLINE void pb_store_##M(void *p, pb_##T v) { pb_##M x = pb_narrow_##M(v); memcpy(p, &x, sizeof x); }
PB_THROUGH_POINTER(bool, bool) PB_THROUGH_POINTER(i8, i32) PB_THROUGH_POINTER(i16, i32) PB_THROUGH_POINTER(u8, i32)
PB_THROUGH_POINTER(u16, i32) PB_THROUGH_POINTER(i32, i32) PB_THROUGH_POINTER(u32, i64) PB_THROUGH_POINTER(i64, i64)
PB_THROUGH_POINTER(f16, f32) PB_THROUGH_POINTER(bf16, f32) PB_THROUGH_POINTER(f32, f32) PB_THROUGH_POINTER(f64, f64)
#endif
