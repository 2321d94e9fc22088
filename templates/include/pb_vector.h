/* The operations of pb_scalar.h on whole vector registers: what a bundle's nests (pgo/codegen_vector.py) and the
 * tape's strips (pb_strip.h) are written in.
 *
 *   pb_v_f32 pb_v_f64 pb_v_i32 pb_v_i64   one register of lanes; PB_V_<type> is how many
 *   pb_v_b32 pb_v_b64                     truth values beside lanes of 4 and 8 bytes: all bits set or none
 *   pb_v_<op>_<type>(a[, b[, c]])         in each lane what pb_<op>_<type> gives, bit for bit, wherever an element stands
 *   pb_v_cast_<from>_<to>(x)              between types of one width
 *   pb_v_fill_<type>(x)                   a number in every lane (b32, b64: of a pb_bool)
 *   pb_v_at_<type>(p), pb_v_put_<type>(p, v)            whole registers, at any alignment
 *   pb_v_head_<type>(p, n), pb_v_put_head_<type>(p, v, n)  the first n elements, all lanes where n is more; lanes without an element are 0
 *   pb_v_pick_<type>(p, step, n), pb_v_drop_<type>(p, v, step, n)  the same with `step` bytes between elements
 *
 * Arithmetic, comparisons and choices are the compiler's vector extensions; least and greatest are written as the instruction, since GCC
 * makes a comparison and a blend of them. What has no form of its own here is a loop over the lanes of a register, which
 * the compiler turns into vector code where the scalar function has no branches and no calls.
 */
#ifndef PB_VECTOR_H
#define PB_VECTOR_H
#include "pb_compiler.h"
#include "pb_scalar.h"
#include "pb_width.h"

