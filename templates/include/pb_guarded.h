/* Functions with a quick form and a slow one: loops over them vectorise although elements differ in which they take.
 *
 * `pb_quick_<op>_<dtype>(x[, y], &doubt)` has no branches; where it sets `doubt` to other than 0 the answer is libm's. A choice
 * between them inside a loop would be a branch, and GCC does not vectorise calls. So the function that loops call is declared
 * with vector variants (GCC's `simd` attribute, the x86-64 vector function ABI), and these are defined here: each computes all
 * lanes the quick way, then gives libm the doubtful ones, if there are any. Lane by lane the result is the scalar function's,
 * wherever an element stands. Other compilers see the scalar function alone.
 *
 * The variants are compiled even where nothing calls them. A translation unit that defines PB_ONLY_USED gets those alone for
 * which it defines PB_USE_<op> (GUARDED of templates/scalars.py lists the operations). Included by pb_math.h alone.
 */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/* Compiler and assembler see two names of one function: a declaration that has variants, and the definition of each. */
#define PB_GUARDED_SCALAR(op, T, LIBM, V, PARAMS, ARGS)                                                                 \
    static pb_##T pb_guarded_##op##_##T PARAMS(pb_##T) __asm__("pb_guarded_" #op "_" #T) __attribute__((used));         \
    static pb_##T pb_guarded_##op##_##T PARAMS(pb_##T) {                                                                \
        pb_##T doubt, r = pb_quick_##op##_##T(PB_##ARGS(), &doubt);                                                     \
        return __builtin_expect(doubt != 0, 0) ? LIBM(PB_##ARGS()) : r;                                                 \
    }                                                                                                                   \
    pb_##T pb_##op##_##T PARAMS(pb_##T) __asm__("pb_guarded_" #op "_" #T)                                               \
        __attribute__((simd("notinbranch"), const, nothrow, leaf, visibility("hidden")));
