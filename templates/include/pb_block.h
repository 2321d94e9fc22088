/* Block stencils: one operation of pb_scalar.h over n contiguous elements, and loads and stores of strided memory.
 *
 * The stencil library instantiates PB_BLOCK1/2/3 for every row of templates/scalars.py (comparisons of numbers: pb_compare.h) and lays the
 * functions out as pb_blocks[op * 5 + dtype][variant]. A variant says which operands are one scalar instead of n elements:
 * bit 0 the second, bit 1 the first (of three operands: bit 0 the second, bit 1 the third; the condition is never one).
 * A missing variant is NULL: the caller splats the scalar, or swaps the operands of a commutative operation.
 * The output may be the same memory as an operand of the same element size, never shifted against it.
 */
#ifndef PB_BLOCK_H
#define PB_BLOCK_H
#include "pb_compiler.h"
#include "pb_compress.h"
#include "pb_scalar.h"

typedef void (*pb_block_fn)(char *out, const char *a, const char *b, const char *c, int64_t n);

#define PB_BLOCK_HEAD(name, R)                                                                                          \
    static void name(char *out_, const char *a_, const char *b_, const char *c_, int64_t n) {                           \
        pb_##R *out = (pb_##R *)out_;                                                                                   \
        (void)b_, (void)c_;
#define PB_BLOCK_LOOP(value) PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = value; }

#define PB_BLOCK1(op, T, R)                                                                                             \
    PB_BLOCK_HEAD(pb_block_##op##_##T, R) const pb_##T *a = (const pb_##T *)a_;                                         \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i]))
#define PB_BLOCK2(op, T, R)                                                                                             \
    PB_BLOCK_HEAD(pb_block_##op##_##T, R) const pb_##T *a = (const pb_##T *)a_, *b = (const pb_##T *)b_;                \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b[i]))
#define PB_BLOCK2_VS(op, T, R)                                                                                          \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_vs, R) const pb_##T *a = (const pb_##T *)a_, b = *(const pb_##T *)b_;           \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b))
#define PB_BLOCK2_SV(op, T, R)                                                                                          \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_sv, R) const pb_##T *b = (const pb_##T *)b_, a = *(const pb_##T *)a_;           \
    PB_BLOCK_LOOP(pb_##op##_##T(a, b[i]))
#define PB_BLOCK3(op, T, R)                                                                                             \
    PB_BLOCK_HEAD(pb_block_##op##_##T, R) const pb_bool *a = (const pb_bool *)a_;                                       \
    const pb_##T *b = (const pb_##T *)b_, *c = (const pb_##T *)c_;                                                      \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b[i], c[i]))
#define PB_BLOCK3_VSV(op, T, R)                                                                                         \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_vsv, R) const pb_bool *a = (const pb_bool *)a_;                                 \
    const pb_##T b = *(const pb_##T *)b_, *c = (const pb_##T *)c_;                                                      \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b, c[i]))
#define PB_BLOCK3_VVS(op, T, R)                                                                                         \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_vvs, R) const pb_bool *a = (const pb_bool *)a_;                                 \
    const pb_##T *b = (const pb_##T *)b_, c = *(const pb_##T *)c_;                                                      \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b[i], c))
#define PB_BLOCK3_VSS(op, T, R)                                                                                         \
    PB_BLOCK_HEAD(pb_block_##op##_##T##_vss, R) const pb_bool *a = (const pb_bool *)a_;                                 \
    const pb_##T b = *(const pb_##T *)b_, c = *(const pb_##T *)c_;                                                      \
    PB_BLOCK_LOOP(pb_##op##_##T(a[i], b, c))
#define PB_BLOCK_CAST(F, T)                                                                                             \
    PB_BLOCK_HEAD(pb_block_cast_##F##_##T, T) const pb_##F *a = (const pb_##F *)a_;                                     \
    PB_BLOCK_LOOP(pb_cast_##F##_##T(a[i]))
#define PB_BLOCK_ODD                                                                                                    \
    PB_BLOCK_HEAD(pb_block_odd, f32) const pb_f64 *a = (const pb_f64 *)a_;                                              \
    PB_BLOCK_LOOP(pb_odd_f32(a[i]))

/* Powers with one exponent: the common ones are products (as exact as powf, and NumPy's own short cuts for 2 and 1/2). */
#define PB_BLOCK_POW_VS(T)                                                                                              \
    PB_BLOCK_HEAD(pb_block_pow_##T##_vs, T) const pb_##T *a = (const pb_##T *)a_, b = *(const pb_##T *)b_;              \
    if (b == 2) PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = a[i] * a[i];                                         \
    else if (b == 3)                                                                                                    \
        PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = (pb_##T)((pb_f64)a[i] * (pb_f64)a[i] * (pb_f64)a[i]);        \
    else if (b == (pb_##T)0.5)                                                                                          \
        PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = pb_sqrt_##T(a[i]);                                           \
    else if (b == -1)                                                                                                   \
        PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = (pb_##T)1 / a[i];                                            \
    else                                                                                                                \
        for (int64_t i = 0; i < n; i++) out[i] = pb_pow_##T(a[i], b);                                                   \
    }

/* --- strided memory: `rows` rows of n elements, row and element strides in bytes, from or to contiguous native values ------- */

typedef void (*pb_load_fn)(char *dst, const char *src, int64_t rows, int64_t row, int64_t n, int64_t step);
typedef void (*pb_store_fn)(char *dst, const char *src, int64_t rows, int64_t row, int64_t n, int64_t step);

#define PB_LOAD_STORE(M, T)                                                                                             \
    static void pb_load_rows_##M(char *dst, const char *src, int64_t rows, int64_t row, int64_t n, int64_t step) {      \
        pb_##T *restrict out = (pb_##T *)dst;                                                                           \
        if (row == 0 && rows > 1) { /* one row again and again */                                                       \
            pb_load_rows_##M(dst, src, 1, 0, n, step);                                                                  \
            int64_t size = n * (int64_t)sizeof *out, total = size * rows;                                               \
            for (int64_t done = size; done < total; done *= 2)                                                          \
                memcpy(dst + done, dst, (size_t)(done < total - done ? done : total - done));                           \
            return;                                                                                                     \
        }                                                                                                               \
        for (; rows > 0; rows--, src += row, out += n) {                                                                \
            if (step == (int64_t)sizeof(pb_##M)) {                                                                      \
                const pb_##M *x = (const pb_##M *)src;                                                                  \
                PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = pb_widen_##M(x[i]);                                  \
            } else if (step == 2 * (int64_t)sizeof(pb_##M)) { /* one part of complex numbers; no load past the last one */ \
                const pb_##M *x = (const pb_##M *)src;                                                                  \
                PB_VECTOR for (int64_t i = 0; i < n - 1; i++) out[i] = pb_widen_##M(x[2 * i]);                          \
                if (n > 0) out[n - 1] = pb_widen_##M(x[2 * n - 2]);                                                     \
            } else if (step == 0) {                                                                                     \
                pb_##T x = pb_load_##M(src);                                                                            \
                for (int64_t i = 0; i < n; i++) out[i] = x;                                                             \
            } else {                                                                                                    \
                for (int64_t i = 0; i < n; i++) out[i] = pb_load_##M(src + i * step);                                   \
            }                                                                                                           \
        }                                                                                                               \
    }                                                                                                                   \
    static void pb_store_rows_##M(char *dst, const char *src, int64_t rows, int64_t row, int64_t n, int64_t step) {     \
        const pb_##T *x = (const pb_##T *)src;                                                                          \
        for (; rows > 0; rows--, dst += row, x += n) {                                                                  \
            if (step == (int64_t)sizeof(pb_##M)) {                                                                      \
                pb_##M *out = (pb_##M *)dst;                                                                            \
                PB_VECTOR for (int64_t i = 0; i < n; i++) out[i] = pb_narrow_##M(x[i]);                                 \
            } else {                                                                                                    \
                for (int64_t i = 0; i < n; i++) pb_store_##M(dst + i * step, x[i]);                                     \
            }                                                                                                           \
        }                                                                                                               \
    }
PB_LOAD_STORE(bool, bool) PB_LOAD_STORE(i8, i32) PB_LOAD_STORE(i16, i32) PB_LOAD_STORE(u8, i32) PB_LOAD_STORE(u16, i32)
PB_LOAD_STORE(i32, i32) PB_LOAD_STORE(u32, i64) PB_LOAD_STORE(i64, i64) PB_LOAD_STORE(f16, f32) PB_LOAD_STORE(f32, f32)
PB_LOAD_STORE(bf16, f32) PB_LOAD_STORE(f64, f64)

static const pb_load_fn pb_loads[PB_MEMORY_TYPES] = {
    [PB_M_bool] = pb_load_rows_bool, [PB_M_i8] = pb_load_rows_i8, [PB_M_i16] = pb_load_rows_i16,
    [PB_M_i32] = pb_load_rows_i32, [PB_M_i64] = pb_load_rows_i64, [PB_M_u8] = pb_load_rows_u8,
    [PB_M_u16] = pb_load_rows_u16, [PB_M_u32] = pb_load_rows_u32, [PB_M_f16] = pb_load_rows_f16,
    [PB_M_bf16] = pb_load_rows_bf16,
    [PB_M_f32] = pb_load_rows_f32, [PB_M_f64] = pb_load_rows_f64,
};
static const pb_store_fn pb_stores[PB_MEMORY_TYPES] = {
    [PB_M_bool] = pb_store_rows_bool, [PB_M_i8] = pb_store_rows_i8, [PB_M_i16] = pb_store_rows_i16,
    [PB_M_i32] = pb_store_rows_i32, [PB_M_i64] = pb_store_rows_i64, [PB_M_u8] = pb_store_rows_u8,
    [PB_M_u16] = pb_store_rows_u16, [PB_M_u32] = pb_store_rows_u32, [PB_M_f16] = pb_store_rows_f16,
    [PB_M_bf16] = pb_store_rows_bf16,
    [PB_M_f32] = pb_store_rows_f32, [PB_M_f64] = pb_store_rows_f64,
};
static const int8_t pb_memory_bytes[PB_MEMORY_TYPES] = {
    [PB_M_bool] = 1, [PB_M_i8] = 1, [PB_M_i16] = 2, [PB_M_i32] = 4, [PB_M_i64] = 8, [PB_M_u8] = 1, [PB_M_u16] = 2,
    [PB_M_u32] = 4, [PB_M_u64] = 8, [PB_M_f16] = 2, [PB_M_bf16] = 2, [PB_M_f32] = 4, [PB_M_f64] = 8,
};
/* Whether memory and native values of the type have one representation, so that views serve in place. */
static const int8_t pb_memory_native[PB_MEMORY_TYPES] = {
    [PB_M_bool] = 1, [PB_M_i32] = 1, [PB_M_i64] = 1, [PB_M_f32] = 1, [PB_M_f64] = 1,
};
static const int8_t pb_native_bytes[PB_NATIVE_TYPES] = {
    [PB_N_bool] = 1, [PB_N_i32] = 4, [PB_N_i64] = 8, [PB_N_f32] = 4, [PB_N_f64] = 8,
};

/* n copies of the value at `value`. */
static void pb_splat(char *dst, const char *value, int32_t bytes, int64_t n) {
    if (bytes == 4) {
        pb_i32 x, *out = (pb_i32 *)dst;
        memcpy(&x, value, 4);
        for (int64_t i = 0; i < n; i++) out[i] = x;
    } else if (bytes == 8) {
        pb_i64 x, *out = (pb_i64 *)dst;
        memcpy(&x, value, 8);
        for (int64_t i = 0; i < n; i++) out[i] = x;
    } else {
        memset(dst, *(const unsigned char *)value, (size_t)n);
    }
}

/* --- elements at byte offsets: gather, scatter, masked stores; raw items of 1, 2, 4 or 8 bytes ------------------------------- */

#define PB_RAW(BYTES, T)                                                                                                \
    static void pb_gather_##BYTES(char *dst, const char *base, const int64_t *offsets, int64_t n) {                     \
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * BYTES, base + offsets[i], BYTES);                              \
    }                                                                                                                   \
    static void pb_scatter_##BYTES(char *base, const int64_t *offsets, const pb_bool *mask, const char *src, int64_t n) { \
        if (!mask)                                                                                                      \
            for (int64_t i = 0; i < n; i++) memcpy(base + offsets[i], src + i * BYTES, BYTES);                          \
        else                                                                                                            \
            for (int64_t i = 0; i < n; i++)                                                                             \
                if (mask[i]) memcpy(base + offsets[i], src + i * BYTES, BYTES);                                         \
    }
PB_RAW(1, pb_u8) PB_RAW(2, pb_u16) PB_RAW(4, pb_u32) PB_RAW(8, uint64_t)

/* Whether one of 64 booleans holds. */
PB_INLINE int pb_any_of_64(const pb_bool *mask) {
    uint64_t words[8], any = 0;
    memcpy(words, mask, sizeof words);
    for (int k = 0; k < 8; k++) any |= words[k];
    return any != 0;
}

/* dst[i] = src[i] where the mask holds; other elements may be written, as they are. */
#define PB_BLEND(BYTES, T)                                                                                              \
    static void pb_blend_##BYTES(char *dst_, const pb_bool *mask, const char *src_, int64_t n) {                        \
        T *dst = (T *)dst_;                                                                                             \
        const T *src = (const T *)src_;                                                                                 \
        int64_t i = 0;                                                                                                  \
        for (; i + 64 <= n; i += 64)                                                                                    \
            if (pb_any_of_64(mask + i))                                                                                 \
                PB_VECTOR for (int64_t k = 0; k < 64; k++) dst[i + k] = mask[i + k] ? src[i + k] : dst[i + k];          \
        for (; i < n; i++) dst[i] = mask[i] ? src[i] : dst[i];                                                          \
    }
PB_BLEND(1, pb_u8) PB_BLEND(4, pb_u32) PB_BLEND(8, uint64_t)

static void pb_blend_raw(int32_t bytes, char *dst, const pb_bool *mask, const char *src, int64_t n) {
    switch (bytes) {
    case 1: pb_blend_1(dst, mask, src, n); break;
    case 4: pb_blend_4(dst, mask, src, n); break;
    default: pb_blend_8(dst, mask, src, n);
    }
}

static void pb_gather_raw(int32_t bytes, char *dst, const char *base, const int64_t *offsets, int64_t n) {
    switch (bytes) {
    case 1: pb_gather_1(dst, base, offsets, n); break;
    case 2: pb_gather_2(dst, base, offsets, n); break;
    case 4: pb_gather_4(dst, base, offsets, n); break;
    default: pb_gather_8(dst, base, offsets, n);
    }
}

static void pb_scatter_raw(int32_t bytes, char *base, const int64_t *offsets, const pb_bool *mask, const char *src,
                           int64_t n) {
    switch (bytes) {
    case 1: pb_scatter_1(base, offsets, mask, src, n); break;
    case 2: pb_scatter_2(base, offsets, mask, src, n); break;
    case 4: pb_scatter_4(base, offsets, mask, src, n); break;
    default: pb_scatter_8(base, offsets, mask, src, n);
    }
}
#endif