/* `few`: fewer than a register holds, lane by lane. Short rows are all tail: no call, and no memory in between. */
#define PB_V_TYPE(T)                                                                                                    \
    typedef pb_##T pb_v_##T __attribute__((vector_size(PB_VECTOR_BYTES)));                                              \
    typedef pb_##T pb_vmem_##T __attribute__((vector_size(PB_VECTOR_BYTES), aligned(1), may_alias));                     \
    typedef pb_##T pb_vone_##T __attribute__((aligned(1), may_alias));                                                  \
    enum { PB_V_##T = PB_VECTOR_BYTES / sizeof(pb_##T) };                                                               \
    typedef union { pb_v_##T v; pb_##T i[PB_V_##T]; } pb_vlanes_##T;                                                    \
    PB_INLINE pb_v_##T pb_v_fill_##T(pb_##T x) { return x - (pb_v_##T){0}; }                                            \
    PB_INLINE pb_v_##T pb_v_at_##T(const void *p) { return *(const pb_vmem_##T *)p; }                                   \
    PB_INLINE void pb_v_put_##T(void *p, pb_v_##T v) { *(pb_vmem_##T *)p = v; }                                         \
    PB_INLINE pb_v_##T pb_v_few_##T(const char *p, int64_t step, int64_t n) {                                           \
        pb_v_##T r = {0};                                                                                               \
        PB_UNROLL(16) for (int i = 0; i < PB_V_##T - 1; i++)                                                            \
            if (i < n) r[i] = *(const pb_vone_##T *)(p + i * step);                                                     \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_INLINE void pb_v_put_few_##T(char *p, pb_v_##T v, int64_t step, int64_t n) {                                     \
        PB_UNROLL(16) for (int i = 0; i < PB_V_##T - 1; i++)                                                            \
            if (i < n) *(pb_vone_##T *)(p + i * step) = v[i];                                                           \
    }                                                                                                                   \
    PB_INLINE pb_v_##T pb_v_head_##T(const void *p, int64_t n) {                                                        \
        return n >= PB_V_##T ? pb_v_at_##T(p) : pb_v_few_##T(p, sizeof(pb_##T), n);                                     \
    }                                                                                                                   \
    PB_INLINE void pb_v_put_head_##T(void *p, pb_v_##T v, int64_t n) {                                                  \
        if (n >= PB_V_##T) pb_v_put_##T(p, v);                                                                          \
        else pb_v_put_few_##T(p, v, sizeof(pb_##T), n);                                                                 \
    }                                                                                                                   \
    PB_INLINE pb_v_##T pb_v_pick_##T(const char *p, int64_t step, int64_t n) {                                          \
        if (n < PB_V_##T) return pb_v_few_##T(p, step, n);                                                              \
        pb_v_##T r = {0}; /* lane by lane: what goes through memory waits until it is there */                          \
        PB_UNROLL(16) for (int i = 0; i < PB_V_##T; i++) r[i] = *(const pb_vone_##T *)(p + i * step);                   \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_INLINE void pb_v_drop_##T(char *p, pb_v_##T v, int64_t step, int64_t n) {                                        \
        if (n < PB_V_##T) pb_v_put_few_##T(p, v, step, n);                                                              \
        else PB_UNROLL(16) for (int i = 0; i < PB_V_##T; i++) *(pb_vone_##T *)(p + i * step) = v[i];                    \
    }
PB_V_TYPE(f32) PB_V_TYPE(f64) PB_V_TYPE(i32) PB_V_TYPE(i64)
typedef pb_v_i32 pb_v_b32;
typedef pb_v_i64 pb_v_b64;

/* Loops that stay loops until vectors are made of them. Lanes of a constant would be looked up one by one: so two operands are
 * anything at all. */
#if defined(__SSE2__) && defined(__GNUC__) && defined(PB_VECTORS_ARE_REGISTERS)
#define PB_V_OPAQUE(x) __asm__("" : "+v"(x))
#else
#define PB_V_OPAQUE(x) (void)0
#endif
#define PB_V_EACH(T) PB_ROLLED for (int i = 0; i < PB_V_##T; i++)
#define PB_V_LANES1(op, T)                                                                                              \
    PB_INLINE pb_v_##T pb_v_##op##_##T(pb_v_##T a) {                                                                    \
        pb_vlanes_##T x = {.v = a}, r;                                                                                  \
        PB_V_EACH(T) r.i[i] = pb_##op##_##T(x.i[i]);                                                                    \
        return r.v;                                                                                                     \
    }
#define PB_V_LANES2(op, T)                                                                                              \
    PB_INLINE pb_v_##T pb_v_##op##_##T(pb_v_##T a, pb_v_##T b) {                                                        \
        PB_V_OPAQUE(a);                                                                                                 \
        PB_V_OPAQUE(b);                                                                                                 \
        pb_vlanes_##T x = {.v = a}, y = {.v = b}, r;                                                                    \
        PB_V_EACH(T) r.i[i] = pb_##op##_##T(x.i[i], y.i[i]);                                                            \
        return r.v;                                                                                                     \
    }
#define PB_V_LANES3(name, op, T)                                                                                        \
    PB_INLINE pb_v_##T pb_v_##name##_##T(pb_v_##T a, pb_v_##T b, pb_v_##T c) {                                          \
        pb_vlanes_##T x = {.v = a}, y = {.v = b}, z = {.v = c}, r;                                                      \
        PB_V_EACH(T) r.i[i] = op(x.i[i], y.i[i], z.i[i]);                                                               \
        return r.v;                                                                                                     \
    }
#define PB_V_TO(F, T)                                                                                                   \
    PB_INLINE pb_v_##T pb_v_cast_##F##_##T(pb_v_##F a) {                                                                \
        pb_vlanes_##F x = {.v = a};                                                                                     \
        pb_vlanes_##T r;                                                                                                \
        PB_V_EACH(T) r.i[i] = pb_cast_##F##_##T(x.i[i]);                                                                \
        return r.v;                                                                                                     \
    }

/* --- truth values ------------------------------------------------------------------------------------------------------ */

#define PB_V_BOOL(B, I)                                                                                                 \
    PB_INLINE pb_v_##B pb_v_fill_##B(pb_bool x) { return pb_v_fill_##I(-(pb_##I)x); }                                   \
    PB_INLINE pb_v_##B pb_v_mov_##B(pb_v_##B a) { return a; }                                                           \
    PB_INLINE pb_v_##B pb_v_not_##B(pb_v_##B a) { return ~a; }                                                          \
    PB_INLINE pb_v_##B pb_v_and_##B(pb_v_##B a, pb_v_##B b) { return a & b; }                                           \
    PB_INLINE pb_v_##B pb_v_or_##B(pb_v_##B a, pb_v_##B b) { return a | b; }                                            \
    PB_INLINE pb_v_##B pb_v_xor_##B(pb_v_##B a, pb_v_##B b) { return a ^ b; }                                           \
    PB_INLINE pb_v_##B pb_v_maximum_##B(pb_v_##B a, pb_v_##B b) { return a | b; }                                       \
    PB_INLINE pb_v_##B pb_v_minimum_##B(pb_v_##B a, pb_v_##B b) { return a & b; }                                       \
    PB_INLINE pb_v_##B pb_v_eq_##B(pb_v_##B a, pb_v_##B b) { return ~(a ^ b); }                                         \
    PB_INLINE pb_v_##B pb_v_ne_##B(pb_v_##B a, pb_v_##B b) { return a ^ b; }                                            \
    PB_INLINE pb_v_##B pb_v_lt_##B(pb_v_##B a, pb_v_##B b) { return ~a & b; }                                           \
    PB_INLINE pb_v_##B pb_v_le_##B(pb_v_##B a, pb_v_##B b) { return ~a | b; }                                           \
    PB_INLINE pb_v_##B pb_v_gt_##B(pb_v_##B a, pb_v_##B b) { return a & ~b; }                                           \
    PB_INLINE pb_v_##B pb_v_ge_##B(pb_v_##B a, pb_v_##B b) { return a | ~b; }                                           \
    PB_INLINE pb_v_##B pb_v_select_##B(pb_v_##B c, pb_v_##B a, pb_v_##B b) { return (a & c) | (b & ~c); }
PB_V_BOOL(b32, i32) PB_V_BOOL(b64, i64)

/* --- every type --------------------------------------------------------------------------------------------------------- */

#define PB_V_ANY(T, B)                                                                                                  \
    PB_INLINE pb_v_##T pb_v_mov_##T(pb_v_##T a) { return a; }                                                           \
    PB_INLINE pb_v_##T pb_v_add_##T(pb_v_##T a, pb_v_##T b) { return a + b; }                                           \
    PB_INLINE pb_v_##T pb_v_sub_##T(pb_v_##T a, pb_v_##T b) { return a - b; }                                           \
    PB_INLINE pb_v_##T pb_v_mul_##T(pb_v_##T a, pb_v_##T b) { return a * b; }                                           \
    PB_INLINE pb_v_##T pb_v_neg_##T(pb_v_##T a) { return -a; }                                                          \
    PB_INLINE pb_v_##T pb_v_square_##T(pb_v_##T a) { return a * a; }                                                    \
    PB_INLINE pb_v_##B pb_v_eq_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a == b); }                               \
    PB_INLINE pb_v_##B pb_v_ne_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a != b); }                               \
    PB_INLINE pb_v_##B pb_v_lt_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a < b); }                                \
    PB_INLINE pb_v_##B pb_v_le_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a <= b); }                               \
    PB_INLINE pb_v_##B pb_v_gt_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a > b); }                                \
    PB_INLINE pb_v_##B pb_v_ge_##T(pb_v_##T a, pb_v_##T b) { return (pb_v_##B)(a >= b); }                               \
    PB_INLINE pb_v_##T pb_v_select_##T(pb_v_##B c, pb_v_##T a, pb_v_##T b) {                                            \
        return (pb_v_##T)(((pb_v_##B)a & c) | ((pb_v_##B)b & ~c));                                                      \
    }                                                                                                                   \
    PB_INLINE pb_v_##B pb_v_cast_##T##_##B(pb_v_##T a) { return (pb_v_##B)(a != (pb_v_##T){0}); }                       \
    PB_INLINE pb_v_##T pb_v_cast_##B##_##T(pb_v_##B a) { return (pb_v_##T)((pb_v_##B)pb_v_fill_##T(1) & a); }
PB_V_ANY(f32, b32) PB_V_ANY(f64, b64) PB_V_ANY(i32, b32) PB_V_ANY(i64, b64)
PB_INLINE pb_v_f32 pb_v_cast_i32_f32(pb_v_i32 a) { return __builtin_convertvector(a, pb_v_f32); }
PB_INLINE pb_v_f64 pb_v_cast_i64_f64(pb_v_i64 a) { return __builtin_convertvector(a, pb_v_f64); }
PB_V_TO(f32, i32) PB_V_TO(f64, i64)

#define PB_V_INTEGER(T)                                                                                                 \
    PB_V_LANES1(abs, T) PB_V_LANES1(sign, T) PB_V_LANES1(invert, T) PB_V_LANES2(floordiv, T) PB_V_LANES2(mod, T)        \
    PB_V_LANES2(fmod, T) PB_V_LANES2(pow, T) PB_V_LANES2(maximum, T) PB_V_LANES2(minimum, T) PB_V_LANES2(fmax, T)       \
    PB_V_LANES2(fmin, T) PB_V_LANES2(and, T) PB_V_LANES2(or, T) PB_V_LANES2(xor, T) PB_V_LANES2(shl, T)                 \
    PB_V_LANES2(shr, T)
PB_V_INTEGER(i32) PB_V_INTEGER(i64)

/* --- floats -------------------------------------------------------------------------------------------------------------- */

/* a < b ? a : b and a > b ? a : b: b where one is NaN or both are 0, as the x86 instructions have it */
#define PB_V_BEST_BY(name, T, cmp)                                                                                      \
    PB_INLINE pb_v_##T pb_v_##name##_##T(pb_v_##T a, pb_v_##T b) { return pb_v_select_##T(pb_v_##cmp##_##T(a, b), a, b); }
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__) && defined(PB_VECTORS_ARE_REGISTERS)
#define PB_V_BEST(name, T, call)                                                                                        \
    PB_INLINE pb_v_##T pb_v_##name##_##T(pb_v_##T a, pb_v_##T b) { return call; }
#if PB_VECTOR_BYTES == 64
PB_V_BEST(lesser, f32, __builtin_ia32_minps512_mask(a, b, a, -1, 4)) PB_V_BEST(greater, f32, __builtin_ia32_maxps512_mask(a, b, a, -1, 4))
PB_V_BEST(lesser, f64, __builtin_ia32_minpd512_mask(a, b, a, -1, 4)) PB_V_BEST(greater, f64, __builtin_ia32_maxpd512_mask(a, b, a, -1, 4))
#elif PB_VECTOR_BYTES == 32
PB_V_BEST(lesser, f32, __builtin_ia32_minps256(a, b)) PB_V_BEST(greater, f32, __builtin_ia32_maxps256(a, b))
PB_V_BEST(lesser, f64, __builtin_ia32_minpd256(a, b)) PB_V_BEST(greater, f64, __builtin_ia32_maxpd256(a, b))
PB_V_BEST(unless_nan, f32, __builtin_ia32_blendvps256(b, a, __builtin_ia32_cmpps256(a, a, 3)))
PB_V_BEST(unless_nan, f64, __builtin_ia32_blendvpd256(b, a, __builtin_ia32_cmppd256(a, a, 3)))
#define PB_V_HAS_UNLESS_NAN
#else
PB_V_BEST(lesser, f32, __builtin_ia32_minps(a, b)) PB_V_BEST(greater, f32, __builtin_ia32_maxps(a, b))
PB_V_BEST(lesser, f64, __builtin_ia32_minpd(a, b)) PB_V_BEST(greater, f64, __builtin_ia32_maxpd(a, b))
#endif
#else
PB_V_BEST_BY(lesser, f32, lt) PB_V_BEST_BY(greater, f32, gt) PB_V_BEST_BY(lesser, f64, lt) PB_V_BEST_BY(greater, f64, gt)
#endif

/* where a or b is NaN; whether none of four registers holds one, or 0: not known, where it costs as much as to go without */
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES < 64
#if PB_VECTOR_BYTES == 32
#define PB_V_X86(name) __builtin_ia32_##name##256
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)__builtin_ia32_cmpps256(a, b, 3); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)__builtin_ia32_cmppd256(a, b, 3); }
#else
#define PB_V_X86(name) __builtin_ia32_##name
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)__builtin_ia32_cmpunordps(a, b); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)__builtin_ia32_cmpunordpd(a, b); }
#endif
PB_INLINE int pb_v_numbers_f32(pb_v_f32 a, pb_v_f32 b, pb_v_f32 c, pb_v_f32 d) {
    return PB_V_X86(movmskps)((pb_v_f32)(pb_v_nans_f32(a, b) | pb_v_nans_f32(c, d))) == 0;
}
PB_INLINE int pb_v_numbers_f64(pb_v_f64 a, pb_v_f64 b, pb_v_f64 c, pb_v_f64 d) {
    return PB_V_X86(movmskpd)((pb_v_f64)(pb_v_nans_f64(a, b) | pb_v_nans_f64(c, d))) == 0;
}
#else
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)((a != a) | (b != b)); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)((a != a) | (b != b)); }
PB_INLINE int pb_v_numbers_f32(pb_v_f32 a, pb_v_f32 b, pb_v_f32 c, pb_v_f32 d) { return (void)a, (void)b, (void)c, (void)d, 0; }
PB_INLINE int pb_v_numbers_f64(pb_v_f64 a, pb_v_f64 b, pb_v_f64 c, pb_v_f64 d) { return (void)a, (void)b, (void)c, (void)d, 0; }
#endif