/* W lanes on instruction set ISA: b is SSE2, d AVX2, e AVX-512. V: one v for each parameter. */
#define PB_GUARDED_LANES(op, T, LIBM, V, PARAMS, ARGS, ISA, W, ANY)                                                     \
    static __attribute__((noinline, cold)) pb_##T##x##W pb_slow_##op##_##T##x##W(                                       \
        pb_##T##x##W doubt, pb_##T##x##W r, pb_##T##x##W x, pb_##T##x##W y) {                                           \
        for (int i = 0; i < W; i++)                                                                                     \
            if (doubt[i] != 0) r[i] = LIBM(PB_##ARGS([i]));                                                             \
        return r;                                                                                                       \
    }                                                                                                                   \
    static pb_##T##x##W pb_guarded_##op##_##T##x##W PARAMS(pb_##T##x##W)                                                \
        __asm__("_ZGV" #ISA "N" #W #V "_pb_guarded_" #op "_" #T) __attribute__((used));                                 \
    static pb_##T##x##W pb_guarded_##op##_##T##x##W PARAMS(pb_##T##x##W) {                                              \
        union pb_lanes { pb_##T##x##W v; pb_##T i[W]; } r, doubt, from[2] = {{.v = PB_FIRST_##ARGS}, {.v = PB_LAST_##ARGS}}; \
        for (int i = 0; i < W; i++)                                                                                     \
            r.i[i] = pb_quick_##op##_##T(PB_LANE_##ARGS(from, i), &doubt.i[i]);                                         \
        if (__builtin_expect(ANY(doubt.v != 0), 0)) return pb_slow_##op##_##T##x##W(doubt.v, r.v, PB_FIRST_##ARGS, PB_LAST_##ARGS); \
        return r.v;                                                                                                     \
    }
#define PB_PARAMS1(type) (type x)
#define PB_PARAMS2(type) (type x, type y)
#define PB_ARGS1(lane) x lane
#define PB_ARGS2(lane) x lane, y lane
#define PB_FIRST_ARGS1 x
#define PB_LAST_ARGS1 x
#define PB_FIRST_ARGS2 x
#define PB_LAST_ARGS2 y
#define PB_LANE_ARGS1(from, lane) from[0].i[lane]
#define PB_LANE_ARGS2(from, lane) from[0].i[lane], from[1].i[lane]

typedef pb_f32 pb_f32x4 __attribute__((vector_size(16)));
typedef pb_f64 pb_f64x2 __attribute__((vector_size(16)));
#define PB_ANY_16(m) __builtin_ia32_movmskps((pb_f32x4)(m)) /* lanes are whole: any of their bits will do */
#define PB_GUARDED_SSE(op, LIBM, ...)                                                                                   \
    PB_GUARDED_LANES(op, f32, LIBM##f, __VA_ARGS__, b, 4, PB_ANY_16) PB_GUARDED_LANES(op, f64, LIBM, __VA_ARGS__, b, 2, PB_ANY_16)
#ifdef __AVX2__
typedef pb_f32 pb_f32x8 __attribute__((vector_size(32)));
typedef pb_f64 pb_f64x4 __attribute__((vector_size(32)));
#define PB_ANY_32(m) __builtin_ia32_movmskps256((pb_f32x8)(m))
#define PB_GUARDED_AVX2(op, LIBM, ...)                                                                                  \
    PB_GUARDED_LANES(op, f32, LIBM##f, __VA_ARGS__, d, 8, PB_ANY_32) PB_GUARDED_LANES(op, f64, LIBM, __VA_ARGS__, d, 4, PB_ANY_32)
#else
#define PB_GUARDED_AVX2(op, LIBM, ...)
#endif
#ifdef __AVX512F__
typedef pb_f32 pb_f32x16 __attribute__((vector_size(64)));
typedef pb_f64 pb_f64x8 __attribute__((vector_size(64)));
PB_INLINE int pb_any_64(pb_f32x16 m) {
    union { pb_f32x16 v; pb_f32x8 half[2]; } u = {.v = m};
    return __builtin_ia32_movmskps256(u.half[0]) | __builtin_ia32_movmskps256(u.half[1]);
}
#define PB_ANY_64(m) pb_any_64((pb_f32x16)(m))
#define PB_GUARDED_AVX512(op, LIBM, ...)                                                                                \
    PB_GUARDED_LANES(op, f32, LIBM##f, __VA_ARGS__, e, 16, PB_ANY_64) PB_GUARDED_LANES(op, f64, LIBM, __VA_ARGS__, e, 8, PB_ANY_64)
#else
#define PB_GUARDED_AVX512(op, LIBM, ...)
#endif
#define PB_GUARDED_ALL(op, LIBM, ...)                                                                                   \
    PB_GUARDED_SCALAR(op, f32, LIBM##f, __VA_ARGS__) PB_GUARDED_SCALAR(op, f64, LIBM, __VA_ARGS__)                      \
    PB_GUARDED_SSE(op, LIBM, __VA_ARGS__) PB_GUARDED_AVX2(op, LIBM, __VA_ARGS__) PB_GUARDED_AVX512(op, LIBM, __VA_ARGS__)
#define PB_GUARDED1(op, LIBM) PB_GUARDED_ALL(op, LIBM, v, PB_PARAMS1, ARGS1)
#define PB_GUARDED2(op, LIBM) PB_GUARDED_ALL(op, LIBM, vv, PB_PARAMS2, ARGS2)
#else
#define PB_GUARDED1_OF(op, T, LIBM)                                                                                     \
    PB_INLINE pb_##T pb_##op##_##T(pb_##T x) {                                                                          \
        pb_##T doubt, r = pb_quick_##op##_##T(x, &doubt);                                                               \
        return doubt != 0 ? LIBM(x) : r;                                                                                \
    }
#define PB_GUARDED2_OF(op, T, LIBM)                                                                                     \
    PB_INLINE pb_##T pb_##op##_##T(pb_##T x, pb_##T y) {                                                                \
        pb_##T doubt, r = pb_quick_##op##_##T(x, y, &doubt);                                                            \
        return doubt != 0 ? LIBM(x, y) : r;                                                                             \
    }
#define PB_GUARDED1(op, LIBM) PB_GUARDED1_OF(op, f32, LIBM##f) PB_GUARDED1_OF(op, f64, LIBM)
#define PB_GUARDED2(op, LIBM) PB_GUARDED2_OF(op, f32, LIBM##f) PB_GUARDED2_OF(op, f64, LIBM)
#endif
