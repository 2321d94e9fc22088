/* Vectors of the product, its register tiles (pb_tiles.h, once for each way a panel holds its elements), and dot products of R
 * rows with C columns.
 *
 * A template over PBP_REAL, PBP_NAME, PBP_LANES (see pb_product.h). Each kernel is one body with R and NV constant.
 */

/* Loops that lie across one more cache line than they must lose 20% where accumulators are just enough (4 x 2). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("align-loops=64")
#endif

typedef PBP_REAL PBP_NAME(vec) __attribute__((vector_size(PB_VECTOR_BYTES)));
typedef PBP_BITS PBP_NAME(mask) __attribute__((vector_size(PB_VECTOR_BYTES)));
/* In memory a vector has the alignment of its elements. */
typedef PBP_REAL PBP_NAME(mem) __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(PBP_REAL)), may_alias));
typedef PBP_REAL PBP_NAME(real) __attribute__((may_alias));
typedef PBP_REAL PBP_NAME(vec128) __attribute__((vector_size(16)));
typedef PBP_BITS PBP_NAME(mask128) __attribute__((vector_size(16)));
#define PBP_VEC PBP_NAME(vec)
#define PBP_MEM PBP_NAME(mem)
#define PBP_MASK PBP_NAME(mask)
#define PBP_ELEM PBP_NAME(real)
#define PBP_VEC128 PBP_NAME(vec128)
#if __has_builtin(__builtin_shufflevector)
#define PBP_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define PBP_SHUFFLE2(a, b, i, j) __builtin_shufflevector(a, b, i, j)
#else
#define PBP_SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (PBP_NAME(mask128)){i, j, k, l})
#define PBP_SHUFFLE2(a, b, i, j) __builtin_shuffle(a, b, (PBP_NAME(mask128)){i, j})
#endif