/* a where it is NaN, else b */
#ifndef PB_V_HAS_UNLESS_NAN
PB_INLINE pb_v_f32 pb_v_unless_nan_f32(pb_v_f32 a, pb_v_f32 b) { return pb_v_select_f32((pb_v_b32)(a != a), a, b); }
PB_INLINE pb_v_f64 pb_v_unless_nan_f64(pb_v_f64 a, pb_v_f64 b) { return pb_v_select_f64((pb_v_b64)(a != a), a, b); }
#endif

#define PB_V_FLOAT(T, I, B, BITS)                                                                                       \
    PB_INLINE pb_v_##T pb_v_div_##T(pb_v_##T a, pb_v_##T b) { return a / b; }                                           \
    PB_INLINE pb_v_##T pb_v_reciprocal_##T(pb_v_##T a) { return (pb_##T)1 / a; }                                        \
    PB_INLINE pb_v_##T pb_v_abs_##T(pb_v_##T a) { return (pb_v_##T)((pb_v_##I)a & INT##BITS##_MAX); }                   \
    PB_INLINE pb_v_##T pb_v_copysign_##T(pb_v_##T a, pb_v_##T b) {                                                      \
        return (pb_v_##T)(((pb_v_##I)a & INT##BITS##_MAX) | ((pb_v_##I)b & INT##BITS##_MIN));                           \
    }                                                                                                                   \
    PB_INLINE pb_v_##T pb_v_maximum_##T(pb_v_##T a, pb_v_##T b) { return pb_v_unless_nan_##T(a, pb_v_greater_##T(a, b)); }  \
    PB_INLINE pb_v_##T pb_v_minimum_##T(pb_v_##T a, pb_v_##T b) { return pb_v_unless_nan_##T(a, pb_v_lesser_##T(a, b)); }   \
    /* beside greater and lesser on another branch: compilers would make what both sides share before it */             \
    PB_INLINE pb_v_##T pb_v_careful_maximum_##T(pb_v_##T a, pb_v_##T b) {                                               \
        PB_V_OPAQUE(a);                                                                                                 \
        return pb_v_maximum_##T(a, b);                                                                                  \
    }                                                                                                                   \
    PB_INLINE pb_v_##T pb_v_careful_minimum_##T(pb_v_##T a, pb_v_##T b) {                                               \
        PB_V_OPAQUE(a);                                                                                                 \
        return pb_v_minimum_##T(a, b);                                                                                  \
    }                                                                                                                   \
    PB_INLINE pb_v_##T pb_v_fmax_##T(pb_v_##T a, pb_v_##T b) { return pb_v_select_##T((pb_v_##B)(b != b), a, pb_v_greater_##T(a, b)); }    \
    PB_INLINE pb_v_##T pb_v_fmin_##T(pb_v_##T a, pb_v_##T b) { return pb_v_select_##T((pb_v_##B)(b != b), a, pb_v_lesser_##T(a, b)); }     \
    PB_INLINE pb_v_##B pb_v_isnan_##T(pb_v_##T a) { return (pb_v_##B)(a != a); }                                        \
    PB_INLINE pb_v_##B pb_v_isinf_##T(pb_v_##T a) { return (pb_v_##B)(pb_v_abs_##T(a) == PB_INF_##T); }                 \
    PB_INLINE pb_v_##B pb_v_isfinite_##T(pb_v_##T a) { return (pb_v_##B)(pb_v_abs_##T(a) < PB_INF_##T); }               \
    PB_INLINE pb_v_##B pb_v_signbit_##T(pb_v_##T a) { return (pb_v_##B)((pb_v_##I)a < 0); }                             \
    PB_V_LANES1(sqrt, T) PB_V_LANES1(floor, T) PB_V_LANES1(ceil, T) PB_V_LANES1(trunc, T) PB_V_LANES1(rint, T)          \
    PB_V_LANES1(sign, T) PB_V_LANES1(cbrt, T) PB_V_LANES1(exp2, T) PB_V_LANES1(expm1, T) PB_V_LANES1(log, T)            \
    PB_V_LANES1(log2, T) PB_V_LANES1(log10, T) PB_V_LANES1(log1p, T) PB_V_LANES1(arcsin, T) PB_V_LANES1(arccos, T)      \
    PB_V_LANES1(arctan, T) PB_V_LANES1(sinh, T) PB_V_LANES1(cosh, T) PB_V_LANES1(arcsinh, T) PB_V_LANES1(arccosh, T)    \
    PB_V_LANES1(arctanh, T) PB_V_LANES2(arctan2, T) PB_V_LANES2(hypot, T) PB_V_LANES2(logaddexp, T) \
    PB_V_LANES2(mod, T) PB_V_LANES2(fmod, T) PB_V_LANES2(floordiv, T)