/* Every lane x. A constructor: filling lanes one by one is not recognised as a broadcast. */
PB_INLINE PBP_VEC PBP_NAME(splat)(PBP_REAL x) {
#if PBP_LANES == 16
    return (PBP_VEC){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif PBP_LANES == 8
    return (PBP_VEC){x, x, x, x, x, x, x, x};
#elif PBP_LANES == 4
    return (PBP_VEC){x, x, x, x};
#else
    return (PBP_VEC){x, x};
#endif
}

/* a * b + c, fused where the level has it. */
PB_INLINE PBP_VEC PBP_NAME(fma)(PBP_VEC a, PBP_VEC b, PBP_VEC c) {
#if __has_builtin(__builtin_elementwise_fma) && (defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__))
    return __builtin_elementwise_fma(a, b, c);
#elif defined(__AVX512F__) && PB_VECTOR_BYTES == 64
#if PBP_IS_F32
    return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#else
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
#endif
#elif defined(__FMA__) && PB_VECTOR_BYTES == 32
#if PBP_IS_F32
    return __builtin_ia32_vfmaddps256(a, b, c);
#else
    return __builtin_ia32_vfmaddpd256(a, b, c);
#endif
#elif defined(__FMA__) && PB_VECTOR_BYTES == 64 /* vectors of two registers */
    typedef PBP_REAL half_vec __attribute__((vector_size(32)));
    union { PBP_VEC v; half_vec half[2]; } x = {.v = a}, y = {.v = b}, z = {.v = c};
    for (int i = 0; i < 2; i++)
#if PBP_IS_F32
        z.half[i] = __builtin_ia32_vfmaddps256(x.half[i], y.half[i], z.half[i]);
#else
        z.half[i] = __builtin_ia32_vfmaddpd256(x.half[i], y.half[i], z.half[i]);
#endif
    return z.v;
#elif defined(__aarch64__)
    PBP_UNROLL
    for (int i = 0; i < PBP_LANES; i++)
#if PBP_IS_F32
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
#else
        c[i] = __builtin_fma(a[i], b[i], c[i]);
#endif
    return c;
#else
    return a * b + c;
#endif
}

/* The same for one element. */
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
#define PBP_FMA1(a, b, c) (sizeof(PBP_REAL) == 4 ? __builtin_fmaf(a, b, c) : __builtin_fma(a, b, c))
#else
#define PBP_FMA1(a, b, c) ((a) * (b) + (c))
#endif

/* max(x, 0) with NaN kept: lanes below zero are cleared. */
PB_INLINE PBP_VEC PBP_NAME(relu)(PBP_VEC x) { return (PBP_VEC)((PBP_MASK)x & ~(PBP_MASK)(x < (PBP_VEC){0})); }

#define PBP_TILE_KIND 0
#define PBP_KIND(x) PBP_NAME(x)
#include "pb_tiles.h"
#if PBP_IS_F32
#define PBP_TILE_KIND 1
#define PBP_KIND(x) PBP_NAME(x##_bf16)
#include "pb_tiles.h"
#define PBP_TILE_KIND 2
#define PBP_KIND(x) PBP_NAME(x##_f16)
#include "pb_tiles.h"
#endif

/* Sums of the lanes of four vectors, each in the same order: halves are added until 128 bits are left. */
PB_INLINE void PBP_NAME(lane_sums)(const PBP_VEC *v, PBP_REAL *out) {
    PBP_VEC128 h[4];
    PBP_UNROLL
    for (int i = 0; i < 4; i++) {
        PBP_VEC128 part[PB_VECTOR_BYTES / 16];
        memcpy(part, &v[i], sizeof part);
        PBP_UNROLL
        for (int n = PB_VECTOR_BYTES / 32; n > 0; n /= 2)
            PBP_UNROLL
            for (int x = 0; x < n; x++) part[x] += part[x + n];
        h[i] = part[0];
    }
#if PBP_IS_F32
    const PBP_VEC128 ab = PBP_SHUFFLE4(h[0], h[1], 0, 4, 1, 5) + PBP_SHUFFLE4(h[0], h[1], 2, 6, 3, 7);
    const PBP_VEC128 cd = PBP_SHUFFLE4(h[2], h[3], 0, 4, 1, 5) + PBP_SHUFFLE4(h[2], h[3], 2, 6, 3, 7);
    const PBP_VEC128 sum = PBP_SHUFFLE4(ab, cd, 0, 1, 4, 5) + PBP_SHUFFLE4(ab, cd, 2, 3, 6, 7);
    memcpy(out, &sum, sizeof sum);
#else
    const PBP_VEC128 ab = PBP_SHUFFLE2(h[0], h[1], 0, 2) + PBP_SHUFFLE2(h[0], h[1], 1, 3);
    const PBP_VEC128 cd = PBP_SHUFFLE2(h[2], h[3], 0, 2) + PBP_SHUFFLE2(h[2], h[3], 1, 3);
    memcpy(out, &ab, sizeof ab);
    memcpy(out + 2, &cd, sizeof cd);
#endif
}

/* out[r * C + j] = sum over k of a[r, k] * b[k, j]; both contiguous along k. */
PB_INLINE void PBP_NAME(dot_body)(const int R, const int C, int64_t k, const char *a, int64_t a_rs, const char *b,
                                 int64_t b_cs, PBP_REAL *out) {
    PBP_VEC acc[16]; /* in fours, for the sums */
    int64_t i = 0;
    PBP_UNROLL
    for (int x = 0; x < (R * C + 3) / 4 * 4; x++) acc[x] = (PBP_VEC){0};
    for (; i + PBP_LANES <= k; i += PBP_LANES) {
        PBP_VEC bv[4];
        PBP_UNROLL
        for (int j = 0; j < C; j++) bv[j] = *(const PBP_MEM *)(b + j * b_cs + i * (int64_t)sizeof(PBP_REAL));
        PBP_UNROLL
        for (int r = 0; r < R; r++) {
            const PBP_VEC av = *(const PBP_MEM *)(a + r * a_rs + i * (int64_t)sizeof(PBP_REAL));
            PBP_UNROLL
            for (int j = 0; j < C; j++) acc[r * C + j] = PBP_NAME(fma)(av, bv[j], acc[r * C + j]);
        }
    }
    PBP_UNROLL
    for (int x = 0; x < R * C; x += 4) PBP_NAME(lane_sums)(acc + x, out + x);
    for (; i < k; i++)
        PBP_UNROLL
        for (int r = 0; r < R; r++)
            PBP_UNROLL
            for (int j = 0; j < C; j++)
                out[r * C + j] = PBP_FMA1(((const PBP_ELEM *)(a + r * a_rs))[i], ((const PBP_ELEM *)(b + j * b_cs))[i],
                                          out[r * C + j]);
}

typedef void (*PBP_NAME(dot_fn))(int64_t, const char *, int64_t, const char *, int64_t, PBP_REAL *);
#define PBP_DOT_NAME(r, c) PBP_NAME(dot_##r##x##c)
#define PBP_DOT(r, c)                                                                                        \
    PBP_NOINLINE void PBP_DOT_NAME(r, c)(int64_t k, const char *a, int64_t a_rs, const char *b, int64_t b_cs, \
                                       PBP_REAL *out) {                                                      \
        PBP_NAME(dot_body)(r, c, k, a, a_rs, b, b_cs, out);                                                  \
    }
PBP_DOT(1, 1) PBP_DOT(1, 2) PBP_DOT(1, 3)
PBP_DOT(4, 1) PBP_DOT(4, 2) PBP_DOT(4, 3)
static const PBP_NAME(dot_fn) PBP_NAME(dots_1)[] __attribute__((unused)) = {
    PBP_DOT_NAME(1, 1), PBP_DOT_NAME(1, 2), PBP_DOT_NAME(1, 3)};
static const PBP_NAME(dot_fn) PBP_NAME(dots_4)[] __attribute__((unused)) = {
    PBP_DOT_NAME(4, 1), PBP_DOT_NAME(4, 2), PBP_DOT_NAME(4, 3)};

/* c[0:n] (+)= sum of K rows of b, each times its element of x: long streams of memory, for one row and a large b. */
PB_INLINE void PBP_NAME(stream_body)(const int K, int64_t n, const PBP_REAL *x, const char *b, int64_t b_rs, char *c,
                                      int resume) {
    PBP_VEC xs[8];
    int64_t j = 0;
    PBP_UNROLL
    for (int i = 0; i < K; i++) xs[i] = PBP_NAME(splat)(x[i]);
    for (; j + 2 * PBP_LANES <= n; j += 2 * PBP_LANES, b += 2 * PB_VECTOR_BYTES, c += 2 * PB_VECTOR_BYTES) {
        PBP_VEC lo = {0}, hi = {0};
        if (resume) {
            lo = *(const PBP_MEM *)c;
            hi = *(const PBP_MEM *)(c + PB_VECTOR_BYTES);
        }
        PBP_UNROLL
        for (int i = 0; i < K; i++) {
            lo = PBP_NAME(fma)(xs[i], *(const PBP_MEM *)(b + i * b_rs), lo);
            hi = PBP_NAME(fma)(xs[i], *(const PBP_MEM *)(b + i * b_rs + PB_VECTOR_BYTES), hi);
        }
        *(PBP_MEM *)c = lo;
        *(PBP_MEM *)(c + PB_VECTOR_BYTES) = hi;
    }
    for (; j < n; j++, b += sizeof(PBP_REAL), c += sizeof(PBP_REAL)) {
        PBP_REAL sum = resume ? *(PBP_ELEM *)c : 0;
        for (int i = 0; i < K; i++) sum = PBP_FMA1(x[i], *(const PBP_ELEM *)(b + i * b_rs), sum);
        *(PBP_ELEM *)c = sum;
    }
}

PBP_NOINLINE void PBP_NAME(stream_8)(int64_t n, const PBP_REAL *x, const char *b, int64_t b_rs, char *c, int resume) {
    PBP_NAME(stream_body)(8, n, x, b, b_rs, c, resume);
}

PBP_NOINLINE void PBP_NAME(stream_1)(int64_t n, const PBP_REAL *x, const char *b, int64_t b_rs, char *c, int resume) {
    PBP_NAME(stream_body)(1, n, x, b, b_rs, c, resume);
}
#undef PBP_DOT
#undef PBP_DOT_NAME

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