PB_V_FLOAT(f32, i32, b32, 32) PB_V_FLOAT(f64, i64, b64, 64)
#if !defined(PB_ONLY_USED) || defined(PB_USE_pow)
PB_V_LANES2(pow, f32) PB_V_LANES2(pow, f64)
#endif
#if !defined(PB_ONLY_USED) || defined(PB_USE_sin)
PB_V_LANES1(sin, f32) PB_V_LANES1(sin, f64)
#endif
#if !defined(PB_ONLY_USED) || defined(PB_USE_cos)
PB_V_LANES1(cos, f32) PB_V_LANES1(cos, f64)
#endif
#if !defined(PB_ONLY_USED) || defined(PB_USE_tan)
PB_V_LANES1(tan, f32) PB_V_LANES1(tan, f64)
#endif

PB_V_LANES1(exp, f64) PB_V_LANES1(tanh, f64) PB_V_LANES1(erf, f64)
#if defined(__FMA__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES == 32
PB_INLINE pb_v_f32 pb_v_fma_f32(pb_v_f32 a, pb_v_f32 b, pb_v_f32 c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#elif defined(__FMA__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES == 64 && defined(__AVX512F__)
PB_INLINE pb_v_f32 pb_v_fma_f32(pb_v_f32 a, pb_v_f32 b, pb_v_f32 c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4); }
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
PB_V_LANES3(fma, PB_FMA_f32, f32)
#else
PB_INLINE pb_v_f32 pb_v_fma_f32(pb_v_f32 a, pb_v_f32 b, pb_v_f32 c) { return a * b + c; }
#endif
#define PB_F(name) pb_v_##name##_f32
#define PB_T pb_v_f32
#define PB_C pb_v_fill_f32
#define PB_FMA pb_v_fma_f32
#define PB_LESSER pb_v_lesser_f32
#define PB_GREATER pb_v_greater_f32
#define PB_SHIFTED(x, n) ((pb_v_f32)((pb_v_i32)(x) << (n)))
#define PB_MASKED(x, bits) ((pb_v_f32)((pb_v_i32)(x) & (pb_i32)(bits)))
#define PB_WITH(x, y) ((pb_v_f32)((pb_v_i32)(x) | (pb_v_i32)(y)))
#include "pb_exp.h"
#endif
